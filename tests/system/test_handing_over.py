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
    """A shop whose only handler counts its calls, on a store that can hand nodes over."""

    def __init__(self, store: Store) -> None:
        self.line = Line()
        self.calls = 0

        async def greet() -> None:
            self.calls += 1

        assert greet.__name__ == TASK
        self.shop = Shop(FlakyStore(store, self.line), greet)

    async def start(self, names: str) -> list[JobId]:
        """A chain of nodes with these names."""
        graph: dict[str, Waits] = {names[0]: []}
        graph |= {after: [before] for before, after in pairwise(names)}
        flow: NewFlow = new_flow(graph)
        await self.shop.store.flows.start([flow])
        return [node.job.id for node in flow.nodes]

    async def end(self, job: JobId) -> None:
        await self.shop.until(job, lambda job: job.ended)


@pytest.fixture
def walk(store: Store) -> Walk:
    if Capability.HAND_OVER not in store.capabilities:
        pytest.skip(f"this store does not {Capability.HAND_OVER}")
    return Walk(store)


async def test_one_claim_is_enough_for_a_chain(walk: Walk) -> None:
    async with walk.shop.worker({"default": 2}) as worker:
        await wait_until(lambda: "claim" in walk.line.calls, 5, "the worker is at rest")
        await walk.end((await walk.start("abcdef"))[-1])
        await wait_until(lambda: worker.health()["unwritten"] == 0, 5, "the last end is written")
        plain = await walk.shop.enqueue(TASK)
        await walk.end(plain)  # its slot is free again
    assert walk.line.calls.count("hand_over") == walk.calls - 1 == 6


async def test_a_node_is_found_again_if_the_answer_that_brought_it_is_lost(walk: Walk) -> None:
    walk.line.lose = {"hand_over"}
    async with walk.shop.worker({"default": 2}):
        for job in await walk.start("abc"):
            await walk.end(job)
    assert not walk.line.lose
    assert walk.calls == 3
    assert walk.shop.reported("worker.lost_claim_returned")


async def test_an_end_that_the_store_refuses_for_a_while_is_written_later(walk: Walk) -> None:
    walk.line.refuse = {"hand_over", "finish"}
    async with walk.shop.worker({"default": 2}):
        ids = await walk.start("abc")
        await wait_until(lambda: "hand_over" in walk.line.calls, 5, "the first node ends")
        walk.line.refuse.clear()
        for job in ids:
            await walk.end(job)
    assert walk.calls == 3


async def test_a_worker_that_leaves_hands_back_what_its_last_end_brings(walk: Walk) -> None:
    walk.line.hold = {"hand_over"}
    worker = walk.shop.new_worker({"default": 2}, grace=5)
    await worker.start()
    first, second = await walk.start("ab")
    await wait_until(lambda: walk.line.held == ["hand_over"], 5, "the answer is on its way")
    leaving = asyncio.create_task(worker.stop())
    await wait_until(lambda: bool(worker.health()["leaving"]), 5, "the worker leaves")
    walk.line.release()
    await leaving
    assert (await walk.shop.get(first)).state is JobState.SUCCEEDED
    job = await walk.shop.get(second)
    assert (job.state, job.attempts, walk.calls) == (JobState.READY, 0, 1)
