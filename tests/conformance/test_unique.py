"""Unique keys: at most one job holds a key while it is in one of the states it chose."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast.errors import KeyHeld
from holdfast.job.ends import (
    End,
    HandedBack,
    PutOff,
    Reclaimed,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, Retention
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import LIVE, JobState
from holdfast.job.unique import OnConflict, Unique
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic
from tests.conformance.builders import (
    FAILED,
    QUEUE,
    RAISED,
    REACHABLE,
    RETURNED,
    Scene,
    ids,
    new_job,
)
from tests.support.backends import siblings
from tests.support.listening import listening

KEEP = Unique("k")
REPLACE = Unique("k", on_conflict="replace")
DEBOUNCE = Unique("k", on_conflict="debounce")
ANY_MODE: list[OnConflict] = ["keep", "replace", "debounce"]


@pytest.mark.parametrize("mode", ANY_MODE)
async def test_the_first_job_of_a_key_is_created(scene: Scene, mode: OnConflict) -> None:
    assert (await scene.insert(unique=Unique("k", on_conflict=mode))).how == "created"


@pytest.mark.parametrize("state", [state for state in REACHABLE if state in LIVE])
async def test_a_live_job_keeps_others_out(scene: Scene, state: JobState) -> None:
    holder = await scene.in_state(state, unique=KEEP)
    again = await scene.insert(unique=KEEP)
    assert (again.how, again.id) == ("existing", holder)


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in LIVE])
async def test_an_ended_job_lets_others_in(scene: Scene, state: JobState) -> None:
    await scene.in_state(state, unique=KEEP)
    assert (await scene.insert(unique=KEEP)).how == "created"


async def test_a_job_waiting_for_its_retry_keeps_others_out(scene: Scene) -> None:
    holder = await scene.ended(RAISED, unique=KEEP)
    assert await scene.state(holder.id) is JobState.SCHEDULED
    again = await scene.insert(unique=KEEP)
    assert (again.how, again.id) == ("existing", holder.id)


async def test_a_key_is_held_through_every_turn_of_a_jobs_life(scene: Scene) -> None:
    holder = await scene.enqueue(unique=KEEP)
    for end in (HandedBack(), Snoozed(0), RAISED, WasSuspended(None)):
        await scene.finish(await scene.claim_one(), end)
        assert (await scene.insert(unique=KEEP)).id == holder
        await scene.store.jobs.reschedule([holder], 0)
        await scene.store.jobs.resume([holder])
    await scene.finish(await scene.claim_one(), RETURNED)
    assert (await scene.insert(unique=KEEP)).how == "created"


async def test_other_keys_are_other_keys(scene: Scene) -> None:
    keys = ["k", "K", "k ", "ключ", "🦊", "k" * 500, "%", "k%"]
    answers = [await scene.insert(unique=Unique(key)) for key in keys]
    assert {answer.how for answer in answers} == {"created"}


async def test_a_mask_decides_when_a_key_is_free(scene: Scene) -> None:
    """A job that others may follow as soon as it runs."""
    waiting = Unique("k", states=frozenset({JobState.READY, JobState.SCHEDULED}))
    first = await scene.enqueue(unique=waiting)
    assert (await scene.insert(unique=waiting)).id == first
    claimed = await scene.claim_one()
    second = await scene.insert(unique=waiting)
    assert (second.how, claimed.id) == ("created", first)
    assert (await scene.insert(unique=waiting)).id == second.id


async def test_a_mask_may_hold_a_key_beyond_the_end(scene: Scene) -> None:
    once = Unique("k", states=LIVE | {JobState.SUCCEEDED})
    failed = await scene.ended(FAILED, unique=once)
    succeeded = await scene.ended(RETURNED, unique=once)
    assert failed.id != succeeded.id
    again = await scene.insert(unique=once)
    assert (again.how, again.id) == ("existing", succeeded.id)


async def test_the_holders_mask_counts_not_the_newcomers(scene: Scene) -> None:
    await scene.running(unique=Unique("k", states=frozenset({JobState.READY})))
    assert (await scene.insert(unique=Unique("k", states=frozenset(JobState)))).how == "created"


async def test_a_conflict_writes_nothing(scene: Scene) -> None:
    holder = await scene.enqueue(unique=KEEP, priority=1)
    before = await scene.job(holder)
    refused = new_job(unique=KEEP, priority=9)
    await scene.store.jobs.insert([refused])
    assert await scene.job(holder) == before
    assert await scene.state(refused.id) is None
    assert await scene.line() == [holder]


async def test_a_repeated_insert_of_a_holder_answers_created(scene: Scene) -> None:
    job = new_job(unique=KEEP)
    await scene.store.jobs.insert([job])
    assert (await scene.store.jobs.insert([job]))[0].how == "created"


async def test_a_repeated_replace_does_not_replace_itself(scene: Scene) -> None:
    await scene.enqueue(unique=KEEP)
    job = new_job(unique=REPLACE)
    await scene.store.jobs.insert([job])
    [again] = await scene.store.jobs.insert([job])
    assert again.id == job.id
    assert await scene.state(job.id) is JobState.READY


async def test_a_repeated_insert_after_its_end_is_not_a_conflict_with_its_successor(
    scene: Scene,
) -> None:
    job = new_job(unique=KEEP)
    await scene.store.jobs.insert([job])
    await scene.finish(await scene.claim_one(), RETURNED)
    successor = await scene.enqueue(unique=KEEP)
    [again] = await scene.store.jobs.insert([job])
    assert (again.how, again.id) == ("created", job.id)
    assert (await scene.insert(unique=KEEP)).id == successor


async def test_one_key_twice_in_a_batch_is_one_job(scene: Scene) -> None:
    jobs = [new_job(unique=KEEP), new_job(), new_job(unique=KEEP)]
    first, other, second = await scene.store.jobs.insert(jobs)
    assert (first.how, other.how, second.how) == ("created", "created", "existing")
    assert second.id == first.id
    assert await scene.line() == [first.id, other.id]


@pytest.mark.parametrize("mode", ANY_MODE)
async def test_hundreds_of_one_key_in_a_batch_leave_one_job(scene: Scene, mode: OnConflict) -> None:
    unique = Unique("k", on_conflict=mode)
    answers = await scene.store.jobs.insert([new_job(unique=unique) for _ in range(200)])
    assert await scene.line() == [answers[-1].id]


async def test_a_thousand_keys_in_a_batch_meet_a_thousand_holders(scene: Scene) -> None:
    def batch() -> list[str]:
        return [f"key {n}" for n in range(1_000)]

    first = await scene.store.jobs.insert([new_job(unique=Unique(key)) for key in batch()])
    second = await scene.store.jobs.insert([new_job(unique=Unique(key)) for key in batch()])
    assert {one.how for one in first} == {"created"}
    assert {one.how for one in second} == {"existing"}
    assert [one.id for one in second] == [one.id for one in first]


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED])
async def test_replace_ends_a_waiting_holder(scene: Scene, state: JobState) -> None:
    holder = await scene.in_state(state, unique=KEEP)
    new = await scene.insert(unique=REPLACE)
    assert new.how == "replaced"
    assert new.id != holder
    old = await scene.job(holder)
    assert (old.state, old.reason) == (JobState.CANCELLED, f"replaced by {new.id}")
    assert await scene.line() == [new.id]


async def test_replace_leaves_a_running_holder_alone(scene: Scene) -> None:
    holder = await scene.running(unique=KEEP)
    again = await scene.insert(unique=REPLACE)
    assert (again.how, again.id) == ("existing", holder.id)
    assert (await scene.finish(holder, RETURNED)).accepted


async def test_a_replacement_holds_the_key(scene: Scene) -> None:
    await scene.enqueue(unique=KEEP)
    new = await scene.insert(unique=REPLACE)
    assert (await scene.insert(unique=KEEP)).id == new.id


async def test_replace_in_a_batch_leaves_the_last(scene: Scene) -> None:
    jobs = [new_job(unique=REPLACE) for _ in range(3)]
    answers = await scene.store.jobs.insert(jobs)
    assert [one.how for one in answers] == ["created", "replaced", "replaced"]
    assert await scene.line() == [jobs[2].id]
    cancelled = [JobState.CANCELLED, JobState.CANCELLED, JobState.READY]
    assert await scene.states([job.id for job in jobs]) == cancelled


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED])
async def test_debounce_pushes_a_waiting_holder_out(scene: Scene, state: JobState) -> None:
    holder = await scene.in_state(state, unique=KEEP, args='"first"')
    scene.clock.advance(5)
    again = await scene.insert(unique=DEBOUNCE, args='"second"', delay=60.0)
    assert (again.how, again.id) == ("debounced", holder)
    job = await scene.job(holder)
    assert (job.state, job.due_at, job.args) == (JobState.SCHEDULED, scene.after(60), "second")


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED])
async def test_debounce_gives_the_holder_the_newest_arguments(
    scene: Scene, state: JobState
) -> None:
    holder = await scene.in_state(state, unique=DEBOUNCE, tags=("first",), headers='{"a":"1"}')
    for name in ("Bea", "Cy"):
        args = f'{{"name":"{name}"}}'
        await scene.insert(unique=DEBOUNCE, delay=60.0, args=args, tags=("later",))
    job = await scene.job(holder)
    assert (job.args, job.tags, job.headers) == ({"name": "Cy"}, ("first",), {"a": "1"})
    scene.clock.advance(61)
    await scene.store.jobs.promote_due(10)
    assert (await scene.claim_one()).args == '{"name":"Cy"}'


async def test_debounce_in_a_batch_leaves_the_last_arguments(scene: Scene) -> None:
    calls = [new_job(unique=DEBOUNCE, args=f'{{"n":{n}}}', delay=float(n + 1)) for n in range(3)]
    [first, *_] = await scene.store.jobs.insert(calls)
    assert (await scene.job(first.id)).args == {"n": 2}


async def test_debounce_pushes_no_further_than_the_longest_wait(scene: Scene) -> None:
    patient = Unique("k", on_conflict="debounce", max_wait=100.0)
    first = scene.clock.now
    holder = (await scene.insert(unique=patient, delay=60.0)).id
    for _ in range(3):
        scene.clock.advance(30)
        assert (await scene.insert(unique=patient, delay=60.0)).how == "debounced"
    assert (await scene.job(holder)).due_at == first + timedelta(seconds=100)
    scene.clock.advance(20)  # later than the longest wait
    await scene.insert(unique=patient, delay=60.0, args='{"name":"last"}')
    job = await scene.job(holder)
    assert (job.state, job.args) == (JobState.READY, {"name": "last"})


async def test_debounce_leaves_the_arguments_of_a_running_holder_alone(scene: Scene) -> None:
    running = await scene.running(unique=DEBOUNCE)
    await scene.insert(unique=DEBOUNCE, args='{"name":"late"}')
    assert (await scene.job(running.id)).args == {"name": "Ada"}


async def test_debounce_by_a_time_of_day(scene: Scene) -> None:
    holder = await scene.enqueue(unique=DEBOUNCE, delay=10.0)
    await scene.insert(unique=DEBOUNCE, run_at=scene.after(99))
    assert (await scene.job(holder)).due_at == scene.after(99)


async def test_debounce_without_delay_is_due_now(scene: Scene) -> None:
    holder = await scene.enqueue(unique=DEBOUNCE, delay=60.0)
    await scene.insert(unique=DEBOUNCE)
    await scene.store.jobs.promote_due(10)
    assert await scene.line() == [holder]


async def test_debounce_leaves_a_running_holder_alone(scene: Scene) -> None:
    holder = await scene.running(unique=KEEP)
    again = await scene.insert(unique=DEBOUNCE, delay=60.0)
    assert (again.how, again.id) == ("existing", holder.id)
    assert await scene.state(holder.id) is JobState.RUNNING


@pytest.mark.parametrize(
    "end",
    [
        *(RAISED, TimedOut(1.0), WorkerLost(), Reclaimed("its worker died")),
        *(HandedBack(), Snoozed(60.0), WasThrottled(60.0, "slow down")),
    ],
    ids=lambda end: type(end).__name__,
)
@pytest.mark.parametrize("others", [0, 3], ids=["alone", "in a batch"])
async def test_debounce_leaves_a_holder_that_has_begun_alone(
    scene: Scene, end: End, others: int
) -> None:
    """What the handler has done, and its backoff, belong to the arguments that it was called
    with."""
    holder = await scene.ended(end, unique=DEBOUNCE)
    before = await scene.job(holder.id)
    calls = [
        new_job(unique=DEBOUNCE, args='{"name":"Bea"}', delay=5.0),
        *map(_other, range(others)),
    ]
    again, *rest = await scene.store.jobs.insert(calls)
    assert (again.how, again.id) == ("existing", holder.id)
    assert await scene.job(holder.id) == before
    assert [one.how for one in rest] == ["created"] * others


def _other(n: int) -> NewJob:
    return new_job(unique=Unique(f"other {n}", on_conflict="debounce"))


@pytest.mark.parametrize("end", [HandedBack(begun=False), PutOff(60.0, "not here")], ids=repr)
async def test_debounce_pushes_a_holder_whose_handler_was_never_called(
    scene: Scene, end: End
) -> None:
    holder = await scene.ended(end, unique=DEBOUNCE)
    again = await scene.insert(unique=DEBOUNCE, args='{"name":"Bea"}', delay=5.0)
    assert (again.how, again.id) == ("debounced", holder.id)
    job = await scene.job(holder.id)
    assert (job.args, job.due_at) == ({"name": "Bea"}, scene.after(5))


async def test_debounce_pushes_a_holder_that_begins_again_as_if_it_were_new(scene: Scene) -> None:
    holder = await scene.ended(FAILED, unique=DEBOUNCE)
    await scene.store.jobs.requeue([holder.id])
    again = await scene.insert(unique=DEBOUNCE, args='{"name":"Bea"}', delay=5.0)
    assert (again.how, (await scene.job(holder.id)).args) == ("debounced", {"name": "Bea"})


async def test_debounce_in_a_batch_leaves_the_last_time(scene: Scene) -> None:
    jobs = [new_job(unique=DEBOUNCE, delay=float(delay)) for delay in (10, 30, 20)]
    answers = await scene.store.jobs.insert(jobs)
    assert [one.how for one in answers] == ["created", "debounced", "debounced"]
    assert {one.id for one in answers} == {jobs[0].id}
    assert (await scene.job(jobs[0].id)).due_at == scene.after(20)


async def until_decided(store: Store, job: NewJob) -> Inserted:
    """What became of it, as a caller finds out: a key is in doubt while the transaction of another
    is open, and on a crowded machine that may be for longer than one insert waits."""
    async with asyncio.timeout(30):
        while True:
            try:
                [answer] = await store.jobs.insert([job])
            except KeyHeld:
                continue
            return answer


async def test_many_at_once_create_one_job_of_a_key(scene: Scene) -> None:
    async with siblings(scene.store, 4) as others:
        answers = await asyncio.gather(
            *(until_decided(other, new_job(unique=KEEP)) for other in others for _ in range(3))
        )
    assert [answer.how for answer in answers].count("created") == 1
    assert len({answer.id for answer in answers}) == 1


async def test_batches_with_the_same_keys_in_opposite_orders_do_not_block_each_other(
    scene: Scene,
) -> None:
    keys = [f"key {n}" for n in range(100)]
    async with siblings(scene.store, 2) as (one, other):
        answers = await asyncio.gather(
            one.jobs.insert([new_job(unique=Unique(key)) for key in keys]),
            other.jobs.insert([new_job(unique=Unique(key)) for key in reversed(keys)]),
        )
    hows = [answer.how for batch in answers for answer in batch]
    assert (hows.count("created"), hows.count("existing")) == (100, 100)


async def test_a_ready_job_that_many_debounce_is_claimed_by_who_waits_for_a_wakeup(
    scene: Scene,
) -> None:
    """It was due, and nobody can push it any further: `max_wait` is over."""
    hot = Unique("k", on_conflict="debounce", max_wait=1.0)
    holder = (await scene.insert(unique=hot, delay=1.0)).id
    scene.clock.advance(2)
    await scene.store.jobs.promote_due(10)
    claimed: list[JobId] = []

    async def call(store: Store) -> None:
        while not claimed:
            await scene.through(store).insert(unique=hot, delay=1.0)

    async with (
        siblings(scene.store, 4) as others,
        listening(scene.store) as ear,
        asyncio.TaskGroup() as callers,
    ):
        for other in others:
            callers.create_task(call(other))
        while not claimed:
            ear.heard.clear()
            claimed += ids(await scene.claim())
            assert claimed or await ear.hears(Topic.READY, QUEUE)
    assert claimed == [holder]


# At most once a period -----------------------------------------------------------------------

ONCE_A_MINUTE = Unique("k", period=60.0)
KEPT = Policy(retention=Retention(succeeded=600, failed=600, other=600))


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in LIVE])
async def test_a_key_is_held_for_its_period_also_if_its_job_has_ended(
    scene: Scene, state: JobState
) -> None:
    holder = await scene.in_state(state, unique=ONCE_A_MINUTE, policy=KEPT)
    scene.clock.advance(59)
    again = await scene.insert(unique=ONCE_A_MINUTE)
    assert (again.how, again.id) == ("existing", holder)
    scene.clock.advance(1)
    assert (await scene.insert(unique=ONCE_A_MINUTE)).how == "created"


async def test_a_live_job_holds_its_key_beyond_its_period(scene: Scene) -> None:
    holder = (await scene.insert(unique=ONCE_A_MINUTE)).id
    scene.clock.advance(3600)
    assert (await scene.insert(unique=ONCE_A_MINUTE)).id == holder


async def test_the_period_of_the_next_holder_begins_with_its_own_insertion(scene: Scene) -> None:
    await scene.ended(RETURNED, unique=ONCE_A_MINUTE, policy=KEPT)
    scene.clock.advance(90)
    second = await scene.ended(RETURNED, unique=ONCE_A_MINUTE, policy=KEPT)
    scene.clock.advance(59)
    assert (await scene.insert(unique=ONCE_A_MINUTE)).id == second.id


async def test_a_holder_without_a_period_does_not_inherit_one(scene: Scene) -> None:
    waiting = (await scene.insert(unique=ONCE_A_MINUTE, delay=5.0)).id
    replaced = await scene.insert(unique=REPLACE)
    assert (replaced.how, waiting) == ("replaced", waiting)
    await scene.finish(await scene.claim_one(), RETURNED)
    assert (await scene.insert(unique=KEEP)).how == "created"


async def test_a_requeued_job_keeps_its_period(scene: Scene) -> None:
    holder = (await scene.ended(FAILED, unique=ONCE_A_MINUTE, policy=KEPT)).id
    assert await scene.store.jobs.requeue([holder]) == [holder]
    await scene.finish(await scene.claim_one(), FAILED)
    assert (await scene.insert(unique=ONCE_A_MINUTE)).id == holder


async def test_a_job_whose_key_another_holds_for_its_period_is_not_requeued(scene: Scene) -> None:
    first = (await scene.ended(FAILED, unique=KEEP, policy=KEPT)).id
    await scene.ended(RETURNED, unique=ONCE_A_MINUTE, policy=KEPT)
    assert await scene.store.jobs.requeue([first]) == []
    scene.clock.advance(60)
    assert await scene.store.jobs.requeue([first]) == [first]


async def test_a_deleted_job_lets_go_of_its_key(scene: Scene) -> None:
    holder = (await scene.ended(RETURNED, unique=ONCE_A_MINUTE, policy=KEPT)).id
    await scene.store.jobs.delete([holder])
    assert (await scene.insert(unique=ONCE_A_MINUTE)).how == "created"


async def test_an_ended_job_within_its_period_is_neither_replaced_nor_debounced(
    scene: Scene,
) -> None:
    holder = (await scene.ended(RETURNED, unique=ONCE_A_MINUTE, policy=KEPT)).id
    for unique in (REPLACE, DEBOUNCE):
        again = await scene.insert(unique=unique)
        assert (again.how, again.id) == ("existing", holder)


async def test_a_period_counts_within_one_batch(scene: Scene) -> None:
    only_running = Unique("k", states=frozenset({JobState.RUNNING}), period=60.0)
    answers = await scene.store.jobs.insert([new_job(unique=only_running) for _ in range(3)])
    assert [one.how for one in answers] == ["created", "existing", "existing"]
    assert {one.id for one in answers} == {answers[0].id}


async def test_of_jobs_that_replace_each_other_one_runs_a_period(scene: Scene) -> None:
    newest = Unique("k", on_conflict="replace", period=60.0)
    calls = []
    for _ in range(3):
        calls.append(await scene.insert(unique=newest, policy=KEPT))
        scene.clock.advance(20)
    assert [one.how for one in calls] == ["created", "replaced", "replaced"]
    states = await scene.states(ids(calls))
    assert states == [JobState.CANCELLED, JobState.CANCELLED, JobState.READY]
    await scene.finish(await scene.claim_one(), RETURNED)
    scene.clock.advance(39)
    again = await scene.insert(unique=newest)
    assert (again.how, again.id) == ("existing", calls[-1].id)
    scene.clock.advance(1)
    assert (await scene.insert(unique=newest)).how == "created"


async def test_a_job_that_waits_for_its_retry_is_replaced_within_its_period(scene: Scene) -> None:
    """It has had no success, so the newer job takes its place."""
    newest = Unique("k", on_conflict="replace", period=60.0)
    failed = await scene.ended(RAISED, unique=newest)
    again = await scene.insert(unique=newest)
    assert (again.how, await scene.state(failed.id)) == ("replaced", JobState.CANCELLED)
