"""Flows on Postgres.

A verb that changes flows locks their rows first, in order of id, by a statement of its own. So all
changes of one flow come one after the other, and each sees what the one before has written.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from holdfast.errors import KeyHeld, StoreUnavailable
from holdfast.flow.kept import is_unchecked, without_known, written_out
from holdfast.flow.model import (
    CloseWhat,
    FlowId,
    FlowState,
    Grown,
    Growth,
    Mending,
    NewFlow,
    Reopening,
    first_gate,
)
from holdfast.job.ids import JobId
from holdfast.job.loopless import run_without_loop
from holdfast.job.state import JobState
from holdfast.store import borrowing
from holdfast.store.borrowing import Borrowed
from holdfast.store.contract.flows import Started
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.elements import add_elements
from holdfast.store.postgres.flow_reading import PostgresFlowReading
from holdfast.store.postgres.graphs import Added, add, start_on
from holdfast.store.postgres.held_keys import milliseconds, waited_in_vain
from holdfast.store.postgres.joining import bounded, lent
from holdfast.store.postgres.rows import STATES
from holdfast.store.postgres.settling import Settling, lock, settle

T = TypeVar("T")

START_BATCH = 500
"""About so many nodes are started in one transaction, unless one flow has more."""


class PostgresFlows(PostgresFlowReading):
    """See `holdfast.store.contract.flows.Flows` for what each verb promises."""

    async def start(self, flows: Sequence[NewFlow]) -> list[Started]:
        """Many flows go in several transactions at once: the server writes some while the rows of
        others are made here. A failure is raised when all of them are over."""
        answers = await asyncio.gather(
            *(self._start(bite) for bite in _bites(flows)), return_exceptions=True
        )
        for failure in answers:
            if isinstance(failure, BaseException):
                raise failure
        return [one for some in answers if isinstance(some, list) for one in some]

    async def _start(self, flows: Sequence[NewFlow]) -> list[Started]:
        patience = self._connections.options.key_timeout
        try:
            return await self._connections.run(
                lambda session: start_on(session, self._connections, flows, milliseconds(patience)),
                transaction=True,
            )
        except StoreUnavailable as error:
            if waited_in_vain(error):
                raise KeyHeld(_keys(flows), patience) from error
            raise

    async def start_within(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        return await self._start_lent(borrowing.recognise(connection), flows)

    def start_within_sync(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        borrowed = borrowing.recognise_sync(connection)
        return run_without_loop(self._start_lent(borrowed, flows))

    async def _start_lent(self, borrowed: Borrowed, flows: Sequence[NewFlow]) -> list[Started]:
        own = await lent(borrowed, self._connections)
        if not (keys := _keys(flows)):
            return await own.run(lambda session: start_on(session, own, flows, None))
        async with bounded(own, keys) as bound:
            return await own.run(lambda session: start_on(session, own, flows, bound))

    async def extend(self, growths: Sequence[Growth]) -> list[Grown]:
        if len(growths) == 1 and (new := growths[0].elements) and new.are_plain:
            grown = await add_elements(self._connections, growths[0], new)
            if grown is not None:
                return [grown]

        async def work(session: Session) -> list[Grown]:
            return [await self._extend(session, written_out(growth)) for growth in growths]

        return await self._locked({growth.flow for growth in growths}, work, [])

    async def pause(self, ids: Sequence[FlowId], reason: str | None = None) -> list[FlowId]:
        async def work(session: Session) -> list[FlowId]:
            return _in_order(ids, await session.fetch("flows/pause", list(ids), reason))

        return await self._locked(ids, work, [])

    async def resume(self, ids: Sequence[FlowId]) -> list[FlowId]:
        async def work(session: Session) -> list[FlowId]:
            resumed = _in_order(ids, await session.fetch("flows/resume", list(ids)))
            if resumed:
                await settle(session, self._connections, Settling({}, judge=resumed, gated=None))
            return resumed

        return await self._locked(ids, work, [])

    async def close(
        self, ids: Sequence[FlowId], what: CloseWhat, reason: str | None = None
    ) -> list[FlowId]:
        async def work(session: Session) -> list[FlowId]:
            channel, stops = self._connections.options.channel, what is not CloseWhat.BLOCKED
            values = (channel, list(ids), what.value, stops, reason)
            found = await session.timed("flows/close", *values)
            return _in_order(ids, found)

        return await self._locked(ids, work, [])

    async def reopen(self, plans: Sequence[Reopening], by: str | None = None) -> list[FlowId]:
        async def work(session: Session) -> list[FlowId]:
            return [plan.flow for plan in plans if await self._reopen(session, plan, by)]

        return await self._locked({plan.flow for plan in plans}, work, [])

    async def settle(self, ids: Sequence[FlowId]) -> None:
        async def work(session: Session) -> None:
            if left := await _left_over(session, ids):
                await settle(session, self._connections, Settling(left, judge=ids))

        await self._locked(ids, work, None)

    async def let_go(self, flow: FlowId, jobs: Sequence[JobId]) -> None:
        async def work(session: Session) -> None:
            await session.fetch("flows/let_go", flow, list(jobs))

        await self._locked([flow], work, None)

    async def done(self, errands: Sequence[str]) -> None:
        if errands:
            await self._connections.fetch("flows/done", [*map(int, errands)])

    async def mend(self, plans: Sequence[Mending]) -> list[FlowId]:
        async def work(session: Session) -> list[FlowId]:
            return [plan.flow for plan in plans if await self._mend(session, plan)]

        return await self._locked({plan.flow for plan in plans}, work, [])

    async def prune(self, limit: int) -> int:
        async def work(session: Session) -> int:
            over = [flow for (flow,) in await session.timed("flows/over", limit)]
            if over:
                await session.timed("flows/prune", over)
            return len(over)

        return await self._connections.run(work, transaction=True)

    async def _locked(
        self, flows: Iterable[FlowId], work: Callable[[Session], Awaitable[T]], nothing: T
    ) -> T:
        """Do work on flows in one transaction, when they are locked."""
        ids = sorted(flows)

        async def steps(session: Session) -> T:
            await lock(session, ids)
            return await work(session)

        return await self._connections.run(steps, transaction=True) if ids else nothing

    async def _extend(self, session: Session, growth: Growth) -> Grown:
        names = [node.name for node in growth.nodes]
        values = (growth.flow, growth.by, growth.fence, names, growth.graph)
        found = await session.fetch("flows/extend", *values)
        if not found or found[0]["state"] not in (FlowState.RUNNING, FlowState.PAUSED):
            return Grown.OVER
        if not found[0]["held"]:
            return Grown.NOT_HELD
        known = dict(zip(found[0]["names"], map(JobId, found[0]["jobs"]), strict=True))
        left = without_known(growth, known)
        if not left.nodes and (growth.nodes or found[0]["grown_before"]):
            return Grown.GROWN
        if growth.epoch not in (None, found[0]["epoch"]) or is_unchecked(growth, left):
            return Grown.CHANGED
        gone = set(left.gates) - {node.job.id for node in left.nodes}
        if gone:
            gone -= {job for (job,) in await session.fetch("flows/targets", left.flow, [*gone])}
        if gone and not left.leaves_out_gone:
            return Grown.TARGET_GONE
        await self._write(session, left, gone)
        return Grown.GROWN

    async def _write(self, session: Session, left: Growth, gone: Collection[JobId]) -> None:
        """Nodes that are `gone` wait no more, and get no gates."""
        [(epoch,)] = await session.fetch("flows/grow", left.flow, len(left.nodes))
        added, first = Added(), first_gate(epoch)
        added.add_nodes(left.flow, left.nodes, first)
        for job, gates in left.gates.items():
            if job not in gone:
                added.add_gates(left.flow, job, gates, first)
        added.graphs.append((left.flow, left.graph))
        await add(session, self._connections, left.nodes, added)
        if added.gates:
            await self._count(session, left.flow, added, first)
        if gone:
            await self._keep_skipped(session, left, gone, first)

    async def _keep_skipped(
        self, session: Session, growth: Growth, gone: Collection[JobId], first: int
    ) -> None:
        """Keep gates of skipped nodes for the end of the flow, which looks at all their edges."""
        added = Added()
        for (job,) in await session.fetch("flows/skipped", growth.flow, [*gone]):
            added.add_gates(growth.flow, job, growth.gates[job], first)
        if not added.gates:
            return
        kept = [(job, n, need) for job, n, _, need, *_ in added.gates]
        added.gates = []
        await added.write(session)
        columns = [list(column) for column in zip(*kept, strict=True)]
        await session.fetch("flows/keep_gates", growth.flow, *columns)

    async def _count(
        self,
        session: Session,
        flow: FlowId,
        added: Added,
        first: int,
        left: dict[JobId, JobState] | None = None,
        ungated: Sequence[JobId] = (),
    ) -> None:
        """Count the edges whose upstream had ended before they were written, and judge their gates.
        `left`: other ends that nobody has counted."""
        found = _states(await session.fetch("flows/ended_among", [*added.edges]))
        gated = [job for job, *_ in added.gates]
        what = Settling(
            found | (left or {}), first=first, judge=[flow], gated=gated, ungated=ungated
        )
        await settle(session, self._connections, what)

    async def _reopen(self, session: Session, plan: Reopening, by: str | None) -> bool:
        channel, anew = self._connections.options.channel, list(plan.counted_anew)
        again = (list(plan.ready), list(plan.blocked))
        values = (channel, plan.flow, plan.epoch, *again, anew, by, list(plan.removed))
        found = await session.timed("flows/reopen", *values)
        if not found:
            return False
        if plan.removed:
            await session.timed("flows/remove", list(plan.removed))
        added, first = Added(), first_gate(found[0]["epoch"])
        for job, gates in (plan.blocked | plan.counted_anew).items():
            added.add_gates(plan.flow, job, gates, first)
        if plan.graph:
            added.graphs.append((plan.flow, plan.graph))
        await added.write(session)
        await self._count(session, plan.flow, added, first)
        return True

    async def _mend(self, session: Session, plan: Mending) -> bool:
        found = await session.fetch("flows/mend", plan.flow, plan.epoch, list(plan.gates))
        if not found:
            return False
        waiting = [JobId(job) for job in found[0]["waiting"]]
        added = Added()
        for job in waiting:
            added.add_gates(plan.flow, job, plan.gates[job])
        await added.write(session)
        left = await _left_over(session, [plan.flow])
        free = [job for job in waiting if not plan.gates[job]]
        await self._count(session, plan.flow, added, 0, left, free)
        return True


def _bites(flows: Sequence[NewFlow]) -> list[Sequence[NewFlow]]:
    """Flows are parted unless they have keys: of two with one key the first wins."""
    nodes = sum(len(flow.nodes) for flow in flows)
    if nodes < 2 * START_BATCH or any(flow.unique_key or flow.parent for flow in flows):
        return [flows] if flows else []
    each = math.ceil(len(flows) * START_BATCH / nodes)
    return [flows[first : first + each] for first in range(0, len(flows), each)]


def _keys(flows: Iterable[NewFlow]) -> list[str]:
    return sorted({flow.unique_key for flow in flows if flow.unique_key is not None})


def _in_order(ids: Iterable[FlowId], found: Iterable[Any]) -> list[FlowId]:
    """The flows that a statement answered with, in the order asked."""
    changed = {row["id"] for row in found}
    return [flow for flow in dict.fromkeys(ids) if flow in changed]


async def _left_over(session: Session, flows: Sequence[FlowId]) -> dict[JobId, JobState]:
    return _states(await session.fetch("flows/left_over", list(flows)))


def _states(found: Iterable[Any]) -> dict[JobId, JobState]:
    return {JobId(job): STATES[state] for job, state in found}
