"""Encryption at rest: what a store holds, who can read it, and what happens to who cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import App, Context, Job, JobFailed, NoKey, Refused, Retry, Snooze, UniqueBy
from holdfast.contrib.otel import instrument
from holdfast.encryption.keyring import Keyring
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.record import Claimed, NewJob
from holdfast.job.sealed import is_sealed, read_envelope, shown, write_envelope
from holdfast.job.state import JobState
from holdfast.job.stream import FollowFrom
from holdfast.testing import Harness
from holdfast.testing.servers import ValkeyServer
from tests.support import process_handlers
from tests.support.backends import BACKENDS, Backend
from tests.support.canaries import (
    BOTH,
    CANARY,
    FIRST,
    SECOND,
    all_logged,
    busy_day,
    drain,
    everything_in,
    one,
    shop,
)

MEMORY = "sqlite://"


@pytest.fixture(scope="session", params=["sqlite-file", "postgres", "valkey"])
def kept(request: pytest.FixtureRequest) -> Backend:
    """Every kind of store that keeps what a test can look at."""
    return BACKENDS[request.param](request)


@pytest.fixture
def server(kept: Backend, request: pytest.FixtureRequest) -> ValkeyServer | None:
    found = getattr(kept, "_server", None)
    return found if isinstance(found, ValkeyServer) else None


@pytest.fixture
async def url(kept: Backend) -> AsyncIterator[str]:
    yield await kept.empty()
    if hasattr(kept, "settled"):
        await kept.settled()


async def raw(app: App, job_id: str) -> Job:
    """The job as its store holds it."""
    [job] = await app.store.behind.jobs.get([JobId(job_id)])  # type: ignore[attr-defined]
    return job  # type: ignore[no-any-return]


# What is kept ---------------------------------------------------------------------------------


async def test_a_store_and_a_log_hold_nothing_of_what_users_wrote(
    kept: Backend, server: ValkeyServer | None, url: str
) -> None:
    app = shop(url)
    with all_logged() as lines:
        async with app:
            await busy_day(app)
            found = await everything_in(kept, server, url)
    assert "$enc" in found
    assert CANARY not in found
    assert [line for line in lines if CANARY in line] == []
    assert [line for line in lines if "job.attempt_failed" in line], "failures are logged"


async def test_without_keys_the_same_day_is_plain_to_see(
    kept: Backend, server: ValkeyServer | None, url: str
) -> None:
    """The test above could not fail otherwise."""
    app = shop(url, keys=None)
    with all_logged() as lines:
        async with app:
            await busy_day(app)
            found = await everything_in(kept, server, url)
    for what in (f"{CANARY} pushed", f"half of {CANARY}", f"sang {CANARY}", f"task:sing:{CANARY}"):
        assert what in found
    assert any(CANARY in line for line in lines)


async def test_a_program_with_the_keys_reads_everything(url: str) -> None:
    async with shop(url) as app:
        sung = await one(app, "sing").enqueue(CANARY)
        fell = await one(app, "fall").enqueue(CANARY)
        rested = await one(app, "rest").enqueue(CANARY)
        heard = await one(app, "hear").using(headers={"own": "yes"}).enqueue(CANARY)
        concert = await one(app, "concert").enqueue(CANARY)
        async with app.worker(queues={"default": 4}) as worker:
            assert await concert.result(timeout=20) == CANARY
            await worker.drain()
        assert await sung.result() == f"{CANARY} sung"
        assert await rested.result() == {"song": CANARY}
        assert await heard.result() == {"sender": CANARY, "own": "yes"}
        with pytest.raises(JobFailed, match=f"sang {CANARY}"):
            await fell.result()
        job = await app.client.get(fell.id)
        assert job.args == {"song": CANARY}
        assert [error.message for error in job.errors] == [f"fell while it sang {CANARY}"] * 2
        assert all(CANARY in str(error.traceback) for error in job.errors)
        resting = await app.client.get(rested.id)
        assert resting.progress is not None
        assert resting.progress.message == f"half of {CANARY}"
        assert resting.progress.checkpoint == {"song": CANARY}


async def test_what_happened_and_what_failed_is_read_with_the_keys_too(url: str) -> None:
    async with shop(url) as app:
        fell = await one(app, "fall").enqueue(CANARY)
        await drain(app)
        for store, text in (
            (app.store, f"fell while it sang {CANARY}"),
            (app.store.behind, "encrypted (key 2026-05)"),  # type: ignore[attr-defined]
        ):
            happened = await store.jobs.life([fell.id])
            assert {shown(str(each.message)) for each in happened} == {text}
            assert {each.kind for each in happened} == {"Yellow"}
            [failure] = await store.failures.find()
            assert (failure.kind, failure.count) == ("Yellow", 2)
            assert shown(failure.sample.message) == text


async def test_a_program_without_the_keys_sees_that_there_is_something(url: str) -> None:
    async with shop(url) as app:
        fell = await one(app, "fall").enqueue(CANARY)
        sung = await one(app, "sing").enqueue(CANARY)
        rested = await one(app, "rest").enqueue(CANARY)
        await drain(app)
    async with shop(url, keys=SECOND) as other, App(url) as plain:
        for client in (other.client, plain.client):
            job = await client.get(fell.id)
            assert job.args == job.headers == job.reason == "encrypted (key 2026-05)"
            assert {error.message for error in job.errors} == {"encrypted (key 2026-05)"}
            assert {error.kind for error in job.errors} == {"Yellow"}
            resting = await client.get(rested.id)
            assert resting.progress is not None
            assert resting.progress.checkpoint == "encrypted (key 2026-05)"
            assert resting.progress.message == "encrypted (key 2026-05)"
            failures = (await client.failures.page()).failures
            assert {one.sample.message for one in failures} == {"encrypted (key 2026-05)"}
            [listed] = (await client.page(ids=[sung.id])).jobs
            assert listed.result == "encrypted (key 2026-05)"
            with pytest.raises(NoKey, match="key 2026-05"):
                await client.result(sung.id)
            with pytest.raises(JobFailed, match=r"encrypted \(key 2026-05\)"):
                await client.result(fell.id)


async def test_values_of_signals_are_encrypted_for_their_job(url: str) -> None:
    app = shop(url)

    @app.task()
    async def waits(ctx: Context) -> str:
        return await ctx.signal("paid", str)

    async with app:
        job, other = await waits.enqueue(), await waits.using(delay=3_600).enqueue()
        for each in (job, other):
            await each.signal("paid", CANARY)
        behind = app.store.behind  # type: ignore[attr-defined]
        [held] = (await behind.signals.of([job.id]))[job.id]
        assert is_sealed(held.value_json)
        await drain(app)
        assert await job.result(timeout=20) == CANARY
        [step] = (await behind.steps.load([job.id]))[job.id]
        assert is_sealed(step.result_json)
        [signal] = await app.client.signals.of(other.id)
        assert signal.value == CANARY
    async with shop(url, keys=None) as without:
        [signal] = await without.client.signals.of(other.id)
        assert str(signal.value).startswith("encrypted (key ")


async def test_frames_of_streams_are_encrypted_for_their_job_and_stream(url: str) -> None:
    app = shop(url)

    @app.task()
    async def talks(ctx: Context) -> None:
        async with ctx.stream("tokens") as out:
            await out.write(CANARY)
            await out.write({"song": CANARY})

    async with app:
        job = await talks.enqueue()
        await drain(app)
        behind = app.store.behind  # type: ignore[attr-defined]
        [held] = await behind.streams.read([FollowFrom(job.id, "tokens")], 10)
        assert all(is_sealed(row.data) for row in held.frames)
        frames = [frame.data async for frame in job.stream("tokens")]
        assert frames == [CANARY, {"song": CANARY}]
    async with shop(url, keys=None) as without:
        with pytest.raises(NoKey, match="key 2026-05"):
            async for _ in without.client.streams.follow(job.id, "tokens"):
                pass


async def test_what_may_stay_plain_stays_plain(url: str) -> None:
    async with shop(url, unencrypted=("errors", "progress")) as app:
        fell = await one(app, "fall").enqueue(CANARY)
        rested = await one(app, "rest").enqueue(CANARY)
        await drain(app)
        job, resting = await raw(app, fell.id), await raw(app, rested.id)
        assert job.errors[0].message == f"fell while it sang {CANARY}"
        assert is_sealed(job.args_json)
        assert resting.progress is not None
        assert resting.progress.message == f"half of {CANARY}"
        assert is_sealed(resting.progress.checkpoint_json)


async def test_jobs_older_than_the_keys_run_on(url: str) -> None:
    async with shop(url, keys=None) as plain, shop(url) as app:
        job = await one(plain, "rest").enqueue("old")
        await drain(app)
        assert await one(app, "rest").job(job.id).result() == {"song": "old"}


@pytest.mark.parametrize("keys", [FIRST, None])
async def test_a_value_of_a_user_is_never_taken_for_an_encrypted_one(
    url: str, keys: Keyring | None
) -> None:
    """A function may save and return whatever it was sent, also what looks encrypted."""
    app, alike = App(url, keys=keys), {"$enc": 1, "kid": "2099-01", "n": "", "c": ""}

    @app.task(name="echo", retry=Retry.never())
    async def echo(ctx: Context, given: dict[str, object]) -> dict[str, object]:
        if ctx.checkpoint is None:
            await ctx.progress(0.5, checkpoint=given)
            raise Snooze(0)
        assert ctx.checkpoint == given
        return given

    async with app, App(url, keys=keys) as elsewhere:
        job = await echo.enqueue(alike)
        other = await elsewhere.task_named("echo").using(retry=Retry.never()).enqueue(**alike)
        async with app.worker(unreadable_for=0):
            assert await job.result(timeout=30) == alike
            with pytest.raises(JobFailed, match=r"it takes no '\$enc'"):
                await other.result(timeout=30)
        shown_job = await app.client.shown.job(await job.get())
        assert "encrypted" not in (shown_job.result_json or "encrypted")


# Unique keys, transactions, edits --------------------------------------------------------------


async def test_unique_keys_still_meet(url: str) -> None:
    async with shop(url) as app, shop(url, keys=BOTH) as rotated:
        first = await one(app, "sing").using(unique=CANARY, delay=60).enqueue(CANARY)
        again = await one(app, "sing").using(unique=CANARY).enqueue("other")
        later = await one(rotated, "sing").using(unique=CANARY).enqueue("other")
        assert (again.id, again.created) == (later.id, later.created) == (first.id, False)
        key = (await app.client.get(first.id)).unique_key
        assert str(key).startswith("hmac:2026-05:")


async def test_the_id_of_a_job_tells_nothing_of_its_unique_key() -> None:
    """A store with partitions finds the place of a key by bits of the id."""
    plain, hidden = shop(MEMORY, keys=None), shop(MEMORY)
    async with plain, hidden:
        ids = [
            (await one(app, "sing").using(unique=CANARY).enqueue("x")).id[-3:]
            for app in (plain, hidden)
        ]
        again = (await one(hidden, "sing").using(unique=CANARY).enqueue("x")).id[-3:]
    assert ids[0] != ids[1]
    assert ids[1] == again


async def test_a_debounced_job_runs_with_the_newest_arguments(url: str) -> None:
    pushed = UniqueBy(key="k", on_conflict="debounce")
    async with shop(url) as app, shop(url, keys=BOTH) as rotated:
        held = await one(app, "sing").using(unique=pushed).enqueue("first")
        for each, song in ((app, "second"), (rotated, "third")):
            pushed_out = await one(each, "sing").using(unique=pushed).enqueue(song)
            assert (pushed_out.id, pushed_out.how) == (held.id, "debounced")
            assert (await each.client.get(held.id)).args == {"song": song}
        await drain(rotated)
        assert await one(rotated, "sing").job(held.id).result() == "third sung"


async def test_debounced_arguments_open_for_the_holder_of_their_key_only(url: str) -> None:
    pushed = UniqueBy(key="k", on_conflict="debounce")
    other = UniqueBy(key="other", on_conflict="debounce")
    async with shop(url) as app:
        source = await one(app, "sing").using(unique=pushed).enqueue("first")
        target = await one(app, "sing").using(unique=other).enqueue("second")
        stolen = (await raw(app, source.id)).args_json
        await app.store.behind.jobs.edit([target.id], stolen)  # type: ignore[attr-defined]
        await drain(app)
        assert await source.result() == "first sung"
        with pytest.raises(JobFailed, match="it does not open with the key"):
            await target.result()


async def test_the_same_call_with_the_same_id_is_acknowledged_again(url: str) -> None:
    """No two encryptions of a call are equal, and after a rotation its key is another."""
    async with shop(url) as app, shop(url, keys=BOTH) as rotated:
        task = one(app, "sing").using(delay=60)
        job = await task.enqueue(CANARY)
        for each in (app, rotated):
            new = NewJob(job.id, "sing", "default", f'{{"song":"{CANARY}"}}', "{}")
            other = NewJob(job.id, "sing", "default", '{"song":"x"}', "{}")
            answers = await each.store.jobs.insert([new, other])
            assert [answer.how for answer in answers] == ["created", "taken"]


async def test_an_edit_encrypts_for_each_job(url: str) -> None:
    async with shop(url) as app:
        jobs = await one(app, "sing").using(delay=60).enqueue_many([("a",), ("b",)])
        ids = [job.id for job in jobs]
        assert sorted(await app.store.jobs.edit(ids, '{"song":"c"}')) == sorted(ids)
        texts = [(await raw(app, job_id)).args_json for job_id in ids]
        assert len(set(texts)) == 2
        assert [(await app.client.get(job_id)).args for job_id in ids] == [{"song": "c"}] * 2
    async with App(url) as plain:
        with pytest.raises(NoKey, match="2026-05"):
            await plain.client.edit(ids[0], args={"song": "d"})


# Filters ----------------------------------------------------------------------------------------


async def test_filters_on_arguments_and_errors_see_inside_with_the_keys(url: str) -> None:
    async with shop(url) as app:
        await one(app, "sing").using(delay=60).enqueue_many([(f"song {n}",) for n in range(30)])
        fell = await one(app, "fall").enqueue(CANARY)
        await drain(app)
        page = await app.client.page(args={"song": "song 7"})
        assert [job.args for job in page.jobs] == [{"song": "song 7"}]
        assert page.unsearched == 0
        [found] = (await app.client.page(error_text=f"sang {CANARY}".upper())).jobs
        assert found.id == fell.id
        assert await app.client.count(args={"song": "song 7"}) == {JobState.SCHEDULED: 1}
        seen: list[Job] = []
        cursor = None
        while True:
            page = await app.client.page(
                where="args.song:" + '"song 7"', limit=5, cursor=cursor, look=4
            )
            seen += page.jobs
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(seen) == 1, "short looks find what a long one finds"


async def test_without_the_keys_a_filter_says_that_it_cannot_see(url: str) -> None:
    async with shop(url) as app:
        await one(app, "sing").using(delay=60).enqueue(CANARY)
    async with App(url) as plain, shop(url, keys=SECOND) as other:
        for app in (plain, other):
            page = await app.client.page(args={"song": CANARY})
            assert (page.jobs, page.unsearched) == ((), 1)
            with pytest.raises(Refused, match="cannot see into them"):
                await app.client.count(args={"song": CANARY})
            with pytest.raises(Refused, match="cannot see into them"):
                await app.client.cancel_all(args={"song": CANARY})
            with pytest.raises(Refused, match="cannot see into them"):
                await app.client.operations.begin("cancel", args={"song": CANARY})
            assert await app.client.count(task="sing") == {JobState.SCHEDULED: 1}


async def test_jobs_of_a_schedule_are_found_by_its_name(url: str) -> None:
    async with shop(url) as app, app.worker() as worker:
        job_id = await app.client.schedules.trigger("dawn")
        await worker.drain()
        [job] = (await app.client.page(schedule="dawn")).jobs
        assert (job.id, job.result) == (job_id, CANARY)
        assert job.headers["of"] == CANARY
        [entry] = await app.client.schedules.history("dawn")
        assert entry.result == CANARY


# Who cannot open it -------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [None, SECOND], ids=["no keys", "another key"])
async def test_a_worker_without_the_key_leaves_the_job_for_one_that_has_it(
    url: str, keys: Keyring | None
) -> None:
    async with shop(url) as app, shop(url, keys=keys) as other:
        job = await one(app, "sing").enqueue(CANARY)
        await drain(other)
        left = await other.client.get(job.id)
        assert (left.state, left.attempts) == (JobState.SCHEDULED, 0)
        assert "encrypted (key 2026-05): this program has no key of that id" in str(left.reason)
        await app.client.reschedule(job.id, 0)
        await drain(app)
        assert await job.result() == f"{CANARY} sung"


def flipped(text: str) -> str:
    envelope = read_envelope(text)
    hidden = bytes([envelope.text[0] ^ 1, *envelope.text[1:]])
    return write_envelope(replaced(envelope, text=hidden))


def replaced(record: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(record, **changes)


def cut(text: str) -> str:
    return write_envelope(replaced(read_envelope(text), text=read_envelope(text).text[:-1]))


def renamed(text: str) -> str:
    return write_envelope(replaced(read_envelope(text), kid="2026-11"))


@pytest.mark.parametrize("harm", [flipped, cut, renamed, lambda text: text[:-9]])
async def test_an_altered_job_fails_its_attempts_and_says_which_key(url: str, harm: Any) -> None:
    async with shop(url, keys=BOTH) as app:
        task = one(app, "sing")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app.store.jobs._records.sealing, "first", "2026-05")  # type: ignore[attr-defined]
            job, good = await task.enqueue(CANARY), await task.enqueue(CANARY)
        sealed = (await raw(app, job.id)).args_json
        await app.store.behind.jobs.edit([job.id], harm(sealed))  # type: ignore[attr-defined]
        await drain(app)
        found = await app.client.get(job.id)
        assert (found.state, found.attempts) == (JobState.FAILED, 2)
        assert {error.kind for error in found.errors} == {"Undecipherable"}
        assert "does not open with the key of that id" in found.errors[-1].message
        assert CANARY not in found.errors[-1].message
        assert await good.result() == f"{CANARY} sung", "others go on"


async def test_what_is_moved_to_another_job_or_task_does_not_open(url: str) -> None:
    async with shop(url) as app:
        sing, fall = one(app, "sing").using(delay=60), one(app, "fall").using(delay=60)
        source, target, stranger = [await task.enqueue(CANARY) for task in (sing, sing, fall)]
        stolen = (await raw(app, source.id)).args_json
        for job in (target, stranger):
            await app.store.behind.jobs.edit([job.id], stolen)  # type: ignore[attr-defined]
            assert (await app.client.get(job.id)).args == "encrypted (key 2026-05, altered)"


async def test_no_handler_is_given_a_checkpoint_that_was_altered(url: str) -> None:
    async with shop(url) as app:
        job = await one(app, "sing").enqueue(CANARY)
        records = app.store.jobs._records  # type: ignore[attr-defined]
        planted = records.owner(new_job_id()).seal("checkpoint", '{"song":"planted"}')
        behind = app.store.behind.jobs  # type: ignore[attr-defined]
        claim = behind.claim

        async def with_another(*asked: Any) -> list[Claimed]:
            return [replaced(one, checkpoint=planted) for one in await claim(*asked)]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(behind, "claim", with_another)
            await drain(app)
        assert {error.kind for error in (await app.client.get(job.id)).errors} == {"Undecipherable"}


# Rotation ---------------------------------------------------------------------------------------


async def test_a_rotation_under_load_loses_nothing(url: str) -> None:
    """Old and new programs enqueue and work at the same time; each reads what the other wrote."""
    old, new = shop(url, keys=Keyring({**pairs(FIRST), **pairs(SECOND)})), shop(url, keys=BOTH)
    handles: list[Any] = []

    async def produce(app: App) -> None:
        for n in range(10):
            handles.extend(await one(app, "sing").enqueue_many([(f"{n} {k}",) for k in range(10)]))

    async with old, new, old.worker() as one_worker, new.worker() as other_worker:
        await asyncio.gather(produce(old), produce(new))
        await asyncio.gather(one_worker.drain(), other_worker.drain())
        results = [await handle.result() for handle in handles]
        kids = {read_envelope((await raw(new, one.id)).args_json).kid for one in handles}
    assert len(results) == 200
    assert all(result.endswith(" sung") for result in results)
    assert kids == {"2026-05", "2026-11"}


def pairs(ring: Keyring) -> dict[str, bytes]:
    return {kid: ring.bytes_of(kid) for kid in ring}


async def test_schedules_are_encrypted_anew_once_and_never_contested(url: str) -> None:
    async with shop(url) as old:
        await old.store.schedules.declare(old.schedules)
        before = await old.client.schedules.get("dawn")
    async with shop(url, keys=BOTH) as new:
        await new.store.schedules.declare(new.schedules)
        await new.store.schedules.declare(new.schedules)
        after = await new.client.schedules.get("dawn")
        [held] = await new.store.behind.schedules.find(["dawn"])  # type: ignore[attr-defined]
        assert read_envelope(held.definition.args).kid == "2026-11"
        assert after.definition == before.definition
        assert after.revision == before.revision + 1
        mixed = shop(url, keys=Keyring({**pairs(FIRST), **pairs(SECOND)}))
        async with mixed:
            for _ in range(3):
                await mixed.store.schedules.declare(mixed.schedules)
                await new.store.schedules.declare(new.schedules)
        last = await new.client.schedules.get("dawn")
        assert (last.rival, last.revision) == (None, after.revision + 1)


async def test_a_schedule_whose_key_is_missing_starts_nothing_and_says_why(url: str) -> None:
    async with shop(url) as app:
        await app.store.schedules.declare(app.schedules)
    async with App(url) as plain:
        with pytest.raises(NoKey, match="2026-05"):
            await plain.client.schedules.trigger("dawn")


async def test_status_says_which_keys_are_needed(url: str) -> None:
    async with shop(url) as old:
        await one(old, "fall").using(unique="u").enqueue(CANARY)
        await drain(old)
        await old.store.schedules.declare(old.schedules)
    async with shop(url, keys=BOTH) as new, App(url) as plain:
        await one(new, "sing").using(delay=60).enqueue_many([("a",), ("b",)])
        await plain.task_named("sing").using(delay=60).enqueue(song="plain")
        status = await plain.client.keys.status()
        assert status == await new.client.keys.status()
        newer, older = status.keys
        assert (newer.kid, newer.live, newer.ended) == ("2026-11", 2, 0)
        assert newer.texts == {"args": 2, "headers": 2}
        assert (older.kid, older.live, older.ended) == ("2026-05", 0, 1)
        assert older.texts.keys() == {
            *("args", "headers", "error", "traceback", "reason", "unique key"),
        }
        assert older.schedules == ("dawn",)
        assert (status.plain, status.looked_at, status.complete) == (1, 4, True)
        short = await plain.client.keys.status(look=2)
        assert (short.looked_at, short.complete) == (2, False)
        rest = await plain.client.keys.status(cursor=short.next_cursor)
        assert rest.looked_at == 2


# Every way in and out ---------------------------------------------------------------------------


async def test_an_operation_of_encrypted_words_touches_nothing_without_the_key(url: str) -> None:
    """Read as a filter, the encrypted words would mean every job."""
    async with shop(url) as app:
        jobs = await one(app, "sing").using(delay=60).enqueue_many([("a",), ("b",)])
        begun = await app.client.operations.begin("cancel", args={"song": "a"})
        async with App(url) as plain:
            found = await plain.client.operations.get(begun.id)
            assert is_sealed(found.request.which)
            with pytest.raises(NoKey):
                await plain.client.operations.follow(begun.id)
        await app.client.operations.follow(begun.id)
        states = [(await app.client.get(job.id)).state for job in jobs]
        assert states == [JobState.CANCELLED, JobState.SCHEDULED]


async def test_spans_tell_the_kind_of_an_error_only() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = shop(MEMORY)
    instrument(app, tracer_provider=provider)
    async with app:
        await one(app, "fall").enqueue(CANARY)
        heard = await one(app, "hear").enqueue(CANARY)
        await drain(app)
        assert "traceparent" in await heard.result()
        stored = await raw(app, heard.id)
        assert "traceparent" not in str(stored.headers_json)
    spans = exporter.get_finished_spans()
    told = json.dumps([json.loads(span.to_json()) for span in spans])
    assert CANARY not in told
    assert "Yellow" in told
    linked = [span for span in spans if span.name.startswith("process") and span.links]
    assert len(linked) == 3, "every attempt still links to its enqueue"


async def test_child_processes_and_threads_get_plain_arguments() -> None:
    app = App(MEMORY, keys=FIRST)
    add = app.task(process=True)(process_handlers.add)
    whistle = app.task(shout)
    async with app:
        sum_of, sung = await add.enqueue(2, 3), await whistle.enqueue(CANARY)
        await drain(app)
        assert (await sum_of.result(), await sung.result()) == (5, CANARY.upper())
        for job in (sum_of, sung):
            stored = await raw(app, job.id)
            assert is_sealed(stored.args_json)
            assert is_sealed(stored.result_json)


def shout(song: str) -> str:
    return song.upper()


async def test_the_harness_and_eager_jobs_know_nothing_of_keys() -> None:
    app = shop(MEMORY)
    async with Harness(app) as harness:
        job = await one(app, "sing").enqueue(CANARY)
        await harness.assert_enqueued(one(app, "sing"), CANARY)
        await harness.drain()
        assert await job.result() == f"{CANARY} sung"
    with app.eager():
        eager = await one(app, "sing").enqueue(CANARY)
        assert await eager.result() == f"{CANARY} sung"


def test_programs_without_a_loop_encrypt_too(tmp_path: Any) -> None:
    app = shop(f"sqlite:///{tmp_path / 'jobs.db'}")
    try:
        job = one(app, "sing").enqueue_sync(CANARY)
        many = one(app, "sing").enqueue_many_sync([(CANARY,)])
        app.run_worker({"default": 2}, burst=True)
        assert job.result_sync() == many[0].result_sync() == f"{CANARY} sung"
        assert app.sync.get(job.id).args == {"song": CANARY}
    finally:
        app.close_sync()
    files = list(tmp_path.iterdir())
    assert not any(CANARY.encode() in file.read_bytes() for file in files)
