"""A job's error history: appended at every failed attempt, the newest 32 kept."""

from __future__ import annotations

import msgspec

from holdfast.job.ends import Raised, Snoozed, WorkerLost
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.record import ERRORS_KEPT, ErrorEntry
from holdfast.job.retry import Retry
from tests.conformance.builders import FAILED, RAISED, Scene, accepted

PATIENT = Policy(retry=Retry.constant(max_attempts=1_000, base=0, jitter=0), max_crashes=1_000)


async def test_an_entry_says_what_happened_when_and_in_which_attempt(scene: Scene) -> None:
    claimed = await scene.running()
    scene.clock.advance(7)
    await scene.finish(claimed, Raised("ValueError", "no user «é🦊»", "Traceback …\n  line 1"))
    [entry] = (await scene.job(claimed.id)).errors
    assert (entry.attempt, entry.kind, entry.message) == (1, "ValueError", "no user «é🦊»")
    assert (entry.traceback, entry.at) == ("Traceback …\n  line 1", scene.clock.now)


async def test_an_entry_keeps_the_fingerprint_of_its_error(scene: Scene) -> None:
    claimed = await scene.running()
    error = ErrorEntry(1, "ValueError", "no such user", fingerprint="5f3a9c0e1b2d4786")
    move = msgspec.structs.replace(decide(claimed, RAISED), error=error)
    assert accepted(await scene.store.jobs.finish([move])) == [True]
    [entry] = (await scene.job(claimed.id)).errors
    assert entry.fingerprint == "5f3a9c0e1b2d4786"


async def test_the_newest_are_kept_oldest_first(scene: Scene) -> None:
    job = await scene.enqueue(policy=PATIENT)
    for number in range(ERRORS_KEPT + 8):
        await scene.finish(await scene.claim_one(), Raised("E", f"error {number}"))
        await scene.store.jobs.reschedule([job], 0)
    errors = (await scene.job(job)).errors
    expected = range(8, ERRORS_KEPT + 8)
    assert [error.message for error in errors] == [f"error {number}" for number in expected]
    assert [error.attempt for error in errors] == [number + 1 for number in expected]


async def test_a_long_history_of_one_job_leaves_anothers_alone(scene: Scene) -> None:
    other = await scene.ended(FAILED)
    job = await scene.enqueue(policy=PATIENT)
    for number in range(ERRORS_KEPT + 2):
        await scene.finish(await scene.claim_one(), Raised("E", f"error {number}"))
        await scene.store.jobs.reschedule([job], 0)
    assert len((await scene.job(other.id)).errors) == 1


async def test_a_lost_worker_leaves_an_entry(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    await scene.reclaim(await scene.live(claimed.id), WorkerLost())
    [entry] = (await scene.job(claimed.id)).errors
    assert (entry.kind, entry.attempt, entry.at) == ("WorkerLost", 1, scene.clock.now)


async def test_ends_that_spend_no_attempt_leave_no_entry(scene: Scene) -> None:
    claimed = await scene.ended(Snoozed(5))
    assert (await scene.job(claimed.id)).errors == ()


async def test_a_refused_end_leaves_no_entry(scene: Scene) -> None:
    claimed = await scene.ended(Snoozed(5))
    await scene.finish(claimed, Raised("E", "from the grave"))
    assert (await scene.job(claimed.id)).errors == ()
