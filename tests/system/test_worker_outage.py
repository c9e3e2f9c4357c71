"""The store goes away and comes back; a worker goes on by itself, or says that it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.errors import RowRefused, StoreError, StoreUnavailable, WorkerStalled
from holdfast.events import Event, Events
from holdfast.job.ends import WorkerLost
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.record import Claimed, Live, times_taken
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.schedule.providers import Providers
from holdfast.schedule.service import ScheduleService
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.worker.worker import Worker
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import ONCE, Shop


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def flaky(sealed_store: Store, line: Line) -> Store:
    return FlakyStore(sealed_store, line)


async def test_an_end_that_cannot_be_written_is_kept_until_it_can(flaky: Store, line: Line) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "kept"

    shop = Shop(flaky, slow)
    job_id = await shop.enqueue(slow)
    async with shop.worker(lease=30) as worker:
        await started.wait()
        line.cut = True
        go_on.set()
        await wait_until(lambda: worker.health()["running"] == 0, 5, "the handler ended")
        await wait_until(lambda: line.calls.count("finish") >= 2, 5, "the write is repeated")
        assert worker.health()["unwritten"] == 1
        line.cut = False
        job = await shop.until(job_id, lambda job: job.ended)
        await worker.drain()
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, "kept", 1)
    assert len(shop.reported("worker.store_unavailable")) == 1
    assert len(shop.reported("worker.store_back")) == 1


async def test_a_finish_whose_answer_was_lost_is_recognised_as_our_own(
    flaky: Store, line: Line
) -> None:
    async def fine() -> None: ...

    async def fail() -> None:
        raise ValueError("once")

    shop = Shop(flaky, fine, fail)
    ids = [await shop.enqueue(fine), await shop.enqueue(fail, policy=Policy(retry=Retry.never()))]
    line.lose.add("finish")
    async with shop.worker() as worker:
        assert await worker.drain() == 2
        assert worker.health()["refused"] == 0
    states = [(await shop.get(job_id)).state for job_id in ids]
    assert states == [JobState.SUCCEEDED, JobState.FAILED]
    assert not line.lose


async def test_jobs_of_a_claim_whose_answer_was_lost_are_not_stuck(
    flaky: Store, line: Line
) -> None:
    ran: list[int] = []

    async def fine(n: int) -> None:
        ran.append(n)

    shop = Shop(flaky, fine)
    ids = [await shop.enqueue(fine, n) for n in range(3)]
    line.lose.add("claim")
    async with shop.worker(lease=30):
        for job_id in ids:
            job = await shop.until(job_id, lambda job: job.ended, within=5)
            assert (job.state, job.attempts) == (JobState.SUCCEEDED, 1)
    assert sorted(ran) == [0, 1, 2]
    assert len(shop.reported("worker.lost_claim_returned")) == 3


async def test_a_claim_that_is_answered_again_after_its_jobs_went_back_runs_them_once(
    flaky: Store, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may tell again what a lost answer held; by then the jobs may be on their way back."""
    ran: list[int] = []

    async def fine(n: int) -> None:
        ran.append(n)

    shop = Shop(flaky, fine)
    ids = [await shop.enqueue(fine, n) for n in range(3)]
    claim, first = flaky.jobs.claim, list[Claimed]()

    async def answered_twice(*asked: Any) -> list[Claimed]:
        if not first:
            first.extend(await claim(*asked))
            raise StoreUnavailable("the answer is lost")
        if line.held:
            monkeypatch.undo()
            asyncio.get_running_loop().call_later(0.1, line.release)
            return first
        return []

    monkeypatch.setattr(flaky.jobs, "claim", answered_twice)
    line.hold.add("finish")
    async with shop.worker(poll=0.05):
        for job_id in ids:
            job = await shop.until(job_id, lambda job: job.ended)
            assert job.state is JobState.SUCCEEDED
            assert job.fence not in [one.fence for one in first if one.id == job_id]
    assert sorted(ran) == [0, 1, 2]
    assert shop.reported("job.end_refused") == []


async def test_a_worker_whose_lease_ran_out_keeps_what_it_runs_and_its_name(
    flaky: Store, line: Line
) -> None:
    """Whether another took the job over, only the store can say; nobody did."""
    started, release = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await release.wait()
        return "first run"

    shop = Shop(flaky, slow)
    job_id = await shop.enqueue(slow, policy=ONCE)
    async with shop.worker(lease=0.6) as worker:
        await started.wait()
        name = worker.id
        line.cut = True
        await wait_until(lambda: worker.health()["ready"] is False, 10, "the lease has run out")
        await wait_until(lambda: bool(shop.reported("worker.lease_lapsed")), 5, "that is said")
        line.cut = False
        await wait_until(lambda: worker.health()["ready"] is True, 10, "the worker is back")
        assert worker.id == name
        release.set()
        job = await shop.until(job_id, lambda job: job.ended)
    assert (job.state, job.result, times_taken(job.fence)) == (
        JobState.SUCCEEDED,
        "first run",
        1,
    )
    assert shop.reported("worker.lease_lost") == []


async def test_a_worker_whose_lease_ran_out_stops_what_was_taken_over_meanwhile(
    flaky: Store, line: Line, sealed_store: Store
) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    shop = Shop(flaky, slow)
    job_id = await shop.enqueue(slow, policy=ONCE)
    async with shop.worker(lease=0.6) as worker:
        await started.wait()
        line.cut = True
        await wait_until(lambda: worker.health()["ready"] is False, 10, "the lease has run out")
        [lost] = await wait_for_lapse(sealed_store)
        [verdict] = await sealed_store.jobs.reclaim([decide(lost, WorkerLost())])
        assert verdict.accepted
        line.cut = False
        await asyncio.wait_for(stopped.wait(), 10)
        await wait_until(lambda: worker.health()["running"] == 0, 5, "nothing runs")
    assert (await shop.get(job_id)).state is JobState.FAILED
    assert len(shop.reported("job.lost")) == 1


async def wait_for_lapse(store: Store) -> list[Live]:
    found: list[Live] = []

    async def look() -> bool:
        found[:] = await store.jobs.lapsed_leases(10)
        return bool(found)

    await wait_until(look, 5, "the lease has lapsed at the store")
    return found


async def test_a_full_disk_is_told_once_though_polls_are_answered(flaky: Store, line: Line) -> None:
    """Reads go on there; what cannot be written is still away."""

    async def fine() -> None: ...

    shop = Shop(flaky, fine)
    line.refuse.add("finish")
    async with shop.worker(lease=30, poll=0.02):
        job_id = await shop.enqueue(fine)
        await wait_until(lambda: line.calls.count("finish") > 2, 5, "ends are refused")
        polls = line.calls.count("poll")
        await wait_until(lambda: line.calls.count("poll") > polls + 3, 5, "polls are answered")
        assert shop.reported("worker.store_back") == []
        line.refuse.clear()
        await shop.until(job_id, lambda job: job.ended)
    assert len(shop.reported("worker.store_unavailable")) == 1
    assert len(shop.reported("worker.store_back")) == 1


async def test_a_lead_that_cannot_be_written_is_told_once(flaky: Store, line: Line) -> None:
    told: list[Event] = []
    line.refuse.add("lead")
    service = ScheduleService(flaky, Events(told.append), {}, Providers())
    await service.start()
    try:
        await wait_until(lambda: line.calls.count("lead") > 2, 5, "the lead is asked for again")
        line.refuse.clear()
        await wait_until(lambda: "leader.elected" in names(told), 5, "a leader")
    finally:
        await service.stop()
    outage = [name for name in names(told) if name.startswith("reconcile.store")]
    assert outage == ["reconcile.store_unavailable", "reconcile.store_back"]


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


async def test_a_worker_that_the_store_forgot_registers_anew(live_store: Store) -> None:
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    async def fine() -> None: ...

    shop = Shop(live_store, slow, fine)
    await shop.enqueue(slow)
    async with shop.worker(lease=0.6) as worker:
        await started.wait()
        former = worker.id
        await live_store.workers.deregister(former)
        await wait_until(lambda: worker.id != former, 10, "a new name")
        job_id = await shop.enqueue(fine)
        await shop.until(job_id, lambda job: job.ended)
        assert worker.health()["discarded"] == 1


async def test_a_worker_whose_new_name_was_refused_once_asks_again(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fine() -> None: ...

    shop = Shop(live_store, fine)
    register = live_store.workers.register

    async def refused_once(*asked: Any) -> None:
        monkeypatch.setattr(live_store.workers, "register", register)
        raise StoreError("the schema is being restored")

    async with shop.worker(lease=0.6) as worker:
        former = worker.id
        monkeypatch.setattr(live_store.workers, "register", refused_once)
        await live_store.workers.deregister(former)
        await wait_until(lambda: worker.id != former, 10, "a new name")
        job_id = await shop.enqueue(fine)
        await shop.until(job_id, lambda job: job.ended)
    assert len(shop.reported("worker.renewal_failed")) == 1


async def test_lost_claims_are_looked_for_until_the_store_could_be_asked(
    flaky: Store, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fine() -> None: ...

    shop = Shop(flaky, fine)
    job_id = await shop.enqueue(fine)

    async def refused_once(*asked: Any) -> Any:
        monkeypatch.undo()
        raise StoreError("the schema is being restored")

    monkeypatch.setattr(flaky.jobs, "page", refused_once, raising=False)
    line.lose.add("claim")
    async with shop.worker(lease=30):
        job = await shop.until(job_id, lambda job: job.ended, within=5)
    assert job.state is JobState.SUCCEEDED
    assert len(shop.reported("worker.lost_claim_search_failed")) == 1


async def test_a_second_claim_in_doubt_is_looked_into_at_once(flaky: Store, line: Line) -> None:
    """And not when the lease of the first has passed."""

    async def fine() -> None: ...

    shop = Shop(flaky, fine)
    async with shop.worker(lease=30, poll=0.05):
        for _ in range(2):
            line.lose.add("claim")
            flaky.wakeups.tell(Wakeup(Topic.READY))
            await wait_until(lambda: "claim" not in line.lose, 5, "a claim is lost")
            job_id = await shop.enqueue(fine)
            line.lose.add("claim")
            job = await shop.until(job_id, lambda job: job.ended, within=5)
            assert job.state is JobState.SUCCEEDED


async def test_a_worker_that_cannot_reach_its_store_says_so_and_leaves(
    flaky: Store, line: Line
) -> None:
    async def fine() -> None: ...

    shop = Shop(flaky, fine)
    worker = shop.new_worker(lease=0.4, grace=0.1, poll=0.05)
    running = asyncio.create_task(worker.run())
    await wait_until(lambda: "claim" in line.calls, 20, "the worker claims")
    line.cut = True
    with pytest.raises(WorkerStalled, match="more than two leases"):
        await asyncio.wait_for(running, 20)


class Held:
    """A worker in `run` that holds one job. The job ends when `go_on` is set."""

    def __init__(self, store: Store, lease: float) -> None:
        self.go_on = asyncio.Event()
        self._is_ready = asyncio.Event()

        async def slow() -> str:
            await self.go_on.wait()
            return "kept"

        async def rest() -> None:
            await self._is_ready.wait()

        self._slow, self._rest = slow, rest
        self._shop = Shop(store, slow, rest)
        self.worker = self._shop.new_worker(lease=lease, grace=0.1, poll=0.05)

    async def begin(self) -> None:
        self._job = await self._shop.enqueue(self._slow, policy=ONCE)
        self.running = asyncio.create_task(self.worker.run())
        await self._shop.until(self._job, lambda job: job.state is JobState.RUNNING)

    async def hold_until_ready(self) -> None:
        """Have one job more, which ends when the worker sees that its store is back. A worker that
        has written all it held may leave before it sees that."""
        job = await self._shop.enqueue(self._rest)
        await self._shop.until(job, lambda job: job.state is JobState.RUNNING)

    async def end(self) -> None:
        """The end of the job was kept, and the worker stayed."""
        job = await self._shop.until(self._job, lambda job: job.ended)
        assert (job.state, job.result) == (JobState.SUCCEEDED, "kept")
        await wait_until(lambda: self.worker.health()["ready"] is True, 10, "the outage is over")
        self._is_ready.set()
        self.worker.request_stop()
        await self.running


async def test_a_worker_that_cannot_reach_its_store_stays_while_it_holds_something(
    flaky: Store, line: Line
) -> None:
    """Leaving would throw away what runs, and the ends that wait to be written."""
    held = Held(flaky, lease=0.4)
    await held.begin()
    await held.hold_until_ready()
    line.cut = True
    await asyncio.sleep(0.8)
    held.go_on.set()
    await asyncio.sleep(0.8)
    assert held.worker.health()["ready"] is False
    assert not held.running.done()
    line.cut = False
    await held.end()


async def test_a_worker_stays_if_one_verb_is_answered_a_little_later_than_the_others(
    flaky: Store, line: Line
) -> None:
    """A look that comes in between finds a long outage, and nothing to lose by leaving."""
    held = Held(flaky, lease=1.5)
    await held.begin()
    line.cut = True
    await asyncio.sleep(3.5)
    held.go_on.set()
    line.refuse.add("poll")
    line.cut = False
    polls = line.calls.count("poll")
    await wait_until(lambda: line.calls.count("poll") > polls, 5, "a poll fails again")
    line.refuse.clear()
    await wait_until(lambda: held.worker.health()["ready"] is True, 5, "the outage is over")
    assert not held.running.done()
    await held.end()


def crowded(worker: Worker) -> bool:
    """What was claimed before the limit was reached still runs and ends."""
    health = worker.health()
    return int(str(health["unwritten"])) >= 20 and not health["running"]


async def test_claims_stop_while_too_many_ends_are_unwritten(flaky: Store, line: Line) -> None:
    async def fine() -> None: ...

    shop = Shop(flaky, fine)
    for _ in range(300):
        await shop.enqueue(fine)
    line.hold.add("finish")
    async with shop.worker({"default": 5}, max_unwritten=20) as worker:
        await wait_until(lambda: crowded(worker), 5, "too many ends wait, and nothing runs")
        assert await flaky.jobs.count(JobFilter(states=frozenset({JobState.READY})))
        claims = line.calls.count("claim")
        worker_woken = await shop.enqueue(fine)
        await asyncio.sleep(0)
        assert line.calls.count("claim") == claims
        line.release()
        await worker.drain()
        assert (await shop.get(worker_woken)).state is JobState.SUCCEEDED


async def test_a_job_whose_end_could_not_be_written_goes_back_as_one_that_has_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has run, so it gives back nothing that only a job may which has not begun."""
    finish, handed_back = store.jobs.finish, list[Transition]()

    async def fine() -> None: ...

    async def spoilt(ends: Sequence[Transition]) -> list[Verdict]:
        handed_back.extend(end for end in ends if end.to is JobState.READY)
        if not handed_back:
            raise RowRefused("no end of this job can be written")
        return await finish(ends)

    monkeypatch.setattr(store.jobs, "finish", spoilt)
    shop = Shop(store, fine)
    job_id = await shop.enqueue(fine)
    async with shop.worker(lease=30):
        await shop.until(job_id, lambda job: job.ended)
    assert [(end.id, end.begun) for end in handed_back] == [(job_id, True)]
