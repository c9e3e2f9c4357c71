"""Calls on every store: in coroutines, threads and child processes, and where something dies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast.app import App
from holdfast.background.cancelling import cancel_jobs
from holdfast.errors import JobFailed, StoreUnavailable
from holdfast.flow.errands import do_errand
from holdfast.flow.ids import undo_flow_id
from holdfast.flow.model import FLOW_LIVE, FlowInfo, FlowState
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.store import Store
from holdfast.worker.worker import Worker
from tests.support.backends import Backend
from tests.support.called_tasks import CALLERS, double, on_the_loop, once
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import Shop

MOST_ROUNDS = 60


@pytest.fixture
async def app(backend: Backend) -> AsyncIterator[App]:
    app = App(await backend.empty())
    app.include(CALLERS)
    async with app:
        yield app


@pytest.mark.parametrize("mode", ["loop", "thread", "process"])
async def test_a_handler_calls_and_later_attempts_get_the_same(app: App, mode: str) -> None:
    async with app.worker({"default": 20}, processes=1):
        job = await app.tasks[mode].enqueue(number=3)
        assert await job.result(timeout=30) == [6, 8, [None, 6, 10], 12]
    assert (await job.get()).attempts == 2
    children = await app.store.flows.children([job.id])
    assert len(children[job.id]) == 4, "the second attempt called nothing again"


@pytest.mark.parametrize("mode", ["loop", "thread", "process"])
async def test_steps_of_a_job_that_failed_are_undone_in_reverse(app: App, mode: str) -> None:
    async with app.worker({"default": 20}, processes=1):
        job = await app.tasks[f"undone-in-{mode}"].enqueue()
        with pytest.raises(JobFailed):
            await job.result(timeout=30)

        async def is_being_undone() -> bool:
            return bool(await app.store.flows.children([job.id]))

        await wait_until(is_being_undone, 10, "somebody undoes it")
        flow = await app.client.flows.wait(undo_flow_id(JobId(job.id)), timeout=30)
    assert flow.state == "succeeded"
    nodes = await app.client.flows.nodes(flow.id)
    by_end = sorted(nodes, key=lambda node: str(node.finished_at))
    assert [node.name for node in by_end] == ["b", "a"]
    results = [(await app.client.get(node.job_id)).result for node in by_end]
    assert results == ["undid b", "undid a"]


# Crash points ------------------------------------------------------------------------------------

WRITES = {"record", "start", "finish", "send", "done"}


class Seam(Line):
    """Counts the writes of a worker. At the chosen one the line is cut before it, its answer is
    lost, or the worker is thought dead right after it: its jobs are taken from it."""

    def __init__(self, store: Store, at: int = 0, side: str = "") -> None:
        super().__init__()
        self._store, self._at, self._side = store, at, side
        self.writes: list[str] = []

    async def carry(self, verb: str, call: Callable[[], Any]) -> Any:
        if verb not in WRITES:
            return await call()
        self.writes.append(verb)
        if len(self.writes) != self._at:
            return await call()
        if self._side == "cut":
            raise StoreUnavailable("the line is cut")
        answer = await call()
        if self._side == "lost":
            raise StoreUnavailable("the answer is lost")
        await take_away_all(self._store)
        return answer


async def take_away_all(store: Store) -> None:
    running = JobFilter(states=frozenset({JobState.RUNNING}))
    ids = [job.id for job in (await store.jobs.page(running, 100)).jobs]
    held = await store.jobs.live(ids)
    await store.jobs.finish([decide(job, Reclaimed("its worker died")) for job in held])


class Story:
    """One caller, whose worker may be disturbed."""

    def __init__(self, store: Store, line: Line, task: str) -> None:
        self.store = store
        self.flaky: Any = FlakyStore(store, line)
        self.task = task
        self.shop = Shop(self.flaky)
        for one in (double, once, on_the_loop):
            self.shop.registry.add(one.handler)

    async def play(self) -> Job:
        job = await self.shop.enqueue(self.task, 3)
        async with self.shop.worker() as worker:
            return await self.ended(worker, job)

    async def ended(self, worker: Worker, job: JobId) -> Job:
        found = await self.shop.get(job)
        for _ in range(MOST_ROUNDS):
            await worker.drain()
            await self.store.jobs.promote_due(100)
            await self.errands()
            found = await self.shop.get(job)
            if found.ended:
                return found
        raise AssertionError(f"job {job} is {found.state}: {found.reason}")

    async def errands(self) -> None:
        for errand in await self.store.flows.errands(100):
            with suppress(StoreUnavailable):
                await do_errand(self.flaky, errand)


RESULTS: dict[str, tuple[object, int]] = {"once": (7, 1), "loop": ([6, 8, [None, 6, 10], 12], 4)}
"""What each caller returns, and how many flows it calls."""


@pytest.mark.parametrize("side", ["cut", "lost", "dead"])
@pytest.mark.parametrize("task", ["once", pytest.param("loop", marks=pytest.mark.chaos)])
async def test_no_write_of_a_call_may_be_disturbed_in_a_way_that_counts(
    live_store: Store, side: str, task: str
) -> None:
    """Record, start, suspension, telling, taking: the result is the same, and nothing is called
    twice."""
    undisturbed = Seam(live_store)
    await Story(live_store, undisturbed, task).play()
    assert {"start", "send", "record", "done"} <= set(undisturbed.writes)
    for at in range(1, len(undisturbed.writes) + 1):
        job = await Story(live_store, Seam(live_store, at, side), task).play()
        [children] = (await live_store.flows.children([job.id])).values()
        where = f"{side} at write {at} of {undisturbed.writes}"
        assert (job.state, (job.result, len(children))) == ("succeeded", RESULTS[task]), where
    live = await live_store.flows.page(FlowFilter(states=FLOW_LIVE), 100)
    assert live.flows == ()


# Both orders -------------------------------------------------------------------------------------


class Meeting(Story):
    """A caller that is about to be suspended, or is."""

    def __init__(self, store: Store) -> None:
        self.line = Line()
        super().__init__(store, self.line, "once")
        self.child = Shop(store)
        self.child.registry.add(double.handler)
        self.job = JobId("")

    async def begin(self, meanwhile: Callable[[], Awaitable[object]] | None = None) -> JobId:
        """Run the caller until it is left; `meanwhile` happens before its suspension is written."""
        self.job = await self.shop.enqueue("once", 3, queue="callers")
        if meanwhile is not None:
            self.line.first["finish"] = meanwhile
        await self.go_on()
        return self.job

    async def go_on(self) -> Job:
        await self.shop.drain(queues={"callers": 4})
        return await self.shop.get(self.job)

    async def end_child(self) -> None:
        """The child runs, ends and tells its caller."""
        await self.child.drain(queues={"default": 4})
        for errand in await self.store.flows.errands(100):
            await do_errand(self.store, errand)

    async def flow(self) -> FlowInfo:
        [flows] = (await self.store.flows.children([self.job])).values()
        [info] = await self.store.flows.get(flows)
        return info


async def test_a_child_that_ends_before_its_caller_is_suspended_is_not_missed(
    live_store: Store,
) -> None:
    meeting = Meeting(live_store)
    await meeting.begin(meeting.end_child)
    job = await meeting.go_on()
    assert (job.state, job.result, job.attempts) == ("succeeded", 7, 1)


async def test_a_child_that_ends_after_its_caller_was_suspended_wakes_it(live_store: Store) -> None:
    meeting = Meeting(live_store)
    await meeting.begin()
    job = await meeting.shop.get(meeting.job)
    assert (job.state, job.reason) == ("suspended", "waits for 'call double'")
    await meeting.end_child()
    job = await meeting.go_on()
    assert (job.state, job.result, job.attempts) == ("succeeded", 7, 1)


async def test_a_caller_whose_lease_is_lost_while_its_child_ends_calls_nothing_again(
    live_store: Store,
) -> None:
    """Its suspension is refused, and another attempt gets what the child has come to."""
    meeting = Meeting(live_store)

    async def meanwhile() -> None:
        await take_away_all(live_store)
        await meeting.end_child()

    await meeting.begin(meanwhile)
    job = await meeting.go_on()
    assert (job.state, job.result, job.attempts) == ("succeeded", 7, 1)
    assert (await meeting.flow()).total == 1


async def test_the_cancel_of_a_caller_goes_down(live_store: Store) -> None:
    meeting = Meeting(live_store)
    await meeting.begin()
    await cancel_jobs(live_store.jobs, [meeting.job])
    await meeting.errands()
    await meeting.errands()
    assert (await meeting.shop.get(meeting.job)).state is JobState.CANCELLED
    assert (await meeting.flow()).state is FlowState.CANCELLED


async def test_a_child_that_ended_before_the_cancel_of_its_caller_stays_as_it_ended(
    live_store: Store,
) -> None:
    meeting = Meeting(live_store)
    await meeting.begin()
    await meeting.child.drain(queues={"default": 4})
    await cancel_jobs(live_store.jobs, [meeting.job])
    await meeting.errands()
    assert (await meeting.shop.get(meeting.job)).state is JobState.CANCELLED
    assert (await meeting.flow()).state is FlowState.SUCCEEDED
    assert await live_store.flows.errands(100) == []


async def test_a_cancel_that_comes_before_the_suspension_goes_down(live_store: Store) -> None:
    meeting = Meeting(live_store)

    async def meanwhile() -> None:
        await live_store.jobs.request_cancel([meeting.job])

    await meeting.begin(meanwhile)
    await meeting.errands()
    await meeting.errands()
    assert (await meeting.shop.get(meeting.job)).state is JobState.CANCELLED
    assert (await meeting.flow()).state is FlowState.CANCELLED
