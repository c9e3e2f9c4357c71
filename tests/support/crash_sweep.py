"""Plays a story of `crash_stories` once for every write, and each time the program dies there, or
loses the answer; another program finishes the work, and the story's end is judged."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.client.streams import StreamVerbs
from holdfast.flow.drift import drift_of
from holdfast.flow.graph import Graph
from holdfast.flow.model import FlowInfo, FlowState
from holdfast.job.ends import WorkerLost
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.passing import bucket_name
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.store import Store
from tests.support import books
from tests.support.backends import Backend, opened
from tests.support.crash_stories import BEGUN, DIARY, SEEN, id_of
from tests.support.diary import DiaryReader, Entry
from tests.support.forking import forks

SIDES = ("before", "after", "lost")
LOST = "StoreUnavailable: the answer is lost"
"""A worker that cannot start leaves with this, and is started again."""
NEVER = ("", 0, "before")
PROGRAM = "tests.support.crash_stories"
DIED = 9
S = JobState


@dataclass(frozen=True)
class Play:
    """How one play of a story ended: what the store has, and what the handlers noted."""

    store: Store
    jobs: Mapping[JobId, Job]
    flows: Sequence[FlowInfo]
    entries: Sequence[Entry]

    def result(self, number: int) -> Any:
        return self.jobs[id_of(number)].result

    async def named(self) -> dict[str, Job]:
        """The nodes of all flows, by name."""
        return {
            node.name: self.jobs[node.job_id]
            for flow in self.flows
            for node in await self.store.flows.nodes(flow.id, 1_000)
        }


Judge = Callable[[Play], Awaitable[None]]


class Sweep:
    """`died` counts the verbs at which programs died."""

    def __init__(self, backend: Backend, folder: Path, story: str) -> None:
        self._backend, self._folder, self._story = backend, folder, story
        self._numbers, self._log = count(), folder / "log"
        self.died: Counter[str] = Counter()

    async def all(self) -> None:
        writes = Counter(await self.play(*NEVER))
        for verb, times in writes.items():
            for nth in range(1, times + 1):
                for side in SIDES:
                    try:
                        await self.play(verb, nth, side)
                    except BaseException as error:
                        error.add_note(f"{side} {verb} {nth} of {self._story}, {writes}")
                        raise

    async def play(self, verb: str, nth: int, side: str) -> list[str]:
        """Returns the verbs of the writes that were made while the first program lived."""
        url = await self._backend.empty()
        path = self._folder / f"diary-{next(self._numbers)}"
        diary = DiaryReader(path)
        code = self._run(url, path, verb, nth, side)
        seen = [entry.text for entry in diary.entries(SEEN)]
        if code == DIED or (side == "lost" and LOST in self._error()):
            self.died[verb] += code == DIED
            async with opened(url) as store:
                await bury(store)
            heir = BEGUN if diary.entries(BEGUN) else "before"
            code = self._run(url, path, "", 0, heir)
        assert code == 0, self._error()
        async with opened(url) as store:
            await self._judge(store, diary.entries())
        diary.close()
        return seen

    def _run(self, url: str, diary: Path, verb: str, nth: int, side: str) -> int:
        env = os.environ | {"HOLDFAST_URL": url, DIARY: str(diary)}
        self._log.unlink(missing_ok=True)
        program = forks().start(PROGRAM, self._story, verb, str(nth), side, env=env, log=self._log)
        return program.wait()

    def _error(self) -> str:
        return self._log.read_text()

    async def _judge(self, store: Store, entries: Sequence[Entry]) -> None:
        jobs = (await store.jobs.page(JobFilter(), 1_000)).jobs
        flows = (await store.flows.page(FlowFilter(), 100)).flows
        play = Play(store, {job.id: job for job in jobs}, flows, entries)
        await nothing_is_left(play)
        no_recorded_step_was_called_again(entries)
        one_at_once(entries)
        await JUDGES[self._story](play)


async def bury(store: Store) -> None:
    """What the fleet does once a lease is over, at once."""
    for worker in await store.workers.find():
        await store.workers.deregister(worker.id)
    lost = await store.jobs.lapsed_leases(1_000)
    moves = [decide(job, WorkerLost(), cancel_requested=job.cancel_requested) for job in lost]
    await store.jobs.reclaim(moves)


# What holds of every story ----------------------------------------------------------------------


async def nothing_is_left(play: Play) -> None:
    """Every job and flow has ended, nothing is owed or held, and all counts equal a recount."""
    live = {job.id: job.state for job in play.jobs.values() if not job.ended}
    assert not live, live
    assert await play.store.flows.errands(100) == []
    for flow in play.flows:
        assert flow.ended, flow
        nodes = await play.store.flows.nodes(flow.id, 1_000)
        assert drift_of(flow, Graph(await play.store.flows.graph(flow.id)), nodes) == []
    assert (await play.store.limits.recount(1_000, mend=False)).wrong == ()
    await books.the_store_finds_nothing_wrong(play.store)


def no_recorded_step_was_called_again(entries: Sequence[Entry]) -> None:
    recorded: set[tuple[str, str]] = set()
    for entry in entries:
        if entry.what == "recorded":
            recorded.add((entry.job, entry.text))
        if entry.what == "called":
            assert (entry.job, entry.text) not in recorded, f"{entry.text} was called again"


def one_at_once(entries: Sequence[Entry]) -> None:
    """Of the jobs that pass the limit `single`. What a dead program was running runs no more."""
    running: set[tuple[int, str]] = set()
    for entry in entries:
        if entry.text == "spend" and entry.what == "started":
            assert not [job for pid, job in running if pid == entry.pid and job != entry.job]
            running.add((entry.pid, entry.job))
        if entry.text == "spend" and entry.what == "returned":
            running.discard((entry.pid, entry.job))


# What each story comes to -----------------------------------------------------------------------


async def judge_retries(play: Play) -> None:
    more = [id_of(100 + n) for n in range(3)]
    assert play.jobs.keys() == {*map(id_of, (1, 2, 3)), *more}
    assert (play.result(1), play.result(3)) == (5, more)
    assert play.jobs[id_of(2)].state is S.FAILED
    assert [play.jobs[job].result for job in more] == [0, 1, 2]


async def judge_steps(play: Play) -> None:
    assert [play.result(n) for n in (1, 2, 4)] == [21, 111, [7, 1, 2]]
    assert play.jobs[id_of(3)].state is S.SUCCEEDED
    await receipt_is_whole(play.store, id_of(1))
    [signal] = (await play.store.signals.of([id_of(2)]))[id_of(2)]
    assert signal.taken_by is not None


async def receipt_is_whole(store: Store, job: JobId) -> None:
    """As somebody sees it who comes when all is over."""
    got: list[Any] = []
    async for frame in StreamVerbs(store).follow(job, "receipt", follow=False):
        assert not frame.missed
        got = [frame.data] if frame.restarted else [*got, frame.data]
    assert got == [0, 1, 2]


async def judge_limits(play: Play) -> None:
    assert [play.result(n) for n in range(1, 5)] == [1, 2, 3, 4]
    await nothing_is_held(play)


async def nothing_is_held(play: Play) -> None:
    """What was reported is spent, and nothing is reserved any more."""
    single, purse = await play.store.limits.get(
        [bucket_name("single", ""), bucket_name("purse", "")]
    )
    spends = sum(1 for entry in play.entries if entry.text == "spend" and entry.what == "started")
    assert single.in_use == 0
    assert purse.in_use == 0
    assert 2 * 2 <= purse.spent <= 2 * spends, purse


async def judge_flows(play: Play) -> None:
    nodes = await play.named()
    assert {name for name, job in nodes.items() if job.state is not S.SUCCEEDED} >= {"bad"}
    assert nodes["total"].result == 6
    assert nodes["last"].result == 6 + 5 + 42
    assert nodes["grown-behind"].result == 1_001
    assert {flow.state for flow in play.flows} == {FlowState.SUCCEEDED}


async def judge_whole(play: Play) -> None:
    nodes = await play.named()
    assert nodes["last"].result == 3 + 21 + 1
    [flow] = play.flows
    assert flow.state is FlowState.SUCCEEDED
    await receipt_is_whole(play.store, nodes["paid"].id)
    await nothing_is_held(play)


JUDGES: Mapping[str, Judge] = {
    "retries": judge_retries,
    "steps": judge_steps,
    "limits": judge_limits,
    "flows": judge_flows,
    "whole": judge_whole,
}
