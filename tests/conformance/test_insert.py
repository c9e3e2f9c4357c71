"""Jobs.insert: what was acknowledged is there, once, as it was given."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.body import BODY, LISTS, SHOWN, body_of, body_reader
from holdfast.store.contract.filters import JobFilter
from tests.conformance.builders import RETURNED, Scene, ids, new_job
from tests.support.backends import siblings


async def test_an_empty_batch_inserts_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.insert([]) == []


async def test_a_job_is_ready_at_once(scene: Scene) -> None:
    job = await scene.enqueue()
    assert await scene.state(job) is JobState.READY


async def test_a_job_is_kept_as_it_was_given(scene: Scene) -> None:
    policy = Policy(retry=Retry.linear(max_attempts=7, base=3), timeout=30, max_crashes=2)
    given = new_job(
        "mail.send",
        queue="mail",
        args='{"to":["a@example.org"],"n":1.5}',
        policy=policy,
        priority=-5,
        tags=("tenant:1", "bulk"),
        headers='{"traceparent":"00-ab"}',
    )
    await scene.store.jobs.insert([given])
    kept = await scene.job(given.id)
    assert (kept.task, kept.queue, kept.args_json) == ("mail.send", "mail", given.args)
    assert (kept.priority, kept.policy) == (-5, encode_policy(policy))
    assert (kept.tags, kept.headers_json) == (("tenant:1", "bulk"), given.headers)


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (1, {}),
        (2, {}),
        (150, {}),
        (1, {"blocked": True}),
        (1, {"delay": 60.0}),
        (1, {"unique": Unique("k")}),
    ],
    ids=["alone", "together", "many", "blocked", "later", "with a key"],
)
async def test_every_way_in_keeps_the_whole_body(
    scene: Scene, count: int, options: dict[str, Any]
) -> None:
    """Whatever fields a body has: a field that one way forgets comes back as its default."""
    body: dict[str, Any] = {name: ("a", name) if name in LISTS else f'["{name}"]' for name in BODY}
    body |= options | {"policy": Policy(timeout=2.5)}
    given = [new_job(**body) for _ in range(count)]
    await scene.store.jobs.insert(given)
    kept = await scene.store.jobs.get([job.id for job in given])
    assert len(kept) == count
    shown = body_reader([SHOWN[name] for name in BODY])
    assert {shown(job) for job in kept} == {body_of(given[0])}


async def test_a_new_job_has_no_history(scene: Scene) -> None:
    job = await scene.job(await scene.enqueue())
    assert (job.attempts, job.crashes, job.fence, job.errors) == (0, 0, 0, ())
    assert (job.worker_id, job.finished_at, job.result, job.progress) == (None, None, None, None)


async def test_a_job_is_created_at_the_stores_time(scene: Scene) -> None:
    assert (await scene.job(await scene.enqueue())).created_at == scene.clock.now


@pytest.mark.parametrize(
    "args",
    [
        '{"name":"Ada \\u0000 Lovelace"}',
        '{"name":"Zoë 🦊 漢字 \\ud83e\\udd8a"}',
        '"quotes \' \\" and \\\\ backslashes"',
        '"; drop table job; --"',
        '"$1 %s :name ?1"',
        "null",
    ],
    ids=["escaped NUL", "unicode", "quotes", "SQL", "placeholders", "null"],
)
async def test_arguments_come_back_to_the_letter(scene: Scene, args: str) -> None:
    job = await scene.enqueue(args=args, headers=args)
    assert ((await scene.job(job)).args_json, (await scene.job(job)).headers_json) == (args, args)
    assert (await scene.claim_one()).args == args


async def test_names_and_tags_may_be_any_text(scene: Scene) -> None:
    job = await scene.enqueue("tâche.é", queue="größe/1", tags=('a,"b"', "{c}", "🦊", "x'y"))
    kept = await scene.job(job)
    assert (kept.task, kept.queue) == ("tâche.é", "größe/1")
    assert kept.tags == ('a,"b"', "{c}", "🦊", "x'y")


async def test_a_delayed_job_is_scheduled_by_the_stores_clock(scene: Scene) -> None:
    job = await scene.job(await scene.enqueue(delay=60.0))
    assert (job.state, job.due_at) == (JobState.SCHEDULED, scene.after(60))


async def test_a_job_with_a_time_is_scheduled_for_it(scene: Scene) -> None:
    job = await scene.job(await scene.enqueue(run_at=scene.after(90)))
    assert (job.state, job.due_at) == (JobState.SCHEDULED, scene.after(90))


async def test_a_job_whose_time_has_come_is_ready(scene: Scene) -> None:
    assert await scene.state(await scene.enqueue(run_at=scene.after(-1))) is JobState.READY
    assert await scene.state(await scene.enqueue(run_at=scene.after(0))) is JobState.READY
    assert await scene.state(await scene.enqueue(delay=0.0)) is JobState.READY


async def test_a_fraction_of_a_second_is_not_lost(scene: Scene) -> None:
    job = await scene.job(await scene.enqueue(delay=0.25))
    assert job.due_at == scene.clock.now + timedelta(milliseconds=250)


async def test_a_deadline_is_measured_by_the_stores_clock(scene: Scene) -> None:
    assert (await scene.job(await scene.enqueue(deadline_in=60.0))).deadline_at == scene.after(60)
    given = await scene.enqueue(deadline_at=scene.after(90))
    assert (await scene.job(given)).deadline_at == scene.after(90)


async def test_delay_and_deadline_do_not_share_a_place(scene: Scene) -> None:
    job = await scene.job(await scene.enqueue(delay=60.0, deadline_in=30.0))
    assert (job.due_at, job.deadline_at) == (scene.after(60), scene.after(30))


async def test_answers_come_in_the_order_asked(scene: Scene) -> None:
    jobs = [new_job(delay=60.0 if n % 3 else None) for n in range(50)]
    inserted = await scene.store.jobs.insert(jobs)
    assert ids(inserted) == [job.id for job in jobs]
    assert {one.how for one in inserted} == {"created"}


async def test_an_insert_whose_reply_was_lost_can_be_repeated(scene: Scene) -> None:
    job = new_job()
    first = await scene.store.jobs.insert([job])
    assert await scene.store.jobs.insert([job]) == first
    assert await scene.claim(10) != []
    assert await scene.claim(10) == []


async def test_a_repeated_insert_changes_nothing(scene: Scene) -> None:
    job = new_job(priority=1)
    await scene.store.jobs.insert([job])
    before = await scene.job(job.id)
    await scene.store.jobs.insert([new_job("other", id=job.id, priority=9, delay=60.0)])
    assert await scene.job(job.id) == before


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "delayed": {"delay": 60.0},
    "dated": {"deadline_in": 60.0},
    "keyed": {"unique": Unique("k")},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("neighbours", [0, 60])
async def test_an_id_that_another_call_has_is_refused_and_its_neighbours_are_written(
    scene: Scene, way: str, neighbours: int
) -> None:
    holder = new_job(**WAYS[way])
    await scene.store.jobs.insert([holder])
    for other in ({"args": '{"name":"Eve"}'}, {"task": "other"}):
        taken = new_job(**(WAYS[way] | {"id": holder.id} | other))
        batch = [new_job() for _ in range(2 * neighbours)]
        batch.insert(neighbours, taken)
        answers = await scene.store.jobs.insert(batch)
        assert ids(answers) == [job.id for job in batch]
        hows = ["taken" if job is taken else "created" for job in batch]
        assert [answer.how for answer in answers] == hows
    kept = await scene.job(holder.id)
    assert (kept.task, kept.args_json) == (holder.task, holder.args)
    assert sum((await scene.store.jobs.count(JobFilter())).values()) == 1 + 4 * neighbours


async def test_of_two_calls_with_one_id_in_a_batch_the_first_has_it(scene: Scene) -> None:
    first = new_job()
    batch = [first, new_job(id=first.id, args='{"name":"Eve"}'), new_job(id=first.id)]
    answers = await scene.store.jobs.insert(batch)
    assert [answer.how for answer in answers] == ["created", "taken", "created"]
    assert (await scene.job(first.id)).args_json == first.args


async def test_a_repeated_insert_does_not_revive_an_ended_job(scene: Scene) -> None:
    job = new_job()
    await scene.store.jobs.insert([job])
    await scene.finish(await scene.claim_one(), RETURNED)
    [again] = await scene.store.jobs.insert([job])
    assert again.how == "created"
    assert await scene.state(job.id) is JobState.SUCCEEDED
    assert await scene.claim(10) == []


async def test_one_id_twice_in_a_batch_is_one_job(scene: Scene) -> None:
    job = new_job()
    inserted = await scene.store.jobs.insert([job, new_job(), job])
    assert [one.how for one in inserted] == ["created"] * 3
    assert inserted[0] == inserted[2]
    assert len(await scene.claim(10)) == 2


async def test_old_and_new_ids_mix_in_a_batch(scene: Scene) -> None:
    old, new = new_job(), new_job()
    await scene.store.jobs.insert([old])
    assert ids(await scene.store.jobs.insert([new, old])) == [new.id, old.id]
    assert await scene.line() == [old.id, new.id]


async def test_a_large_batch_is_inserted_in_order(scene: Scene) -> None:
    jobs = await scene.enqueue_many(2_500)
    assert await scene.line() == jobs[:1000]
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 2_500}


async def test_a_large_payload_is_kept_whole(scene: Scene) -> None:
    args = '"' + "é" * 200_000 + '"'
    assert (await scene.job(await scene.enqueue(args=args))).args_json == args


async def test_many_inserts_at_once_all_arrive(scene: Scene) -> None:
    async with siblings(scene.store, 3) as others:
        await asyncio.gather(
            *(scene.through(other).enqueue_many(20) for other in others for _ in range(5))
        )
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 300}


async def test_one_id_inserted_by_many_at_once_is_one_job(scene: Scene) -> None:
    job = new_job(id=new_job_id())
    async with siblings(scene.store, 3) as others:
        answers = await asyncio.gather(*(other.jobs.insert([job]) for other in others))
    assert {answer[0].how for answer in answers} == {"created"}
    assert await scene.line() == [job.id]
