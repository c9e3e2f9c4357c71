"""Schedules on a Valkey store, beyond the contract: partitions, lost replies, memory, keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from redis import exceptions

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, StoreError, StoreUnavailable
from holdfast.job.ids import new_job_id, partition_bits
from holdfast.job.state import JobState
from holdfast.schedule.model import Decision
from holdfast.schedule.plan_job import PlanJobs
from holdfast.store.contract.filters import JobFilter
from holdfast.store.valkey import connection
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import RETURNED, Scene, new_job
from tests.conformance.planning import FIRST, NAME, Diary, definition, job_of
from tests.support.backends import opened

SPREAD = 4


@pytest.fixture
def partitions() -> int:
    return SPREAD


@pytest.fixture
async def diary(place: str, clock: ManualClock) -> AsyncIterator[Diary]:
    async with opened(place, clock) as store:
        yield await Diary.of(await Scene.on(store, clock))


def elsewhere(name: str = NAME) -> str:
    """A text that lies in another partition than the schedule."""
    home = partition_bits(name) % SPREAD
    texts = (f"text {number}" for number in range(1_000))
    return next(text for text in texts if partition_bits(text) % SPREAD != home)


# Partitions


async def test_a_plan_whose_job_lies_elsewhere_is_refused_and_told_why(diary: Diary) -> None:
    plan = diary.plan(job=new_job(id=new_job_id(elsewhere())))
    with pytest.raises(BadOption, match=r"'nightly'.*beside=schedule"):
        await diary.record(diary.fire(1), plan)
    assert await diary.history() == []


async def test_a_predecessor_that_lies_elsewhere_is_refused_and_told_why(diary: Diary) -> None:
    with pytest.raises(BadOption, match="predecessor to cancel"):
        await diary.record(diary.fire(cancel=(new_job_id(elsewhere()),)))
    assert await diary.history() == []


async def test_a_job_that_is_not_started_may_lie_anywhere(diary: Diary) -> None:
    job = new_job(id=new_job_id(elsewhere()))
    assert await diary.record(diary.plan(decision=Decision.SKIPPED, job=job)) == [True]


def test_the_jobs_of_a_schedule_are_minted_beside_it() -> None:
    job = PlanJobs(NAME, definition()).job("", FIRST)
    assert int(job.id[-3:], 16) == partition_bits(NAME)


async def test_schedules_are_spread_and_listed_as_one(
    diary: Diary, server: ThrowawayValkey, place: str
) -> None:
    names = [f"s{number}" for number in range(40)]
    await diary.schedules.declare(dict.fromkeys(names, definition()))
    homes = {key for key in server.keys(place) if key.endswith("}:schedules")}
    assert len(homes) == SPREAD
    assert [one.name for one in await diary.schedules.find()] == sorted([*names, NAME])


async def test_plans_of_schedules_in_many_partitions_are_recorded_by_one_call(
    diary: Diary,
) -> None:
    diaries = [await Diary.of(diary.scene, f"s{number}") for number in range(12)]
    plans = [one.fire(number) for number in range(3) for one in diaries]
    assert await diary.record(*plans) == [True] * 36
    line = await diary.scene.line()
    assert line == [job_of(plan) for plan in plans]


# Lost replies


def losing(
    monkeypatch: pytest.MonkeyPatch, verb: str, times: int, error: Callable[[], Exception]
) -> None:
    """Let the server do a verb and lose its answer, so many times."""
    evaluate: Callable[..., Awaitable[Any]] = connection.evaluate
    left = [times]

    async def lose(client: Any, chosen: Any, tag: str, values: Any) -> Any:
        answer = await evaluate(client, chosen, tag, values)
        if chosen.verb == verb and left[0]:
            left[0] -= 1
            raise error()
        return answer

    monkeypatch.setattr(connection, "evaluate", lose)


async def test_a_recorder_whose_reply_was_lost_knows_its_own_plans(
    diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    await diary.started(0)
    losing(monkeypatch, "schedules/record", 1, exceptions.ConnectionError)
    assert await diary.record(diary.fire(0), diary.fire(1), diary.fire(2)) == [False, True, True]
    assert await diary.scene.store.jobs.count(JobFilter()) == {JobState.READY: 3}


async def test_a_recorder_that_hears_nothing_is_told_and_starts_nothing_twice(
    diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(monkeypatch, "schedules/record", 1, exceptions.TimeoutError)
    with pytest.raises(StoreUnavailable):
        await diary.record(diary.fire())
    assert await diary.record(diary.fire()) == [False]
    assert await diary.scene.store.jobs.count(JobFilter()) == {JobState.READY: 1}


async def test_a_guarded_edit_whose_reply_was_lost_is_not_called_refused(
    diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(monkeypatch, "schedules/put", 1, exceptions.ConnectionError)
    with pytest.raises(StoreUnavailable):
        await diary.schedules.put(NAME, definition("0 4 * * *"), 1)
    assert (await diary.schedule()).revision == 2


# Memory


async def test_without_memory_a_plan_is_refused_whole_and_schedules_can_be_paused(
    diary: Diary, server: ThrowawayValkey, place: str
) -> None:
    scene = diary.scene
    await diary.started(0)
    await scene.finish(await scene.claim_one(), RETURNED)
    waiting = await diary.started(1, job={"delay": 3600.0})
    before = server.keys(place)
    server.say("CONFIG", "SET", "maxmemory", 1_000)
    try:
        with pytest.raises(StoreError, match="out of memory") as raised:
            await diary.record(diary.fire(2, cancel=(waiting,)))
        assert not isinstance(raised.value, StoreUnavailable)
        assert server.keys(place) == before
        assert await scene.state(waiting) is JobState.SCHEDULED
        await diary.schedules.declare({NAME: definition()})
        assert await diary.schedules.pause([NAME]) == [NAME]
        scene.clock.advance(hours=31 * 24)
        assert await diary.schedules.prune_ledger(10) == 1
        assert await diary.schedules.prune_ledger(10) == 0
    finally:
        server.say("CONFIG", "SET", "maxmemory", 0)
    assert await diary.record(diary.fire(2)) == [True]


# Keys


async def test_a_deleted_schedule_leaves_no_key(
    diary: Diary, server: ThrowawayValkey, place: str
) -> None:
    await diary.started(0, "a")
    await diary.record(diary.plan(1, "a", decision=Decision.FAILED))
    assert any(NAME in key for key in server.keys(place))
    await diary.schedules.delete([NAME])
    kinds = {key.partition("}:")[2].partition(":")[0] for key in server.keys(place)}
    assert not {kind for kind in kinds if "ledger" in kind}
    assert not kinds & {"schedules", "cursors", "started"}


async def test_entries_of_ended_jobs_are_removed_by_the_plans_that_follow(
    diary: Diary, server: ThrowawayValkey, place: str
) -> None:
    for number in range(5):
        await diary.started(number)
        await diary.scene.finish(await diary.scene.claim_one())
    await diary.started(5)
    [key] = [key for key in server.keys(place) if "}:started:" in key]
    assert server.say("ZCARD", key) == 1
