"""Operations: acts on many jobs that go on after a crash, and can be stopped and taken back."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, BadOption, Refused, StoreUnavailable, UnknownOperation, Unreadable
from holdfast.background.leader import Leadership
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.events import Event, Events
from holdfast.job.ids import JobId, new_worker_id
from holdfast.job.state import JobState
from holdfast.operations import leg, runner, service, undoing
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.operations.runner import OperationRunner
from holdfast.operations.service import OperationService
from holdfast.schedule.providers import Providers
from holdfast.store.contract.audit import ActOutcome, AuditFilter
from holdfast.store.contract.operations import (
    Advance,
    Operation,
    OperationId,
    OperationRequest,
    Operations,
    OperationState,
    new_operation_id,
)
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, QUEUE, Scene
from tests.support.backends import opened
from tests.support.flaky import FlakyStore, Line
from tests.support.forking import forks
from tests.support.waiting import wait_until

YEAR = timedelta(days=365)
RUNNING, WAITING = OperationState.RUNNING, OperationState.WAITING
STOPPED, DONE = OperationState.STOPPED, OperationState.DONE


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leg, "JOB_BATCH", 4)


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    client = Client(store, Providers(), Events())
    yield client
    await client.aclose()


async def failed(scene: Scene, count: int) -> list[JobId]:
    jobs = await scene.enqueue_many(count)
    for claimed in await scene.claim(count):
        await scene.finish(claimed, FAILED)
    return jobs


async def states(store: Store, jobs: Sequence[JobId]) -> list[JobState]:
    found = {job.id: job.state for job in await store.jobs.get(jobs)}
    return [found[job] for job in jobs]


async def run(client: Client, *args: Any, **words: Any) -> Operation:
    """Begin an operation and work on it until it no longer runs."""
    operation = await client.operations.begin(*args, **words)
    return await client.operations.follow(operation.id)


async def test_an_operation_changes_every_job_that_matches_and_no_other(
    client: Client, scene: Scene
) -> None:
    jobs, other = await failed(scene, 10), await scene.enqueue(queue="other")
    moves: list[Operation] = []
    operation = await client.operations.begin("requeue", queue=QUEUE)
    assert (operation.state, operation.request.matched) == (RUNNING, 10)
    done = await client.operations.follow(operation.id, moves.append)
    assert (done.state, done.progress.changed, done.progress.failed) == (DONE, 10, 0)
    assert set(await states(scene.store, jobs)) == {JobState.READY}
    assert await scene.state(other) is JobState.READY
    assert [move.progress.changed for move in moves] == [0, 4, 4, 8, 8, 10]


@pytest.mark.parametrize("verb", sorted(set(JOB_VERBS) - {"cancel"}))
async def test_no_operation_but_a_cancel_touches_a_running_job(
    client: Client, scene: Scene, verb: str
) -> None:
    """Elsewhere a bulk retry by status reset rows that a worker was running."""
    running = await scene.running()
    before = await scene.store.jobs.get([running.id])
    value = {"move": "slow", "reprioritise": 9, "reschedule": 99.0}.get(verb)
    done = await run(client, verb, value, everything=True)
    assert (done.request.matched, done.progress.changed) == (0, 0)
    assert await scene.store.jobs.get([running.id]) == before
    assert (await scene.finish(running)).accepted


async def test_a_preview_counts_by_state_and_queue_and_changes_nothing(
    client: Client, scene: Scene
) -> None:
    await scene.enqueue_many(3)
    await scene.enqueue_many(7, queue="mail")
    await scene.enqueue(queue="mail", delay=60.0)
    preview = await client.operations.preview("cancel", everything=True)
    assert (preview.matched, preview.by_queue) == (11, {QUEUE: 3, "mail": 8})
    assert preview.by_state == {JobState.READY: 10, JobState.SCHEDULED: 1}
    assert (len(preview.samples), preview.can_undo) == (5, True)
    narrow = await client.operations.preview("cancel", created_before=scene.clock.now, tag="no")
    assert (narrow.matched, narrow.by_queue) == (0, {})
    since = await client.operations.preview("cancel", created_after=scene.clock.now - YEAR)
    assert (since.matched, since.by_queue) == (11, {QUEUE: 3, "mail": 8})
    ended = await scene.ended(queue="gone")
    old = await client.operations.preview("requeue", state="succeeded", task=ended.task)
    assert old.by_queue == {"gone": 1}
    assert not (await client.operations.preview("delete", everything=True)).can_undo
    assert await client.operations.all() == []


async def test_a_canary_stops_and_shows_how_its_jobs_ended(client: Client, scene: Scene) -> None:
    jobs = await failed(scene, 9)
    canary = await run(client, "requeue", queue=QUEUE, canary=2)
    assert (canary.state, canary.progress.changed) == (WAITING, 2)
    [first, second] = await scene.claim(2)
    await scene.finish(first)
    await scene.finish(second, FAILED)
    assert await client.operations.outcomes(canary.id) == {"failed": 1, "succeeded": 1}
    assert sorted({first.id, second.id}) == sorted(jobs)[-2:], "newest first"
    await client.operations.go_on(canary.id)
    done = await client.operations.follow(canary.id)
    assert (done.state, done.progress.changed) == (DONE, 9)
    assert await scene.state(second.id) is JobState.FAILED, "each job is touched once"


async def test_a_stop_is_obeyed_before_the_next_page_and_can_go_on(
    client: Client, scene: Scene
) -> None:
    jobs = await scene.enqueue_many(100)
    operation = await client.operations.begin("move", "slow", queue=QUEUE)
    stopping: list[asyncio.Task[None]] = []

    def stop(move: Operation) -> None:
        if move.hand is not None and not stopping:
            stopping.append(asyncio.create_task(client.operations.stop(operation.id, by="bob")))

    stopped = await client.operations.follow(operation.id, stop)
    await stopping[0]
    assert stopped.state is STOPPED
    assert 0 < stopped.progress.changed < len(jobs)
    assert stopped.hand is None, "what came of the page is written down all the same"
    with pytest.raises(Refused, match="is stopped: it does not run"):
        await client.operations.stop(operation.id)
    await client.operations.go_on(operation.id)
    assert (await client.operations.follow(operation.id)).progress.changed == len(jobs)
    assert {job.queue for job in await scene.store.jobs.get(jobs)} == {"slow"}
    with pytest.raises(Refused, match="is done: it needs no go-on"):
        await client.operations.go_on(operation.id)


async def test_a_pace_makes_small_pages(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.enqueue_many(6)
    moves: list[Operation] = []
    operation = await client.operations.begin("cancel", queue=QUEUE, pace=20.0)
    monkeypatch.setattr(leg, "PACED_SECONDS", 0.1)
    started = asyncio.get_running_loop().time()
    await client.operations.follow(operation.id, moves.append)
    assert asyncio.get_running_loop().time() - started >= 0.2
    assert [move.progress.changed for move in moves if move.hand is None] == [2, 4, 6]


async def test_jobs_that_cannot_be_changed_are_counted_with_their_reasons(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await scene.enqueue_many(5)
    bad, moving = jobs[3], scene.store.jobs.move

    async def move(ids: Sequence[JobId], queue: str, by: str | None = None) -> list[JobId]:
        if bad in ids:
            raise ValueError("this one never")
        return await moving(ids, queue, by)

    monkeypatch.setattr(scene.store.jobs, "move", move)
    done = await run(client, "move", "slow", queue=QUEUE)
    assert (done.progress.changed, done.progress.failed) == (4, 1)
    assert done.progress.errors == (f"job {bad}: this one never",)


async def test_an_operation_is_an_act_from_its_begin_to_its_end(
    client: Client, scene: Scene
) -> None:
    await failed(scene, 5)
    words: Any = {"queue": QUEUE, "by": "ann", "reason": "the mail server is back"}
    operation = await run(client, "requeue", canary=2, **words)
    act = (await scene.store.audit.page(AuditFilter(target=operation.id), 9)).entries[0]
    assert (act.verb, act.by, act.outcome, act.changed) == (
        *("jobs.requeue", "ann"),
        *(ActOutcome.INTERRUPTED, 2),
    )
    assert act.which == '{"states":["failed"],"queues":["default"]}'
    assert act.arguments == '{"reason":"the mail server is back","canary":2}'
    scene.clock.advance(1)
    await client.operations.go_on(operation.id, by="bob")
    await client.operations.follow(operation.id)
    found = (await scene.store.audit.page(AuditFilter(target=operation.id), 9)).entries
    assert [(each.verb, each.by, each.outcome, each.changed) for each in found] == [
        ("operations.go_on", "bob", ActOutcome.DONE, 1),
        ("jobs.requeue", "ann", ActOutcome.DONE, 5),
    ]


# Undo


async def undone(client: Client, operation: Operation) -> Operation:
    undoing_it = await client.operations.undo(operation.id)
    return await client.operations.follow(undoing_it.id)


async def test_a_move_is_undone_job_by_job(client: Client, scene: Scene) -> None:
    jobs = [await scene.enqueue(queue=f"q{n % 3}") for n in range(9)]
    operation = await run(client, "move", "all", everything=True)
    again = jobs[4]
    await client.move(again, "elsewhere")
    undo = await undone(client, operation)
    assert (undo.state, undo.progress.changed, undo.progress.failed) == (DONE, 8, 1)
    assert "was changed again since" in undo.progress.errors[0]
    found = {job.id: job.queue for job in await scene.store.jobs.get(jobs)}
    assert found == {job: f"q{n % 3}" for n, job in enumerate(jobs)} | {again: "elsewhere"}
    assert (await client.operations.undo(operation.id)).id == undo.id, "one undo, not two"
    with pytest.raises(Refused, match="is an undo itself"):
        await client.operations.undo(undo.id)


async def test_a_requeue_is_undone_by_cancelling_what_has_not_run(
    client: Client, scene: Scene
) -> None:
    jobs = await failed(scene, 5)
    operation = await run(client, "requeue", queue=QUEUE)
    ran = await scene.claim_one()
    await scene.finish(ran)
    assert (await undone(client, operation)).progress.changed == 4
    found = await states(scene.store, jobs)
    assert sorted(found) == [*[JobState.CANCELLED] * 4, JobState.SUCCEEDED]


async def test_a_cancel_is_undone_for_jobs_that_would_have_run_anyway(
    client: Client, scene: Scene
) -> None:
    ready, later = await scene.enqueue(), await scene.enqueue(delay=3600.0)
    operation = await run(client, "cancel", everything=True)
    undo = await undone(client, operation)
    assert await states(scene.store, [ready, later]) == [JobState.READY, JobState.CANCELLED]
    assert undo.progress.errors == (f"job {later} was scheduled: a requeue would run it now",)


async def test_priorities_and_due_times_come_back(client: Client, scene: Scene) -> None:
    first = await scene.enqueue(priority=3, delay=3600.0)
    second = await scene.enqueue(priority=5)
    due = (await scene.store.jobs.get([first]))[0].due_at
    for verb, value, states_ in (("reprioritise", 1, None), ("reschedule", 60.0, "scheduled")):
        operation = await run(client, verb, value, queue=QUEUE, state=states_)
        assert operation.progress.changed > 0
        await undone(client, operation)
    found = {job.id: job for job in await scene.store.jobs.get([first, second])}
    assert (found[first].priority, found[second].priority) == (3, 5)
    assert (found[first].due_at, found[second].state) == (due, JobState.READY)


async def test_a_delay_counts_from_the_begin(client: Client, scene: Scene) -> None:
    job = await scene.enqueue(delay=3600.0)
    begin = scene.clock.now
    operation = await client.operations.begin("reschedule", 60.0, queue=QUEUE)
    scene.clock.advance(30)
    await client.operations.follow(operation.id)
    assert (await scene.store.jobs.get([job]))[0].due_at == begin + timedelta(seconds=60)


async def test_what_cannot_be_undone_says_so(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(scene, 5)
    deleted = await run(client, "delete", state="failed")
    with pytest.raises(Refused, match="delete has no undo"):
        await client.operations.undo(deleted.id)
    monkeypatch.setattr("holdfast.client.operations.MOST_UNDOABLE", 2)
    await scene.enqueue_many(3)
    large = await client.operations.begin("move", "slow", queue=QUEUE)
    with pytest.raises(Refused, match="is running: stop it first"):
        await client.operations.undo(large.id)
    await client.operations.follow(large.id)
    with pytest.raises(Refused, match=r"matched 3 jobs, more than 500,000: it did not keep"):
        await client.operations.undo(large.id)
    assert undoing.MOST_UNDOABLE == 500_000
    assert await scene.store.operations.kept(large.id, 0, 9) == []


async def test_wrong_calls_are_refused_before_anything_is_written(
    client: Client, scene: Scene
) -> None:
    for args, words, says in (
        (["explode"], {"queue": QUEUE}, "verb must be one of requeue"),
        (["move"], {"queue": QUEUE}, "queue must be"),
        (["cancel"], {}, "at least one word, or everything=True"),
        (["cancel"], {"queue": QUEUE, "pace": 0}, "pace must be more than 0 jobs a second"),
        (["cancel"], {"queue": QUEUE, "canary": 0}, "canary must be a whole number"),
        (["requeue"], {"state": "ready"}, "states must be among"),
    ):
        with pytest.raises(BadOption, match=says):
            await client.operations.begin(*args, **words)
    assert await scene.store.operations.find() == []
    for unknown in ("nope", "01a1e540-7899-732e-a343-0b5536664571"):
        with pytest.raises(UnknownOperation, match=unknown):
            await client.operations.get(unknown)


# Crashes


@pytest.mark.parametrize("verb", JOB_VERBS)
@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_a_page_that_was_in_hand_is_brought_to_its_end_by_another(
    scene: Scene, verb: str, after: bool
) -> None:
    """The runner dies before the page is changed, or after it and before that is written down."""
    row = JOB_VERBS[verb]  # type: ignore[index]
    state = sorted(row.by_default or row.states)[0]
    jobs = [await scene.in_state(state, queue=f"q{n}") for n in range(3)]
    value = {"move": "slow", "reprioritise": 9, "reschedule": 99.0}.get(verb)
    line = Line()
    dying = Client(FlakyStore(scene.store, line), Providers(), Events())
    operation = await dying.operations.begin(verb, value, everything=True)
    changing = "finish" if verb == "cancel" else verb
    if after:
        line.lose = {changing}
    else:
        line.refuse = {changing}
    with pytest.raises(StoreUnavailable):
        await dying.operations.follow(operation.id)
    await dying.aclose()
    left = (await scene.store.operations.find())[0]
    assert left.hand is not None
    other = Client(scene.store, Providers(), Events())
    done = await other.operations.follow(operation.id)
    await other.aclose()
    assert (done.state, done.progress.changed, done.progress.failed) == (DONE, 3, 0)
    assert done.hand is None
    found = await scene.store.jobs.get(jobs)
    assert [row.applied(job, value) for job in found] == [True] * len(found)
    assert bool(found) == (verb != "delete")


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_an_operation_that_was_cut_off_and_stopped_is_undone_without_going_on(
    scene: Scene, after: bool
) -> None:
    jobs = [await scene.enqueue(queue=f"q{n}") for n in range(9)]
    line = Line()
    dying = Client(FlakyStore(scene.store, line), Providers(), Events())
    operation = await dying.operations.begin("move", "all", everything=True)
    if after:
        line.lose = {"move"}
    else:
        line.refuse = {"move"}
    with pytest.raises(StoreUnavailable):
        await dying.operations.follow(operation.id)
    await dying.aclose()
    client = Client(scene.store, Providers(), Events())
    await client.operations.stop(operation.id)
    undo = await undone(client, operation)
    assert undo.progress.changed == (4 if after else 0)
    left = await client.operations.get(operation.id)
    assert (left.state, left.progress.changed) == (STOPPED, 4 if after else 0)
    assert left.progress.failed == (0 if after else 4)
    found = {job.id: job.queue for job in await scene.store.jobs.get(jobs)}
    assert found == {job: f"q{n}" for n, job in enumerate(jobs)}
    await client.aclose()


KILLED = """
import asyncio, os, signal, sys
from holdfast import App
from holdfast.operations import leg, runner

leg.JOB_BATCH, runner.LEAD_SECONDS = 10, 1.0
app, pages = App(sys.argv[1]), 0


async def main() -> None:
    async with app:
        jobs = app.store.jobs
        requeue = jobs.requeue

        async def dies(ids, by=None):
            global pages
            changed = await requeue(ids, by)
            pages += 1
            if pages == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return changed

        jobs.requeue = dies
        begun = await app.client.operations.begin("requeue", queue="default", by="ann@desk")
        await app.client.operations.follow(begun.id)


asyncio.run(main())
"""


async def test_a_worker_goes_on_where_a_killed_runner_stopped_and_undo_restores(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner is killed at half, after a page was changed and before that was written down.
    One of its jobs has run and failed again meanwhile: it must not be requeued twice."""
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(leg, "JOB_BATCH", 10)
    async with opened(shared_url) as store:
        scene = await Scene.on(store, ManualClock())
        jobs = await failed(scene, 60)
        died = await asyncio.to_thread(forks().run_code, KILLED, shared_url)
        assert died.returncode == -signal.SIGKILL
        [operation] = await store.operations.find()
        assert (operation.state, operation.progress.changed) == (RUNNING, 20)
        again = await scene.claim(30)
        assert len(again) == 30, "the third page was changed"
        for claimed in again[::3]:
            await scene.finish(claimed, FAILED)
        for claimed in again[1::3]:
            await scene.finish(claimed)

    app = App(shared_url, poll=0.05)
    async with app, app.worker({"nobody": 1}):

        async def is_done() -> bool:
            return (await app.client.operations.get(operation.id)).state is DONE

        await wait_until(is_done, 60, "a worker goes on with the operation")
        done = await app.client.operations.get(operation.id)
        assert (done.progress.changed, done.progress.failed) == (60, 0)
        found = await states(app.store, jobs)
        assert (found.count(JobState.FAILED), found.count(JobState.READY)) == (10, 30)

        async def is_closed() -> bool:
            [act] = (await app.client.audit.page(by="ann@desk")).entries
            return (act.outcome, act.changed) == (ActOutcome.DONE, 60)

        await wait_until(is_closed, 60, "its act is closed, which comes last")
        undo = await app.client.operations.undo(operation.id)
        await app.client.operations.follow(undo.id)
        found = await states(app.store, jobs)
        assert (found.count(JobState.READY), found.count(JobState.CANCELLED)) == (0, 30)


async def test_an_operation_that_another_works_on_is_left_to_it(scene: Scene) -> None:
    await scene.enqueue_many(3)
    one, two = (Client(scene.store, Providers(), Events()) for _ in range(2))
    operation = await one.operations.begin("cancel", queue=QUEUE)
    assert await scene.store.workers.lead(f"operation:{operation.id}", scene.worker, 60.0)
    following = asyncio.create_task(two.operations.follow(operation.id))
    await asyncio.sleep(0.1)
    assert (await one.operations.get(operation.id)).revision == 1
    await scene.store.workers.stop_leading(f"operation:{operation.id}", scene.worker)
    assert (await following).state is DONE
    for client in (one, two):
        await client.aclose()


async def test_an_idle_service_asks_the_store_nothing(scene: Scene) -> None:
    line = Line()
    store = FlakyStore(scene.store, line)
    idle = OperationService(store, Events())
    await idle.start()
    await asyncio.sleep(0.1)
    await idle.stop()
    assert line.calls == []


async def test_work_that_breaks_off_is_reported_and_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.01)
    seen: list[Event] = []
    line = Line()
    store = FlakyStore(scene.store, line)
    client = Client(scene.store, Providers(), Events())
    await scene.enqueue_many(3)
    operation = await client.operations.begin("cancel", queue=QUEUE)
    line.refuse = {"page"}
    working = OperationService(store, Events(seen.append))
    await working.start()
    loop: Any = working.loops[0]

    def told(name: str) -> bool:
        loop.wake()
        return any(event.name == name for event in seen)

    await wait_until(lambda: told("operation.leg_failed"), 30, "the leg fails")
    line.refuse = set()
    await wait_until(lambda: told("operation.over"), 30, "the operation is done")
    await working.stop()
    assert (await client.operations.get(operation.id)).progress.changed == 3
    await client.aclose()


async def test_an_operation_of_a_newer_release_is_left_for_its_workers(
    client: Client, scene: Scene
) -> None:
    """Read without the word that narrows it further, its filter would mean every job."""
    jobs = await failed(scene, 3)
    operations = scene.store.operations
    filters = {"requeue": '{"colours":["red"]}', "repaint": "{}"}
    newer = [new_operation_id() for _ in filters]
    for operation, (verb, which) in zip(newer, filters.items(), strict=True):
        await operations.begin(operation, OperationRequest(verb=verb, which=which, by="ann"))
    service = OperationService(scene.store, Events())
    assert await service.run_once() == 0
    assert set(await states(scene.store, jobs)) == {JobState.FAILED}
    known = await client.operations.begin("requeue", queue=QUEUE)
    assert await service.run_once() == 1
    assert (await client.operations.get(known.id)).state is DONE
    for operation in newer:
        with pytest.raises(Unreadable, match="this version of holdfast cannot read its"):
            await client.operations.follow(operation)
        await client.operations.stop(operation, by="ann")
        assert (await client.operations.get(operation)).state is STOPPED


class Slow:
    """Operations whose writer is held up once, right after it wrote down its page."""

    def __init__(self, operations: Operations, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._operations = operations
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    async def advance(self, operation_id: OperationId, revision: int, move: Advance) -> bool:
        moved = await self._operations.advance(operation_id, revision, move)
        if move.hand is not None and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        return moved


async def test_a_runner_that_was_held_up_touches_no_job_that_another_has_done(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, passed = await failed(scene, 3), 0.0
    real = time.monotonic
    monkeypatch.setattr(
        Leadership.__init__, "__kwdefaults__", {"monotonic": lambda: real() + passed}
    )
    operation = await client.operations.begin("requeue", queue=QUEUE)

    async def another_does_it() -> None:
        nonlocal passed
        passed = runner.LEAD_SECONDS
        scene.clock.advance(runner.LEAD_SECONDS)
        assert (await client.operations.follow(operation.id)).state is DONE
        for claimed in await scene.claim(3):
            await scene.finish(claimed, FAILED)

    late = OperationRunner(scene.store, Events(), new_worker_id())
    slow: Any = Slow(scene.store.operations, another_does_it)
    monkeypatch.setattr(scene.store, "operations", slow)
    done = await late.work(operation.id)
    assert done is not None
    assert (done.state, done.progress.changed, done.progress.failed) == (DONE, 3, 0)
    assert set(await states(scene.store, jobs)) == {JobState.FAILED}
