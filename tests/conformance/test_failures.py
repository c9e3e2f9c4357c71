"""Failures: errors counted by fingerprint with the ends that they belong to."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from holdfast.job.ends import Raised, TimedOut, WorkerLost
from holdfast.job.fingerprint import fingerprint
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.store.contract.failures import DEAD_COUNTED, SAMPLE_SECONDS, Behind, Failure
from holdfast.store.contract.filters import JobFilter
from tests.conformance.builders import RAISED, TASK, Scene, accepted
from tests.support.backends import siblings

DAY = 86_400.0
ORDER = fingerprint(TASK, "LookupError", "order 7 not found")
MAIL = fingerprint(TASK, "OSError", "mailbox full")


def missing(order: int = 7, *, final: bool = True) -> Raised:
    return Raised("LookupError", f"order {order} not found", f"Traceback {order}", final=final)


FULL = Raised("OSError", "mailbox full", "Traceback", final=True)


async def failures(scene: Scene, **wanted: Any) -> dict[str, Failure]:
    return {one.fingerprint: one for one in await scene.store.failures.find(**wanted)}


async def failure(scene: Scene, name: str = ORDER) -> Failure:
    [found] = await scene.store.failures.find([name])
    return found


async def dead(scene: Scene, name: str = ORDER) -> set[JobId]:
    which = JobFilter(fingerprint=name)
    page = await scene.store.jobs.page(which, 100)
    found = {job.id for job in page.jobs}
    assert sum((await scene.store.jobs.count(which)).values()) == len(found)
    return found


async def test_a_store_without_errors_has_no_failures(scene: Scene) -> None:
    await scene.ended()
    assert await scene.store.failures.find() == []
    assert await scene.store.failures.find([ORDER]) == []


async def test_errors_of_one_cause_are_one_failure(scene: Scene) -> None:
    began = scene.clock.now
    for order in range(3):
        await scene.ended(missing(order))
        scene.clock.advance(SAMPLE_SECONDS + 1)
    last = await scene.ended(FULL)
    found = await failures(scene)
    assert list(found) == [MAIL, ORDER]
    one = found[ORDER]
    assert (one.task, one.kind, one.count) == (TASK, "LookupError", 3)
    assert (one.first_at, one.last_at) == (began, scene.after(-SAMPLE_SECONDS - 1))
    assert (one.sample.message, one.sample.traceback) == ("order 2 not found", "Traceback 2")
    assert (one.sample.kind, one.sample.fingerprint) == (one.kind, ORDER)
    assert one.sample.at == one.last_at
    assert found[MAIL].job_id == last.id


async def test_every_failing_attempt_is_counted_and_only_the_last_makes_a_job_dead(
    scene: Scene,
) -> None:
    job = await scene.running()
    assert (await scene.finish(job, missing(1, final=False))).accepted
    assert ((await failure(scene)).count, (await failure(scene)).dead) == (1, 0)
    assert await dead(scene) == set()
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    await scene.finish(await scene.claim_one(), missing(2))
    assert ((await failure(scene)).count, (await failure(scene)).dead) == (2, 1)
    assert await dead(scene) == {job.id}


async def test_a_batch_counts_every_error_in_it(scene: Scene) -> None:
    await scene.enqueue_many(6)
    jobs = await scene.claim(6)
    ends = [missing(1), FULL, missing(2), missing(3), FULL, RAISED]
    moves = [decide(job, end) for job, end in zip(jobs, ends, strict=True)]
    assert accepted(await scene.store.jobs.finish(moves)) == [True] * 6
    found = await failures(scene)
    assert Counter({name: one.count for name, one in found.items()}) == Counter(
        {ORDER: 3, MAIL: 2, fingerprint(TASK, RAISED.kind, RAISED.message): 1}
    )
    assert {name: one.dead for name, one in found.items() if one.dead} == {ORDER: 3, MAIL: 2}
    assert await dead(scene) == {jobs[0].id, jobs[2].id, jobs[3].id}


async def test_an_end_that_is_refused_or_repeated_counts_nothing(scene: Scene) -> None:
    job = await scene.running()
    move = decide(job, missing())
    assert accepted(await scene.store.jobs.finish([move, move])) == [True, False]
    assert accepted(await scene.store.jobs.finish([move])) == [False]
    assert (await failure(scene)).count == 1


async def test_the_ends_of_reconcilers_are_counted(scene: Scene) -> None:
    worker = await scene.hire()
    lost = await scene.running(worker=worker)
    await scene.lose(worker)
    assert (await scene.reclaim(await scene.live(lost.id), WorkerLost())).accepted
    assert not (await scene.store.jobs.reclaim([decide(lost, WorkerLost())]))[0].accepted
    late = await scene.running(queue="late")
    assert (await scene.finish(late, TimedOut(3))).accepted
    kinds = {one.kind: one.count for one in (await failures(scene)).values()}
    assert kinds == {"WorkerLost": 1, "TimedOut": 1}


async def test_an_error_that_ends_as_a_cancel_is_counted_and_leaves_nobody_dead(
    scene: Scene,
) -> None:
    job = await scene.running()
    await scene.store.jobs.request_cancel([job.id])
    assert (await scene.finish(job, missing(final=False))).accepted
    assert await scene.state(job.id) is JobState.CANCELLED
    assert ((await failure(scene)).count, (await failure(scene)).dead) == (1, 0)
    assert await dead(scene) == set()


async def test_a_sample_is_replaced_when_it_is_old(scene: Scene) -> None:
    first = await scene.ended(missing(1))
    await scene.store.telemetry.fold(100)
    scene.clock.advance(SAMPLE_SECONDS)
    second = await scene.ended(missing(2))
    assert (await failure(scene)).job_id in (first.id, second.id)
    scene.clock.advance(SAMPLE_SECONDS + 1)
    third = await scene.ended(missing(3))
    assert (await failure(scene)).job_id == third.id
    assert (await failure(scene)).sample.message == "order 3 not found"


async def test_folding_changes_no_answer(scene: Scene) -> None:
    for order in range(3):
        await scene.ended(missing(order))
        await scene.ended(FULL)
        await scene.store.failures.mute([MAIL], scene.after(DAY))
        before = await scene.store.failures.find()
        while await scene.store.telemetry.fold(1):
            pass
        assert await scene.store.failures.find() == before
        scene.clock.advance(SAMPLE_SECONDS + 1)
    assert (await failure(scene)).count == 3


async def test_requeued_and_deleted_jobs_are_dead_no_more(scene: Scene) -> None:
    jobs = [await scene.ended(missing(n)) for n in range(3)]
    assert await scene.store.jobs.requeue([jobs[0].id]) == [jobs[0].id]
    assert await dead(scene) == {jobs[1].id, jobs[2].id}
    await scene.store.jobs.delete([jobs[1].id])
    assert await dead(scene) == {jobs[2].id}
    assert ((await failure(scene)).dead, (await failure(scene)).count) == (1, 3)
    scene.clock.advance(400 * DAY)
    await scene.store.jobs.prune(10)
    assert await dead(scene) == set()
    assert (await failure(scene)).dead == 0


async def test_a_job_that_fails_again_with_another_error_is_dead_of_that(scene: Scene) -> None:
    job = await scene.ended(missing())
    await scene.store.jobs.requeue([job.id])
    await scene.finish(await scene.claim_one(), FULL)
    assert (await dead(scene), await dead(scene, MAIL)) == (set(), {job.id})
    [outcome] = await scene.store.jobs.outcomes([job.id])
    assert outcome.fingerprint == MAIL


async def test_dead_jobs_are_counted_up_to_a_number(scene: Scene) -> None:
    await scene.enqueue_many(DEAD_COUNTED + 5)
    for _ in range(3):
        jobs: list[Claimed] = await scene.claim(500)
        await scene.store.jobs.finish([decide(job, missing()) for job in jobs])
    found = await failure(scene)
    assert (found.dead, found.count) == (DEAD_COUNTED, DEAD_COUNTED + 5)


async def test_failures_are_paged_last_seen_first(scene: Scene) -> None:
    words = ("red", "green", "blue", "black", "white")
    for word in words:
        await scene.ended(Raised("E", word, final=True))
        scene.clock.advance(1)
    await scene.ended(Raised("E", "red", final=True))
    seen: list[str] = []
    behind = None
    while page := await scene.store.failures.find(limit=2, behind=behind):
        assert len(page) <= 2
        seen += [one.sample.message for one in page]
        behind = Behind(page[-1].last_at, page[-1].fingerprint)
    assert seen == ["red", "white", "black", "blue", "green"]
    since = await failures(scene, since=scene.after(-2))
    assert [one.sample.message for one in since.values()] == ["red", "white", "black"]


async def test_failures_seen_at_one_moment_are_paged_without_loss(scene: Scene) -> None:
    await scene.enqueue_many(9)
    jobs = await scene.claim(9)
    ends = [Raised("E", word, final=True) for word in "abcdefghi"]
    await scene.store.jobs.finish([decide(*pair) for pair in zip(jobs, ends, strict=True)])
    names: list[str] = []
    behind = None
    while page := await scene.store.failures.find(limit=2, behind=behind):
        names += [one.fingerprint for one in page]
        behind = Behind(page[-1].last_at, page[-1].fingerprint)
    assert len(names) == len(set(names)) == 9


async def test_failures_of_a_task(scene: Scene) -> None:
    await scene.enqueue("other", queue="o")
    [job] = await scene.claim(1, "o", tasks=["other"])
    await scene.finish(job, missing())
    await scene.ended(missing())
    assert list(await failures(scene, tasks=[TASK])) == [ORDER]
    assert {one.task for one in (await failures(scene)).values()} == {TASK, "other"}
    assert await failures(scene, tasks=["third"]) == {}


async def test_a_muted_failure_is_hidden_until_the_mute_ends(scene: Scene) -> None:
    await scene.ended(missing())
    await scene.ended(FULL)
    until = scene.after(DAY)
    assert await scene.store.failures.mute([ORDER, "0" * 16], until) == [ORDER]
    assert list(await failures(scene, muted=False)) == [MAIL]
    assert (await failures(scene))[ORDER].muted_until == until
    await scene.ended(missing())
    assert list(await failures(scene, muted=False, limit=1)) == [MAIL]
    assert (await failure(scene)).count == 2
    scene.clock.advance(DAY)
    assert set(await failures(scene, muted=False)) == {ORDER, MAIL}


async def test_a_mute_can_be_taken_back(scene: Scene) -> None:
    await scene.ended(missing())
    await scene.store.failures.mute([ORDER], scene.after(DAY))
    assert await scene.store.failures.mute([ORDER], None) == [ORDER]
    assert (await failures(scene, muted=False))[ORDER].muted_until is None
    assert await scene.store.failures.mute([], scene.after(1)) == []


async def test_a_note_stays_until_it_is_replaced(scene: Scene) -> None:
    await scene.ended(missing())
    await scene.ended(FULL)
    assert await scene.store.failures.note([ORDER, MAIL, "x"], "see ticket ß") == sorted(
        [ORDER, MAIL]
    )
    await scene.ended(missing())
    await scene.store.telemetry.fold(100)
    assert (await failure(scene)).note == "see ticket ß"
    await scene.store.failures.note([ORDER], None)
    assert (await failure(scene)).note is None
    assert (await failure(scene, MAIL)).note == "see ticket ß"
    assert await scene.store.failures.note([], "x") == []


async def test_failures_that_were_not_seen_for_long_are_pruned(scene: Scene) -> None:
    job = await scene.ended(missing())
    await scene.ended(FULL)
    kept = await scene.ended(Raised("E", "dead", final=True))
    await scene.store.telemetry.fold(100)
    await scene.store.failures.mute([MAIL], scene.after(100 * DAY))
    await scene.store.jobs.delete([job.id])
    prune = scene.store.failures.prune
    assert await prune(100, DAY, 2_000) == 0
    scene.clock.advance(DAY)
    assert await prune(100, DAY, 2_000) == 1
    assert ORDER not in await failures(scene)
    scene.clock.advance(100 * DAY)
    assert await prune(100, DAY, 2_000) == 0  # both have dead jobs
    page = await scene.store.jobs.page(JobFilter(states=frozenset({JobState.FAILED})), 10)
    await scene.store.jobs.delete([one.id for one in page.jobs if one.id != kept.id])
    assert await prune(100, DAY, 2_000) == 1
    assert [one.sample.message for one in (await failures(scene)).values()] == ["dead"]


async def test_beyond_a_number_the_oldest_that_nobody_needs_go_first(scene: Scene) -> None:
    for word in ("dead", "muted", "old", "older", "new"):
        job = await scene.ended(Raised("E", word, final=True))
        scene.clock.advance(1)
        if word != "dead":
            await scene.store.jobs.delete([job.id])
    await scene.store.telemetry.fold(100)
    names = {one.sample.message: name for name, one in (await failures(scene)).items()}
    await scene.store.failures.mute([names["muted"]], scene.after(DAY))
    left = []
    for most in (4, 3, 2, 1, 0):
        assert await scene.store.failures.prune(100, DAY, most) == 1
        left.append([one.sample.message for one in (await failures(scene)).values()])
    assert left == [
        ["new", "older", "muted", "dead"],
        ["new", "muted", "dead"],
        ["muted", "dead"],
        ["muted"],
        [],
    ]


async def test_a_pruned_failure_begins_anew(scene: Scene) -> None:
    await scene.ended(missing(1))
    await scene.store.telemetry.fold(100)
    assert await scene.store.failures.prune(100, DAY, 0) == 1
    again = await scene.ended(missing(2))
    found = await failure(scene)
    assert (found.count, found.first_at, found.dead) == (1, scene.clock.now, 2)
    assert (found.job_id, found.sample.message) == (again.id, "order 2 not found")


async def test_no_more_are_pruned_than_asked_for(scene: Scene) -> None:
    for word in "abcd":
        await scene.ended(Raised("E", word, final=True))
    await scene.store.telemetry.fold(100)
    assert [await scene.store.failures.prune(2, DAY, 1) for _ in range(3)] == [2, 1, 0]


async def test_ends_of_many_workers_at_once_are_all_counted(scene: Scene) -> None:
    await scene.enqueue_many(60)
    jobs = await scene.claim(60)
    moves = [decide(job, missing(n) if n % 2 else FULL) for n, job in enumerate(jobs)]
    async with siblings(scene.store, 3) as stores:

        async def end(n: int) -> None:
            await stores[n % 3].jobs.finish(moves[n * 5 : n * 5 + 5])
            await stores[(n + 1) % 3].telemetry.fold(3)

        await asyncio.gather(*(end(n) for n in range(12)))
    assert {name: one.count for name, one in (await failures(scene)).items()} == {
        ORDER: 30,
        MAIL: 30,
    }


@pytest.mark.parametrize("states", [{JobState.SUCCEEDED}, {JobState.READY, JobState.CANCELLED}])
async def test_a_fingerprint_means_failed_jobs_only(scene: Scene, states: set[JobState]) -> None:
    await scene.ended(missing())
    which = JobFilter(fingerprint=ORDER, states=frozenset(states))
    assert (await scene.store.jobs.page(which, 10)).jobs == ()
    assert await scene.store.jobs.count(which) == {}


async def test_dead_jobs_are_walked_without_looking_at_others(scene: Scene) -> None:
    mine = [(await scene.ended(missing(n))).id for n in range(5)]
    for _ in range(20):
        await scene.ended(FULL)
    found: list[JobId] = []
    cursor = None
    while True:
        page = await scene.store.jobs.page(JobFilter(fingerprint=ORDER), 2, cursor)
        assert page.looked_at <= 3
        found += [job.id for job in page.jobs]
        if (cursor := page.next_cursor) is None:
            break
    assert found == mine[::-1]
    both = JobFilter(fingerprint=ORDER, ids=(mine[0],), queues=("default",))
    assert [job.id for job in (await scene.store.jobs.page(both, 5)).jobs] == mine[:1]
    none = JobFilter(fingerprint=ORDER, queues=("other",))
    assert await scene.store.jobs.count(none) == {}
