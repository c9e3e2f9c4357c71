"""How often those who wait for results ask the store, and about whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.client import waiting
from holdfast.client.flows import FlowWaiter
from holdfast.client.results import NOT_SUCCEEDED, ResultWaiter, raise_unless_succeeded
from holdfast.client.waiting import EARLY_SHARE, LONGEST_WAIT_SECONDS
from holdfast.errors import FlowTimeout, NotOpen, StoreUnavailable, UnknownFlow
from holdfast.flow.model import FlowId, FlowState
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.record import Live
from holdfast.job.state import ENDED, LIVE, JobState
from holdfast.store.contract.records import Outcome
from tests.support.waiting import wait_until


class Jobs:
    """A store in which jobs end when the test says so, and which notes what it is asked."""

    def __init__(self) -> None:
        self.ended: set[JobId] = set()
        self.asked: list[JobId] = []

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        self.asked += ids
        return [Outcome(one, JobState.SUCCEEDED, "1") for one in ids if one in self.ended]

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        there = [one for one in ids if one not in self.ended]
        return [Live(one, JobState.READY, "q", "t", "{}", 0, 0, 0) for one in there]


class Crowd:
    """Many who wait."""

    def __init__(self, waiter: ResultWaiter) -> None:
        self._waiter = waiter
        self.tasks: list[asyncio.Task[Outcome]] = []

    def joined_by(self, count: int) -> list[JobId]:
        ids = [new_job_id() for _ in range(count)]
        self.tasks += [asyncio.create_task(self._waiter.wait(one, 30)) for one in ids]
        return ids


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
async def crowd(jobs: Jobs) -> AsyncIterator[Crowd]:
    store: Any = jobs
    waiter = ResultWaiter(store)
    crowd = Crowd(waiter)
    yield crowd
    await waiter.aclose()
    await asyncio.gather(*crowd.tasks, return_exceptions=True)


async def test_a_new_waiter_does_not_make_the_others_ask_again(jobs: Jobs, crowd: Crowd) -> None:
    old = set(crowd.joined_by(200))
    await asyncio.sleep(0.7)
    jobs.asked.clear()
    began = time.monotonic()
    for _ in range(30):
        crowd.joined_by(1)
        await asyncio.sleep(0.01)
    looks = (time.monotonic() - began) / (LONGEST_WAIT_SECONDS * (1 - EARLY_SHARE)) + 2
    assert sum(one in old for one in jobs.asked) <= len(old) * looks


async def test_a_new_waiter_is_answered_soon_beside_many_old_ones(
    jobs: Jobs, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LONGEST_WAIT_SECONDS", 3600)
    with monkeypatch.context() as seldom:
        seldom.setattr(waiting, "FIRST_WAIT_SECONDS", 3600)
        old = crowd.joined_by(200)
        await wait_until(lambda: jobs.asked == old, 10, "all are asked about in an hour again")
    [job_id] = crowd.joined_by(1)
    await wait_until(lambda: job_id in jobs.asked, 10, "the new one is asked about")
    jobs.ended.add(job_id)
    async with asyncio.timeout(10):
        assert (await crowd.tasks[-1]).result == "1"
    assert not set(old) & set(jobs.asked[200:])


async def test_those_who_came_together_are_asked_about_together(jobs: Jobs, crowd: Crowd) -> None:
    ids = crowd.joined_by(50)
    await wait_until(lambda: len(jobs.asked) >= 50, 10, "they are asked about")
    assert jobs.asked[:50] == ids


async def test_nobody_asks_when_nobody_waits(jobs: Jobs, crowd: Crowd) -> None:
    ids = crowd.joined_by(3)
    jobs.ended.update(ids)
    await asyncio.gather(*crowd.tasks)
    jobs.asked.clear()
    await asyncio.sleep(0.05)
    assert jobs.asked == []


@pytest.mark.parametrize("state", sorted(ENDED - {JobState.SUCCEEDED}))
def test_every_end_but_success_has_an_error_of_its_own(state: JobState) -> None:
    with pytest.raises(NOT_SUCCEEDED[state], match="why"):
        raise_unless_succeeded(Outcome(new_job_id(), state, None, "why"))
    assert len(set(NOT_SUCCEEDED.values())) == len(NOT_SUCCEEDED)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_has_no_outcome_to_raise(state: JobState) -> None:
    with pytest.raises(ValueError, match="no outcome yet"):
        raise_unless_succeeded(Outcome(new_job_id(), state))


class Flows:
    """A store with live flows, which is out of reach at first."""

    def __init__(self, *ids: FlowId) -> None:
        self.found = dict.fromkeys(ids, FlowState.RUNNING)
        self.asked: list[list[FlowId]] = []

    async def get(self, ids: list[FlowId]) -> list[Any]:
        self.asked.append(ids)
        if len(self.asked) == 1:
            raise StoreUnavailable("away")
        return [SimpleNamespace(id=one, state=self.found[one]) for one in ids if one in self.found]


async def test_all_who_wait_for_flows_share_a_round_trip_and_wait_an_outage_out() -> None:
    ids = [FlowId(new_job_id()) for _ in range(20)]
    flows: Any = Flows(*ids)
    waiter = FlowWaiter(flows)
    answers = [asyncio.create_task(waiter.answer(one, 30)) for one in ids]
    await asyncio.wait(answers, timeout=0.05)
    assert {tuple(asked) for asked in flows.asked} == {tuple(ids)}
    flows.found = dict.fromkeys(ids, FlowState.SUCCEEDED)
    assert [flow.id for flow in await asyncio.gather(*answers)] == ids
    flows.found[ids[0]] = FlowState.RUNNING
    with pytest.raises(FlowTimeout):
        await waiter.answer(ids[0], 0.02)
    with pytest.raises(UnknownFlow):
        await waiter.answer(FlowId(new_job_id()), 30)
    left = asyncio.create_task(waiter.answer(ids[0], 30))
    await asyncio.sleep(0)
    await waiter.aclose()
    with pytest.raises(NotOpen):
        await left
