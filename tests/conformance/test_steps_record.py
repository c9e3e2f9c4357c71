"""Steps.record and Steps.load: what an attempt has done is there for the next one, and no zombie
adds to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.job.ends import End, HandedBack, WasSuspended, WorkerLost
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.step import Step, StepRecord
from holdfast.job.ties import BEGUN, NO_TIES, Tie
from holdfast.job.transition import Transition
from holdfast.job.undo import Undo, encode_undo
from tests.conformance.builders import FAILED, RAISED, RETURNED, Scene, new_job
from tests.conformance.signalling import send, signals_of, take


def record_of(job: Claimed, name: str = "pay", n: int = 1, **said: Any) -> StepRecord:
    said = said or {"result": '{"paid":4200}'}
    return StepRecord(job.id, job.fence, name, n, **said)


async def record(scene: Scene, job: Claimed, name: str = "pay", n: int = 1, **said: Any) -> bool:
    [kept] = await scene.store.steps.record([record_of(job, name, n, **said)])
    return kept


async def steps_of(scene: Scene, job: JobId) -> list[Step]:
    return (await scene.store.steps.load([job])).get(job, [])


async def names_of(scene: Scene, job: JobId) -> list[str]:
    return [step.name for step in await steps_of(scene, job)]


async def with_step(scene: Scene, end: End | None = None, **options: Any) -> Claimed:
    """A job that has recorded a step, and then ended its attempt like this."""
    claimed = await scene.running(**options)
    assert await record(scene, claimed)
    if end is not None:
        assert (await scene.finish(claimed, end)).accepted
    return claimed


async def test_an_empty_batch_records_nothing(scene: Scene) -> None:
    assert await scene.store.steps.record([]) == []
    assert await scene.store.steps.load([]) == {}


async def test_a_step_is_kept_with_all_that_was_said_of_it(scene: Scene) -> None:
    claimed = await scene.running()
    scene.clock.advance(5)
    now, fence = scene.clock.now, claimed.fence
    batch = [
        record_of(claimed, "zählen 🦊", 1, result='"\\u0000"', version="2"),
        record_of(claimed, "mail", 2, kind="SMTPError", message="no such user", tries=3),
        record_of(claimed, "cooling off", 3, seconds=60.0),
        record_of(claimed, "call", 4, kind="Timeout", message="slow", seconds=10.5, tries=2),
    ]
    assert await scene.store.steps.record(batch) == [True] * 4
    same: dict[str, Any] = {"fence": fence, "at": now}
    assert await steps_of(scene, claimed.id) == [
        Step(name="zählen 🦊", n=1, tries=1, result_json='"\\u0000"', version="2", **same),
        Step(name="mail", n=2, tries=3, kind="SMTPError", message="no such user", **same),
        Step(name="cooling off", n=3, tries=1, until=scene.after(60), **same),
        Step(name="call", n=4, tries=2, kind="Timeout", message="slow",
             until=scene.after(10.5), **same),
    ]  # fmt: skip


async def test_steps_come_in_the_order_of_their_numbers(scene: Scene) -> None:
    claimed = await scene.running()
    for n, name in ((3, "a"), (1, "c"), (2, "b"), (11, "d")):
        await record(scene, claimed, name, n)
    assert await names_of(scene, claimed.id) == ["c", "b", "a", "d"]


async def test_steps_of_many_jobs_are_loaded_at_once(scene: Scene) -> None:
    one, other, bare = [await scene.running() for _ in range(3)]
    batch = [record_of(one, "a"), record_of(other, "b"), record_of(one, "c", 2)]
    assert await scene.store.steps.record(batch) == [True] * 3
    found = await scene.store.steps.load([one.id, bare.id, other.id, new_job_id(), one.id])
    assert {job: [step.name for step in some] for job, some in found.items()} == {
        one.id: ["a", "c"],
        other.id: ["b"],
    }


async def test_of_the_records_of_one_attempt_the_first_stands(scene: Scene) -> None:
    claimed = await scene.running()
    assert await record(scene, claimed, result='"first"')
    assert await record(scene, claimed, result='"second"')
    twice = [record_of(claimed, "b", 2, result="1"), record_of(claimed, "b", 3, result="2")]
    assert await scene.store.steps.record(twice) == [True, True]
    found = {step.name: step.result_json for step in await steps_of(scene, claimed.id)}
    assert found == {"pay": '"first"', "b": "1"}


async def test_a_later_attempt_replaces_what_an_earlier_one_recorded(scene: Scene) -> None:
    claimed = await scene.running()
    await record(scene, claimed, kind="Timeout", message="slow", seconds=60.0, tries=2)
    await scene.finish(claimed, HandedBack())
    scene.clock.advance(1)
    again = await scene.claim_one()
    assert await record(scene, again, n=7, result="1", version="b", tries=3)
    [step] = await steps_of(scene, again.id)
    now = scene.clock.now
    assert step == Step(
        name="pay", n=7, fence=again.fence, tries=3, result_json="1", version="b", at=now
    )


async def test_an_old_fence_records_nothing(scene: Scene) -> None:
    """F8: none by an old fence."""
    zombie = await scene.ended(HandedBack())
    successor = await scene.claim_one()
    assert not await record(scene, zombie, result='"late"')
    assert await steps_of(scene, zombie.id) == []
    assert (await scene.job(zombie.id)).ties == BEGUN
    assert await record(scene, successor, result='"mine"')
    assert not await record(scene, zombie, result='"later"')
    assert [step.result_json for step in await steps_of(scene, zombie.id)] == ['"mine"']


async def test_a_job_that_does_not_run_records_nothing(scene: Scene) -> None:
    claimed = await scene.ended(RETURNED)
    assert not await record(scene, claimed)
    [kept] = await scene.store.steps.record([StepRecord(await scene.enqueue(), 0, "a", 1)])
    assert not kept
    [kept] = await scene.store.steps.record([StepRecord(new_job_id(), 1, "a", 1)])
    assert not kept
    assert await steps_of(scene, claimed.id) == []


async def test_a_batch_is_judged_record_by_record(scene: Scene) -> None:
    one, other = await scene.running(), await scene.running()
    stale = StepRecord(one.id, one.fence + 1, "b", 2)
    batch = [record_of(one), stale, record_of(other)]
    assert await scene.store.steps.record(batch) == [True, False, True]
    assert await names_of(scene, one.id) == ["pay"]


async def test_a_job_is_tied_to_its_first_step(scene: Scene) -> None:
    claimed, plain = await scene.running(), await scene.running()
    await record(scene, claimed)
    assert (await scene.job(claimed.id)).ties == Tie.STEPS
    assert (await scene.job(plain.id)).ties == NO_TIES
    watched = await scene.running(ties=int(Tie.WATCHED))
    await record(scene, watched)
    assert (await scene.job(watched.id)).ties == Tie.STEPS | Tie.WATCHED


@pytest.mark.parametrize(
    "end", [HandedBack(), RAISED, WasSuspended(60.0)], ids=["handed back", "raised", "suspended"]
)
async def test_steps_are_there_for_the_next_attempt(scene: Scene, end: End) -> None:
    claimed = await with_step(scene, end)
    scene.clock.advance(61)
    await scene.store.jobs.promote_due(10)
    again = await scene.claim_one()
    assert (again.id, again.ties) == (claimed.id, Tie.STEPS | BEGUN)
    assert await names_of(scene, again.id) == ["pay"]


async def test_steps_survive_a_lost_worker(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await with_step(scene, worker=worker)
    await scene.lose(worker)
    [found] = await scene.store.jobs.lapsed_leases(10)
    assert (await scene.reclaim(found, WorkerLost())).accepted
    assert not await record(scene, claimed, "ship", 2)
    assert await names_of(scene, claimed.id) == ["pay"]
    assert (await scene.job(claimed.id)).ties == Tie.STEPS | BEGUN


async def test_a_job_that_was_moved_keeps_its_steps(scene: Scene) -> None:
    claimed = await with_step(scene, HandedBack())
    assert await scene.store.jobs.move([claimed.id], "other") == [claimed.id]
    again = await scene.claim_one("other")
    assert again.ties == Tie.STEPS | BEGUN
    assert await names_of(scene, again.id) == ["pay"]


# The end of an attempt ------------------------------------------------------------------------


async def test_records_that_come_with_an_end_are_written_with_it(scene: Scene) -> None:
    for end, state in ((RETURNED, JobState.SUCCEEDED), (FAILED, JobState.FAILED)):
        claimed = await scene.running()
        steps = (record_of(claimed, "a"), record_of(claimed, "b", 2))
        move = _with(decide(claimed, end), steps)
        [verdict] = await scene.store.jobs.finish([move])
        assert verdict.accepted
        job = await scene.job(claimed.id)
        assert (job.state, job.ties) == (state, Tie.STEPS)
        assert await names_of(scene, claimed.id) == ["a", "b"]
        [again] = await scene.store.jobs.finish([move])  # its answer was lost
        assert (again.state, again.fence) == (state, claimed.fence)


async def test_a_sleep_ends_when_its_job_wakes(scene: Scene) -> None:
    claimed = await scene.running()
    move = decide(claimed, WasSuspended(60.0))
    [verdict] = await scene.store.jobs.finish([_with(move, (record_of(claimed, seconds=60.0),))])
    assert verdict.accepted
    [step] = await steps_of(scene, claimed.id)
    assert (step.until, step.slept) == (scene.after(60), True)
    assert (await scene.job(claimed.id)).due_at == step.until
    scene.clock.advance(60)
    assert (await scene.store.jobs.promote_due(10)).count == 1
    assert step.until is not None
    assert (await scene.claim_one()).claimed_at >= step.until


async def test_an_end_that_is_refused_writes_no_step(scene: Scene) -> None:
    zombie = await scene.ended(HandedBack())
    await scene.claim_one()
    move = _with(decide(zombie, WasSuspended(60.0)), (record_of(zombie),))
    [verdict] = await scene.store.jobs.finish([move])
    assert not verdict.accepted
    assert await steps_of(scene, zombie.id) == []


@pytest.mark.parametrize("tied", [NO_TIES, int(Tie.WATCHED)], ids=["plain", "watched"])
async def test_a_job_with_steps_ends_as_one_without(scene: Scene, tied: int) -> None:
    one, other = await with_step(scene, ties=tied), await scene.running(ties=tied)
    verdicts = await scene.store.jobs.finish([decide(job, RETURNED) for job in (one, other)])
    assert [verdict.accepted for verdict in verdicts] == [True, True]
    first, second = await scene.job(one.id), await scene.job(other.id)
    for field in ("state", "result", "reason", "attempts", "crashes", "finished_at", "expires_at"):
        assert getattr(first, field) == getattr(second, field), field
    assert (first.ties, second.ties) == (tied | Tie.STEPS, tied)


# What becomes of the steps --------------------------------------------------------------------


async def test_steps_are_removed_with_their_job(scene: Scene) -> None:
    deleted, pruned, kept = [await with_step(scene, RETURNED) for _ in range(3)]
    assert await scene.store.jobs.delete([deleted.id]) == [deleted.id]
    assert await steps_of(scene, deleted.id) == []
    assert await names_of(scene, kept.id) == ["pay"]
    scene.clock.advance(400 * 86_400)
    assert await scene.store.jobs.prune(10) == 2
    assert await scene.store.steps.load([pruned.id, kept.id]) == {}


@pytest.mark.parametrize("end", [RETURNED, FAILED], ids=["succeeded", "failed"])
async def test_a_requeued_job_begins_without_steps(scene: Scene, end: End) -> None:
    claimed = await with_step(scene, end)
    assert await scene.store.jobs.requeue([claimed.id]) == [claimed.id]
    again = await scene.claim_one()
    assert (again.id, again.ties) == (claimed.id, NO_TIES)
    assert await steps_of(scene, claimed.id) == []
    assert await record(scene, again, result='"anew"')
    assert [step.result_json for step in await steps_of(scene, claimed.id)] == ['"anew"']


async def test_a_job_that_an_operator_resumes_has_slept_enough(scene: Scene) -> None:
    claimed = await with_step(scene)
    await record(scene, claimed, "short", 2, seconds=1.0)
    scene.clock.advance(5)
    short_until = scene.after(-4)
    await record(scene, claimed, "long", 3, seconds=3600.0)
    await scene.finish(claimed, WasSuspended(3600.0))
    scene.clock.advance(5)
    assert await scene.store.jobs.resume([claimed.id]) == [claimed.id]
    found = {step.name: step.until for step in await steps_of(scene, claimed.id)}
    assert found == {"pay": None, "short": short_until, "long": scene.clock.now}


async def test_a_job_whose_time_came_has_slept_as_long_as_it_wanted(scene: Scene) -> None:
    claimed = await scene.running()
    await record(scene, claimed, "long", seconds=60.0)
    until = scene.after(60)
    await scene.finish(claimed, WasSuspended(60.0))
    scene.clock.advance(100)
    await scene.store.jobs.promote_due(10)
    assert [step.until for step in await steps_of(scene, claimed.id)] == [until]


def _with(move: Transition, steps: tuple[StepRecord, ...]) -> Transition:
    return msgspec.structs.replace(move, steps=steps)


async def test_recall_gives_the_steps_and_the_signals_of_jobs(scene: Scene) -> None:
    both, steps_only = await scene.running(), await scene.running()
    signals_only, neither = await scene.enqueue(), await scene.enqueue()
    records = [
        StepRecord(job.id, job.fence, name, n, result=f'"{name}"')
        for job in (both, steps_only)
        for n, name in ((2, "mail"), (1, "pay"))
    ]
    assert all(await scene.store.steps.record(records))
    for job, key in ((both.id, "k1"), (both.id, "k2"), (signals_only, "k1")):
        await send(scene, job, "paid", '{"sum": 9}', key)
    [kept, _] = await signals_of(scene, both.id)
    assert await take(scene, both, kept, "took")
    ids = [both.id, steps_only.id, signals_only, neither, new_job().id]
    loaded, sent = await scene.store.steps.load(ids), await scene.store.signals.of(ids)
    found = await scene.store.steps.recall(ids)
    assert found == {
        job: (loaded.get(job, []), sent.get(job, []))
        for job in (both.id, steps_only.id, signals_only)
    }
    assert [one.taken_by for one in found[both.id].signals] == ["took", None]
    assert await scene.store.steps.recall([]) == {}


SAID: tuple[dict[str, Any], ...] = (
    {"result": '{"paid":4200}'},
    {"result": "1", "message": "the step around it"},
    {"result": '"\\u0000 ü"', "version": "2", "tries": 3},
    {"kind": "SMTPError", "message": "no such user", "tries": 3},
    {"seconds": 60.0, "kind": "Busy", "message": "later", "tries": 2},
    {"seconds": float("inf")},
    {"seconds": None, "awaits": "paid"},
    {"result": "1", "undo": encode_undo(Undo("refund", "paid", "undo", "{}"))},
)


async def left_by(scene: Scene, *records: StepRecord) -> list[tuple[list[Step], int]]:
    """What these records leave of each job when they are written together: its steps and ties."""
    assert await scene.store.steps.record(records) == [True] * len(records)
    left = []
    for job in dict.fromkeys(one.id for one in records):
        steps = [msgspec.structs.replace(step, fence=0) for step in await steps_of(scene, job)]
        left.append((steps, (await scene.job(job)).ties))
    return left


@pytest.mark.parametrize("said", SAID)
async def test_a_record_alone_leaves_what_it_leaves_in_a_batch(
    scene: Scene, said: dict[str, Any]
) -> None:
    """First as the first record of its job, then of a later attempt, then once more."""
    jobs = [await scene.running() for _ in range(3)]
    for names in (["pay"], ["pay", "ship"], ["pay"]):
        for name in names:
            alone, one, other = (record_of(job, name, 1, **said) for job in jobs)
            [by_itself] = await left_by(scene, alone)
            assert await left_by(scene, one, other) == [by_itself, by_itself]
        for job in jobs:
            assert (await scene.finish(job, HandedBack())).accepted
        claimed = {job.id: job for job in await scene.claim(3)}
        jobs = [claimed[job.id] for job in jobs]
    zombies = [record_of(job, "late", 9, **said) for job in jobs]
    old = [msgspec.structs.replace(one, fence=one.fence - 1) for one in zombies]
    assert await scene.store.steps.record(old[:1]) == [False]
    assert await scene.store.steps.record(old[1:]) == [False, False]
    for job in jobs:
        assert "late" not in await names_of(scene, job.id)


async def test_what_a_claim_brings_of_steps_and_signals_is_what_a_look_finds(scene: Scene) -> None:
    """A store may read them with the claim, or leave that to `recall`."""
    woken = await with_step(scene, WasSuspended(60.0))
    assert await send(scene, woken.id) is not None
    assert await scene.store.jobs.resume([woken.id])
    plain = await scene.enqueue()
    for job in await scene.claim(2):
        found = await scene.store.steps.recall([job.id])
        assert (job.id in found) is (job.id == woken.id != plain)
        assert job.recalled is None or job.recalled == found[job.id]
