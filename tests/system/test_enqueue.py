"""Enqueueing as a user does it: one, many, without a loop, inside a transaction, again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    App,
    BadArguments,
    BadOption,
    Context,
    JobState,
    NotOpen,
    PayloadTooLarge,
    Task,
    UniqueBy,
    WrongLoop,
)
from holdfast.client.client import Client
from holdfast.clock import Clock
from holdfast.errors import StoreError
from holdfast.job.ids import new_job_id
from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from holdfast.testing import Harness
from tests.support.backends import Backend, SqliteFile
from tests.support.forking import forks


@dataclass(frozen=True)
class Letter:
    to: str
    sent: datetime | None = None


class Mail:
    """A program with a few tasks, made the way a user makes one: with no loop around."""

    def __init__(self, url: str) -> None:
        self.app = App(url)

        @self.app.task(queue="mail")
        async def send(to: str, number: int = 0) -> str:
            return f"{to}:{number}"

        @self.app.task(queue="mail")
        async def post(ctx: Context, letter: Letter) -> Letter:
            return Letter(letter.to, datetime.now(UTC))

        self.send = send
        self.post = post


@pytest.fixture
async def mail(backend: Backend) -> AsyncIterator[Mail]:
    program = Mail(await backend.empty())
    async with program.app:
        yield program


async def count(mail: Mail) -> int:
    return sum((await mail.app.client.count()).values())


def test_a_task_called_plainly_just_runs() -> None:
    assert asyncio.run(Mail("sqlite://").send("a", 1)) == "a:1"


async def test_those_who_open_an_app_at_the_same_moment_share_its_store(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Mail(await backend.empty()).app
    opened: list[Store] = []

    def noted(url: str, clock: Clock | None = None, **keys: Any) -> Store:
        opened.append(open_store(url, clock=clock, **keys))
        return opened[-1]

    monkeypatch.setattr("holdfast.app.open_store", noted)
    await asyncio.gather(*(app.__aenter__() for _ in range(3)))
    for _ in range(3):
        assert [app.store] == opened
        await app.__aexit__(None, None, None)
    with pytest.raises(NotOpen):
        _ = app.store


async def test_an_app_whose_store_cannot_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    app = Mail(f"sqlite:///{folder}/jobs.db").app
    refused = await asyncio.gather(app.__aenter__(), app.__aenter__(), return_exceptions=True)
    assert [type(error) for error in refused] == [StoreError, StoreError]
    folder.mkdir()
    async with app:
        assert await app.client.count() == {}


async def test_an_enqueued_job_waits_with_its_arguments_and_options(mail: Mail) -> None:
    task = mail.send.using(priority=-5, tags=["vip"], headers={"trace": "1"}, queue="fast")
    job = await (await task.enqueue("a@example.org", number=3)).get()
    assert (job.state, job.queue, job.priority) == (JobState.READY, "fast", -5)
    assert (job.args, job.tags) == ({"to": "a@example.org", "number": 3}, ("vip",))


async def test_a_delayed_job_is_scheduled_by_the_store_clock(mail: Mail) -> None:
    job = await (await mail.send.using(delay=timedelta(minutes=1)).enqueue("a")).get()
    assert job.state is JobState.SCHEDULED
    assert job.due_at is not None
    assert job.due_at - job.created_at == timedelta(minutes=1)


async def test_a_moment_may_be_given_in_any_zone(mail: Mail) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    local = moment.astimezone()
    job = await (await mail.send.using(run_at=local, deadline=moment).enqueue("a")).get()
    assert (job.due_at, job.deadline_at) == (moment, moment)


async def test_a_thousand_concurrent_calls_share_round_trips(
    mail: Mail, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    insert = mail.app.store.jobs.insert

    async def counted(jobs):  # type: ignore[no-untyped-def]
        calls.append(len(jobs))
        return await insert(jobs)

    monkeypatch.setattr(mail.app.store.jobs, "insert", counted)
    await asyncio.gather(*(mail.send.enqueue("a", n) for n in range(1000)))
    assert sum(calls) == 1000 == await count(mail)
    assert len(calls) <= 4


async def test_many_calls_stream_in_from_any_iterable(mail: Mail) -> None:
    handles = await mail.send.enqueue_many((f"{n}@example.org", n) for n in range(5000))
    assert len({handle.id for handle in handles}) == 5000 == await count(mail)


async def test_many_calls_stream_in_from_an_async_iterable_of_named_arguments(mail: Mail) -> None:
    async def calls() -> AsyncIterator[dict[str, object]]:
        for n in range(10):
            yield {"to": "a", "number": n}

    assert len(await mail.send.enqueue_many(calls())) == 10 == await count(mail)


async def test_many_keep_their_order_of_arrival(mail: Mail) -> None:
    handles = await mail.send.enqueue_many(("a", n) for n in range(1200))
    assert await mail.app.store.jobs.ahead(handles[0].id) == 0
    assert await mail.app.store.jobs.ahead(handles[700].id) == 700


async def test_one_bad_call_among_many_stops_before_its_chunk_is_written(mail: Mail) -> None:
    with pytest.raises(BadArguments, match="number") as error:
        await mail.send.enqueue_many([("a", 1), ("b", "two")])
    assert await count(mail) == 0
    assert "0 jobs before this chunk were written" in error.value.__notes__[0]


@pytest.mark.parametrize("call", ["a string", 5, None])
async def test_a_call_among_many_must_be_a_tuple_or_a_dict(mail: Mail, call: object) -> None:
    with pytest.raises(BadArguments, match="a tuple or a dict"):
        await mail.send.enqueue_many([call])


async def test_an_enqueue_repeated_with_its_id_makes_no_second_job(mail: Mail) -> None:
    own = new_job_id()
    first = await mail.send.using(id=own).enqueue("a")
    again = await mail.send.using(id=own).enqueue("a")
    assert (first.id, again.id, await count(mail)) == (own, own, 1)


async def test_an_option_of_the_wrong_type_fails_no_enqueue_beside_it(mail: Mail) -> None:
    async def enqueue(**options: Any) -> object:
        return await mail.send.using(**options).enqueue("a")

    wrong: list[dict[str, Any]] = [
        {"retention": 3600},
        {"keep_result": "no"},
        {"max_crashes": "3"},
        {"timeout": True},
        {"run_at": datetime.max.replace(tzinfo=UTC)},
    ]
    calls = [call for options in wrong for call in (enqueue(), enqueue(**options))]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["JobHandle", "BadOption"] * 5
    assert await count(mail) == 5


async def test_an_id_that_another_call_has_is_an_error_for_that_call_only(mail: Mail) -> None:
    first = await mail.send.using(id=new_job_id()).enqueue("a")
    task = mail.send.using(id=first.id)
    answers = await asyncio.gather(
        mail.send.enqueue("b"),
        task.enqueue("c"),
        mail.post.using(id=first.id).enqueue(Letter("a")),
        task.enqueue("a"),
        mail.send.enqueue("d"),
        return_exceptions=True,
    )
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["JobHandle", "IdTaken", "IdTaken", "JobHandle", "JobHandle"]
    assert str(first.id) in str(answers[1])
    assert await count(mail) == 3


@pytest.mark.parametrize("args", [(), ("to", "number"), ("number",)])
async def test_a_unique_rule_fills_in_defaults_before_it_makes_its_key(
    mail: Mail, args: tuple[str, ...]
) -> None:
    task = mail.send.using(unique=UniqueBy(args=args))
    first = await task.enqueue("a")
    assert (await task.enqueue("a", 0)).id == first.id
    assert (await task.enqueue(to="a", number=0)).id == first.id
    assert (await task.enqueue("a", 1)).created


async def test_a_unique_rule_of_one_state_holds_in_that_state_only(mail: Mail) -> None:
    task = mail.send.using(unique=UniqueBy(key="k", states=["ready"]))  # type: ignore[arg-type]
    first = await task.enqueue("a")
    assert (await task.enqueue("b")).id == first.id
    await first.cancel()
    assert (await task.enqueue("c")).created


async def test_a_unique_rule_names_parameters_of_its_task(mail: Mail) -> None:
    with pytest.raises(BadOption, match=r"send': unique args must be .*to, number"):
        mail.send.using(unique=UniqueBy(args=("user",)))


async def test_a_unique_key_answers_with_the_job_that_is_there(mail: Mail) -> None:
    task = mail.send.using(unique="welcome:42")
    first, second = await task.enqueue("a"), await task.enqueue("b")
    assert (first.created, second.created) == (True, False)
    assert first.id == second.id
    assert await count(mail) == 1


async def test_a_key_may_be_derived_from_chosen_arguments(mail: Mail) -> None:
    task = mail.send.using(unique=UniqueBy(args=("to",)))
    first = await task.enqueue("a", 1)
    same, other = await task.enqueue("a", 2), await task.enqueue("b", 1)
    assert same.id == first.id
    assert other.id != first.id


async def test_concurrent_calls_with_one_key_make_one_job(mail: Mail) -> None:
    task = mail.send.using(unique="once")
    handles = await asyncio.gather(*(task.enqueue("a", n) for n in range(50)))
    assert len({handle.id for handle in handles}) == 1 == await count(mail)
    assert sum(handle.created for handle in handles) == 1


async def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(
    mail: Mail,
) -> None:
    with pytest.raises(BadArguments, match="number"):
        await mail.send.enqueue("a", "three")  # type: ignore[arg-type]
    with pytest.raises(BadArguments, match="missing"):
        await mail.send.enqueue()  # type: ignore[call-arg]
    assert await count(mail) == 0


async def test_a_payload_over_the_limit_is_refused_before_anything_is_written(mail: Mail) -> None:
    with pytest.raises(PayloadTooLarge, match="over the limit of 262144"):
        await mail.send.enqueue("ä" * 140_000)
    assert await count(mail) == 0


async def test_an_unknown_option_names_the_known_ones(mail: Mail) -> None:
    with pytest.raises(BadOption, match=r"one of .*priority"):
        mail.send.using(prio=3)  # type: ignore[call-arg]


def test_a_closed_app_says_how_to_open_it() -> None:
    with pytest.raises(NotOpen, match="async with app"):
        asyncio.run(Mail("sqlite://").send.enqueue("a"))


async def test_a_program_without_a_loop_can_enqueue_and_read(backend: Backend) -> None:
    url = await backend.empty()

    def program() -> int:
        mail = Mail(url)
        ids = {mail.send.enqueue_sync("a", n).id for n in range(20)}
        found = mail.app.run_sync(lambda client: client.count())
        mail.app.close_sync()
        return found[JobState.READY] if len(ids) == 20 else -1

    assert await asyncio.to_thread(program) == 20


FORKING = """
import os, sys
from holdfast import App

app = App(sys.argv[1])

@app.task()
def work(n: int) -> None: ...

work.enqueue_sync(1)
child = os.fork()
work.enqueue_sync(2)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert app.run_sync(lambda client: client.count()) == {"ready": 3}
"""


def test_a_program_that_forks_after_its_first_enqueue_goes_on(tmp_path: Path) -> None:
    """As web servers do that load the program before they fork."""
    url = f"sqlite:///{tmp_path / 'forked.db'}"
    ran = forks().run_code(FORKING, url)
    assert ran.returncode == 0, ran.stderr


async def test_a_program_with_a_loop_can_still_enqueue_from_its_threads(mail: Mail) -> None:
    handle = await asyncio.to_thread(mail.send.enqueue_sync, "a")
    assert (await handle.get()).state is JobState.READY
    await asyncio.to_thread(mail.app.close_sync)


async def test_a_sync_enqueue_follows_the_app_to_another_store_and_back(backend: Backend) -> None:
    own, other = backend.fresh(), backend.fresh()
    for url in (own, other):
        await open_store(url).migrate()
    mail = Mail(own)

    def counted(n: int) -> dict[JobState, int]:
        mail.send.enqueue_sync("a", n)
        return mail.app.run_sync(lambda client: client.count())

    assert await asyncio.to_thread(counted, 1) == {JobState.READY: 1}
    with mail.app.using_store(other):
        assert await asyncio.to_thread(counted, 2) == {JobState.READY: 1}
    assert await asyncio.to_thread(counted, 3) == {JobState.READY: 2}
    await asyncio.to_thread(mail.app.close_sync)


async def test_a_sync_enqueue_in_a_harness_stays_there(backend: Backend) -> None:
    mail = Mail(await backend.empty())
    await asyncio.to_thread(mail.send.enqueue_sync, "before")
    for _ in range(2):
        async with Harness(mail.app) as harness:
            await asyncio.to_thread(mail.send.enqueue_sync, "inside")
            assert (await harness.drain()).attempts == 1
    await asyncio.to_thread(mail.send.enqueue_sync, "after")
    assert mail.app.run_sync(lambda client: client.count()) == {JobState.READY: 2}
    mail.app.close_sync()


async def test_a_sync_enqueue_meets_a_store_in_memory_that_was_opened_later() -> None:
    mail = Mail("sqlite://")
    for _ in range(2):
        await asyncio.to_thread(mail.send.enqueue_sync, "unseen")
        async with mail.app:
            await asyncio.to_thread(mail.send.enqueue_sync, "seen")
            assert await count(mail) == 1
    mail.app.close_sync()


def test_a_sync_call_inside_run_sync_is_told_to_await(backend: Backend) -> None:
    mail = Mail(asyncio.run(backend.empty()))

    async def nested(client: Client) -> None:
        mail.send.enqueue_sync("a")

    with pytest.raises(WrongLoop, match=r"run_sync .* await the verbs of the client"):
        mail.app.run_sync(nested)
    assert mail.app.run_sync(lambda client: client.count()) == {}
    mail.app.close_sync()


async def test_another_event_loop_is_told_what_to_call_instead(mail: Mail) -> None:
    async def elsewhere() -> None:
        with pytest.raises(WrongLoop, match="enqueue_sync or run_sync"):
            await mail.send.enqueue("a")
        with pytest.raises(WrongLoop, match="enqueue_sync or run_sync"):
            await mail.send.job(new_job_id()).result()
        with pytest.raises(WrongLoop, match="enqueue_sync or run_sync"):
            async with mail.app:
                raise AssertionError("opened twice")
        mail.send.enqueue_sync("b")

    await asyncio.to_thread(asyncio.run, elsewhere())
    assert await count(mail) == 1
    await asyncio.to_thread(mail.app.close_sync)


async def test_a_job_enqueued_in_a_transaction_is_rolled_back_with_it(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    url = SqliteFile(request).fresh()
    mail = Mail(url)
    async with mail.app:
        with closing(sqlite3.connect(SqliteFile.path(url))) as connection:
            connection.execute("create table customer (name text)")
            connection.execute("insert into customer values ('a')")
            await mail.send.using(connection=connection).enqueue("a")
            connection.rollback()
            assert await count(mail) == 0
            connection.execute("insert into customer values ('b')")
            mail.send.using(connection=connection).enqueue_sync("b")
            connection.commit()
        assert await count(mail) == 1


def typed_by_the_signature(send: Task[[str, int], str]) -> None:
    """Checked by the type checker, never called: `enqueue` has the function's own types."""
    send.enqueue_sync("a", 1)
    send.enqueue_sync("a", "b")  # type: ignore[arg-type]
