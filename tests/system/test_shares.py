"""The total of a queue is spread over the workers that serve it, whoever comes and leaves."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from holdfast import App
from holdfast.events import Event
from holdfast.job.state import JobState
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.store import Store
from holdfast.worker.shares import LOOKS_TO_RETURN, _Loan
from holdfast.worker.worker import Worker
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import Shop


class Fleet:
    """Apps on one store, each with a worker, and what their workers say of their shares."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.open = asyncio.Event()
        self.shares: dict[str, int | None] = {}
        self.running: dict[str, int] = {}

    def app(self, name: str) -> App:
        app = App(self.url, poll=0.2)
        self.running[name] = 0

        @app.task(name="work", queue="ai")
        async def work() -> None:
            self.running[name] += 1
            await self.open.wait()
            self.running[name] -= 1

        def note(event: Event) -> None:
            if event.name == "worker.share":
                self.shares[name] = event.fields["share"]  # type: ignore[assignment]

        app.events.subscribe(note)
        return app

    async def hire(self, stack: AsyncExitStack, name: str, grace: float = 5) -> Worker:
        app = await stack.enter_async_context(self.app(name))
        return await stack.enter_async_context(app.worker({"ai": 8}, name=name, grace=grace))

    async def shared(self, **shares: int) -> None:
        await wait_until(lambda: self.shares == shares, 10, f"shares are {shares}")


@pytest.fixture
def fleet(shared_url: str) -> Fleet:
    return Fleet(shared_url)


async def test_workers_share_a_total_and_take_over_what_others_leave(fleet: Fleet) -> None:
    async with fleet.app("client") as app, AsyncExitStack() as stack:
        await app.client.queues.tune("ai", max_running=10)
        await app.tasks["work"].enqueue_many([()] * 30)
        await fleet.hire(stack, "one")
        await fleet.shared(one=8)
        await wait_until(lambda: fleet.running["one"] == 8, 10, "as many as it has slots")
        async with AsyncExitStack() as other:
            await fleet.hire(other, "two")
            await fleet.shared(one=5, two=5)
            await wait_until(lambda: fleet.running["two"] >= 2, 10, "the other begins")
            assert fleet.running["one"] == 8, "nothing that runs is cancelled"
            fleet.open.set()
            await asyncio.sleep(0)
            fleet.open.clear()
            await wait_until(lambda: sum(fleet.running.values()) == 10, 10, "ten run")
            assert fleet.running["one"] == fleet.running["two"] == 5
            fleet.open.set()
        fleet.shares.pop("two")
        await fleet.shared(one=8)
        await wait_until(lambda: sum(fleet.running.values()) == 0, 20, "all ran")
        ended = await app.client.page(states=[JobState.SUCCEEDED], limit=50)
        assert {job.attempts for job in ended.jobs} == {1}
        [row] = [one for one in await app.client.workers.all() if one.name == "one"]
        assert row.queues == {"ai": 8}


@pytest.mark.parametrize("how", ["stop", "retire"])
async def test_a_worker_that_leaves_passes_its_share_on_while_its_jobs_run(
    fleet: Fleet, how: str
) -> None:
    async with fleet.app("client") as app, AsyncExitStack() as stack:
        await app.client.queues.tune("ai", max_running=6)
        one = await fleet.hire(stack, "one")
        two = await fleet.hire(stack, "two", grace=60)
        await fleet.shared(one=3, two=3)
        await one.drain()  # its first claim asked for six, and may still be on its way
        await app.tasks["work"].enqueue_many([()] * 12)
        await wait_until(lambda: fleet.running["two"] > 0, 10, "it has jobs")
        two.retire() if how == "retire" else two.request_stop()
        leaving = asyncio.create_task(two.run())
        await fleet.shared(one=6, two=3)
        assert fleet.running["two"] > 0
        fleet.open.set()
        await leaving


async def test_a_worker_asks_for_the_next_of_a_total_when_an_end_is_written(
    live_store: Store,
) -> None:
    """Until then the store counts the job that has ended, and would give nothing."""
    jobs, line = 6, Line()

    async def brief() -> None:
        """Ends at once, but it takes a while to write that."""

    shop = Shop(FlakyStore(live_store, line), brief)
    await live_store.queues.tune("default", QueueSettings(max_running=1))
    for _ in range(jobs):
        await shop.enqueue(brief)
    line.late["finish"] = 0.02
    assert await shop.drain(poll=60) == jobs
    assert line.calls.count("claim") <= jobs + 2  # one finds the queue empty, a poll may too


async def test_a_worker_of_queues_without_totals_has_no_share(fleet: Fleet) -> None:
    async with AsyncExitStack() as stack:
        await fleet.hire(stack, "one")
        await fleet.hire(stack, "two")
        await asyncio.sleep(0.3)
        assert fleet.shares == {}


async def test_a_share_that_its_worker_cannot_use_is_borrowed(fleet: Fleet) -> None:
    """A worker that serves the queue and lacks the labels keeps nobody from the total."""
    async with fleet.app("client") as app, AsyncExitStack() as stack:
        await app.client.queues.tune("ai", max_running=6)
        await app.tasks["work"].enqueue_many([()] * 12)
        idle = App(fleet.url)
        await stack.enter_async_context(idle)
        await stack.enter_async_context(idle.worker({"ai": 8}))
        await fleet.hire(stack, "one")
        await fleet.shared(one=3)
        await wait_until(lambda: fleet.running["one"] == 6, 20, "it has borrowed the rest")
        fleet.open.set()
        await wait_until(lambda: fleet.running["one"] == 0, 20, "all ran")


def test_what_was_borrowed_is_returned_bit_by_bit_while_others_may_want_it() -> None:
    loan = _Loan()
    assert [loan.evaluate(4), loan.evaluate(4)] == [False, True], "what lies idle twice in a row"
    assert loan.units == 4
    seen = []
    for _ in range(LOOKS_TO_RETURN * 3):
        loan.evaluate(0)
        seen.append(loan.units)
    assert seen[::LOOKS_TO_RETURN] == [4, 2, 1]
    assert not loan.evaluate(0)
