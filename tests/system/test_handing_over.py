"""A worker gets the next node with the answer to the end of the one before."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from holdfast.flow.model import NewFlow
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.records import Capability
from holdfast.store.contract.store import Store
from tests.conformance.builders import TASK
from tests.support.flaky import FlakyStore, Line
from tests.support.flows import Waits, new_flow
from tests.support.waiting import wait_until
from tests.support.working import Shop


class Walk:
    """A shop whose only handler counts its calls, on a store that can hand nodes over. The first
    call waits for `begin`: a worker that still claims has no room for what an end brings."""

    def __init__(self, store: Store) -> None:
        self.line = Line()
        self.calls = 0
        self._begun = asyncio.Event()

        async def greet() -> None:
            self.calls += 1
            await self._begun.wait()

        assert greet.__name__ == TASK
        self.shop = Shop(FlakyStore(store, self.line), greet)

    async def start(self, names: str) -> list[JobId]:
        """A chain of nodes with these names."""
        graph: dict[str, Waits] = {names[0]: []}
        graph |= {after: [before] for before, after in pairwise(names)}
        flow: NewFlow = new_flow(graph)
        await self.shop.store.flows.start([flow])
        return [node.job.id for node in flow.nodes]

    async def begin(self) -> None:
        """Let the first node end, as soon as the worker has claimed it and is at rest."""
        await wait_until(lambda: self.calls == 1 and self._at_rest, 5, "the worker is at rest")
        self._begun.set()

    @property
    def _at_rest(self) -> bool:
        """Whether the first claim is over. The last that it does is to ask for limits."""
        under_way = self.line.under_way
        return "find" in self.line.calls and not under_way["claim"] and not under_way["find"]

    async def end(self, job: JobId) -> None:
        await self.shop.until(job, lambda job: job.ended)


@pytest.fixture
def walk(store: Store) -> Walk:
    if Capability.HAND_OVER not in store.capabilities:
        pytest.skip(f"this store does not {Capability.HAND_OVER}")
    return Walk(store)


async def test_one_claim_is_enough_for_a_chain(walk: Walk) -> None:
    ids = await walk.start("abcdef")
    async with walk.shop.worker({"default": 2}) as worker:
        await walk.begin()
        await walk.end(ids[-1])
        await wait_until(lambda: worker.health()["unwritten"] == 0, 5, "the last end is written")
        plain = await walk.shop.enqueue(TASK)
        await walk.end(plain)  # its slot is free again
    assert walk.line.calls.count("hand_over") == walk.calls - 1 == 6


async def test_a_node_is_found_again_if_the_answer_that_brought_it_is_lost(walk: Walk) -> None:
    walk.line.lose = {"hand_over"}
    ids = await walk.start("abc")
    async with walk.shop.worker({"default": 2}):
        await walk.begin()
        for job in ids:
            await walk.end(job)
    assert not walk.line.lose
    assert walk.calls == 3
    assert walk.shop.reported("worker.lost_claim_returned")


async def test_an_end_that_the_store_refuses_for_a_while_is_written_later(walk: Walk) -> None:
    walk.line.refuse = {"hand_over", "finish"}
    ids = await walk.start("abc")
    async with walk.shop.worker({"default": 2}):
        await walk.begin()
        await wait_until(lambda: "hand_over" in walk.line.calls, 5, "the first node ends")
        walk.line.refuse.clear()
        for job in ids:
            await walk.end(job)
    assert walk.calls == 3


async def test_a_worker_that_leaves_hands_back_what_its_last_end_brings(walk: Walk) -> None:
    walk.line.hold = {"hand_over"}
    first, second = await walk.start("ab")
    worker = walk.shop.new_worker({"default": 2}, grace=5)
    await worker.start()
    await walk.begin()
    await wait_until(lambda: walk.line.held == ["hand_over"], 5, "the answer is on its way")
    leaving = asyncio.create_task(worker.stop())
    await wait_until(lambda: bool(worker.health()["leaving"]), 5, "the worker leaves")
    walk.line.release()
    await leaving
    assert (await walk.shop.get(first)).state is JobState.SUCCEEDED
    job = await walk.shop.get(second)
    assert (job.state, job.attempts, walk.calls) == (JobState.READY, 0, 1)
