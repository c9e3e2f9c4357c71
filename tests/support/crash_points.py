"""A program that dies at a chosen write, and another that comes after it.

`Seam` counts the writes that go through a store. At the chosen one the program dies before it or
after it, or the answer is lost and the program goes on. `sweep` plays one story again and again,
once for every write and each of the three; each time another program finishes the work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

from holdfast.errors import StoreUnavailable
from holdfast.flow.drift import drift_of
from holdfast.flow.errands import do_errand
from holdfast.flow.graph import Graph
from holdfast.flow.model import FLOW_LIVE, ErrandKind, FlowState, Grown, Growth, NodeInput
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import Cancelled, End, WorkerLost
from holdfast.job.ids import WorkerId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.transition import Transition
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.records import Want
from holdfast.store.contract.store import Store
from tests.conformance.builders import LONG, QUEUE, RETURNED, TASK, Scene, new_worker
from tests.support.flaky import FlakyStore, Line
from tests.support.flows import Trip

Side = Literal["before", "after", "lost"]
SIDES: Sequence[Side] = ("before", "after", "lost")
WRITES = {
    *("start", "extend", "pause", "resume", "close", "reopen", "settle", "done", "mend", "prune"),
    *("claim", "finish", "reclaim", "request_cancel"),
}
MOST_ROUNDS = 60


class Died(BaseException):
    """Nothing of the program goes on."""


class Seam(Line):
    """Counts writes; `at` is the one at which something happens, on this side of it."""

    def __init__(self, at: int = 0, side: Side = "before") -> None:
        super().__init__()
        self.writes: list[str] = []
        self._at, self._side = at, side

    async def carry(self, verb: str, call: Callable[[], Any]) -> Any:
        if verb not in WRITES:
            return await call()
        self.writes.append(verb)
        if len(self.writes) != self._at:
            return await call()
        if self._side == "before":
            raise Died
        await call()
        raise Died if self._side == "after" else StoreUnavailable("the answer is lost")


class Story:
    """What a program does with one flow. A story says what differs from a flow that just runs."""

    ends: ClassVar[Mapping[str, End]] = {}
    """How nodes end that do not return."""

    async def prepare(self, scene: Scene) -> Trip:
        """Make the flow, before anybody can die."""
        raise NotImplementedError

    async def play(self, program: Program, trip: Trip) -> None:
        """All that the program does."""
        await program.drain()

    async def run(self, program: Program, job: Claimed, told: NodeInput) -> End:
        """Be the handler of a node."""
        return self.ends.get(told.name, RETURNED)

    async def take_over(self, program: Program, trip: Trip) -> None:
        """What another program does after the first one, before it drains the queue."""

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        """What must have come of it, wherever the program died. `ran`: nodes whose handlers began,
        in order."""
        raise NotImplementedError


@dataclass
class Program:
    """One process: it claims nodes, runs them, does errands, and forgets all of it when it dies.
    `unanswered` is what it sent last and has no answer to."""

    store: Store
    story: Story
    worker: WorkerId
    ran: list[str] = field(default_factory=list)
    unanswered: list[Transition] | Growth | None = None

    @classmethod
    async def hired(cls, scene: Scene, store: Store, story: Story) -> Program:
        worker = new_worker()
        await scene.store.workers.register(worker, LONG)
        return cls(store, story, worker.id)

    async def drain(self) -> None:
        """Work until nothing is ready and nothing is owed."""
        for _ in range(MOST_ROUNDS):
            worked = await self.work()
            if not (await self.do_errands() or worked):
                return
        raise AssertionError("it never comes to an end")

    async def work(self) -> bool:
        """Claim what is ready, run it, and end all of it in one batch. What a claim took whose
        answer was lost is nobody's until the lease lapses."""
        try:
            claimed = await self.store.jobs.claim(self.worker, [Want(QUEUE, 1_000)], [TASK])
        except StoreUnavailable:
            return True
        told = await self.store.flows.inputs([job.id for job in claimed])
        moves = [decide(job, await self._run(job, told[job.id])) for job in claimed]
        if moves:
            self.unanswered = moves
            await again_if_lost(lambda: self.store.jobs.finish(moves))
            self.unanswered = None
        return bool(claimed)

    async def _run(self, job: Claimed, told: NodeInput) -> End:
        if told.flow_state is FlowState.CANCELLING:
            return Cancelled("its flow was cancelled")
        self.ran.append(told.name)
        return await self.story.run(self, job, told)

    async def extend(self, growth: Growth) -> None:
        self.unanswered = growth
        await again_if_lost(lambda: self.store.flows.extend([growth]))
        self.unanswered = None

    async def do_errands(self) -> bool:
        owed = await self.store.flows.errands(100)
        for errand in owed:
            await again_if_lost(partial(do_errand, self.store, errand))
        return bool(owed)

    async def retry(self, trip: Trip) -> None:
        """Look, plan and apply, as an operator does. Without an answer the operator looks again,
        and mostly finds nothing that failed."""
        await again_if_lost(lambda: self._retry(trip))

    async def _retry(self, trip: Trip) -> None:
        flows = self.store.flows
        [info] = await flows.get([trip.id])
        nodes = await flows.nodes(trip.id, 1_000)
        plan = plan_retry(info, Graph(await flows.graph(trip.id)), nodes)
        if plan.again or plan.wait:
            await flows.reopen([plan.reopening])


async def again_if_lost(call: Callable[[], Awaitable[object]]) -> None:
    try:
        await call()
    except StoreUnavailable:
        await call()


@dataclass
class Refused:
    """What zombies sent and nobody accepted, over all times that a story was played."""

    finishes: int = 0
    extends: int = 0


async def sweep(scene: Scene, story: Story) -> Refused:
    """Play the story once for every write and each side of it."""
    refused = Refused()
    writes = await _play(scene, story, Seam(), refused)
    for at in range(1, len(writes) + 1):
        for side in SIDES:
            try:
                await _play(scene, story, Seam(at, side), refused)
            except BaseException as error:
                error.add_note(f"{side} at write {at} of {writes}")
                raise
    return refused


async def _play(scene: Scene, story: Story, seam: Seam, refused: Refused) -> list[str]:
    trip = await story.prepare(scene)
    dead = await Program.hired(scene, FlakyStore(scene.store, seam), story)
    with suppress(Died):
        await story.play(dead, trip)
    await scene.store.workers.deregister(dead.worker)
    await reclaim(scene)
    await _refuse(scene.store, dead, refused)
    heir = await Program.hired(scene, scene.store, story)
    await story.take_over(heir, trip)
    await _finish_all(scene, heir)
    await scene.store.workers.deregister(heir.worker)
    await story.judge(trip, [*dead.ran, *heir.ran])
    return seam.writes


async def _refuse(store: Store, dead: Program, refused: Refused) -> None:
    """The dead program was only asleep: what it sent last comes now, or a second time."""
    match dead.unanswered:
        case Growth() as growth:
            assert await store.flows.extend([growth]) == [Grown.NOT_HELD]
            refused.extends += 1
        case list() as moves:
            verdicts = await store.jobs.finish(moves)
            assert not any(verdict.accepted for verdict in verdicts)
            refused.finishes += len(verdicts)


async def _finish_all(scene: Scene, heir: Program) -> None:
    for _ in range(MOST_ROUNDS):
        await heir.drain()
        await nothing_is_adrift(scene.store)
        if not FLOW_LIVE & (await scene.store.flows.count()).keys():
            return
        await reclaim(scene)
    raise AssertionError(f"F14: flows are stuck: {await scene.store.flows.count()}")


async def reclaim(scene: Scene) -> None:
    """Take from the dead what they held, and let the retries come due."""
    lost = await scene.store.jobs.lapsed_leases(1_000)
    moves = [decide(one, WorkerLost(), cancel_requested=one.cancel_requested) for one in lost]
    await scene.store.jobs.reclaim(moves)
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(1_000)


async def nothing_is_adrift(store: Store) -> None:
    """F1, F2 and F5 of every live flow, and the books."""
    owing = {one.flow for one in await store.flows.errands(100) if one.kind is ErrandKind.SETTLE}
    for flow in (await store.flows.page(FlowFilter(states=FLOW_LIVE), 100)).flows:
        if flow.id not in owing:
            nodes = await store.flows.nodes(flow.id, 1_000)
            assert drift_of(flow, Graph(await store.flows.graph(flow.id)), nodes) == []
    assert not await store.telemetry.recount()
