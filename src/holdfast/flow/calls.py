"""What a call has come to, and how its caller is told.

A call of one task is a flow of one node. A call of many has a node for each, and two nodes more, of
which one is released as soon as the call is decided: `ENOUGH` when enough of the others have
succeeded, `TOO_FEW` when that has become impossible. Both are jobs that tell the caller, so that it
does not have to wait for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.flow.graph import Graph
from holdfast.flow.model import (
    ANY_END,
    FLOW_ENDED,
    SUCCESS,
    FlowId,
    FlowState,
    Losers,
    NewEdge,
    NewGate,
)
from holdfast.flow.parents import STRANDED_AFTER, first_failed, result_of
from holdfast.job.call import CallFailure, Decided, called_flow, end_signal
from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, SignalLimits, SignalWait
from holdfast.job.state import JobState
from holdfast.store.contract.records import Outcome
from holdfast.store.contract.store import Store

TELL = "holdfast.tell"
"""The task of the nodes that tell a caller; every worker knows it."""
ENOUGH, TOO_FEW = "holdfast: enough", "holdfast: too few"
AT_ONCE = 500

_limits = SignalLimits(number=2**31 - 1, size=2**31 - 1)


def joining_gates(
    jobs: Sequence[JobId], need: int, losers: Losers
) -> dict[str, tuple[NewGate, ...]]:
    """The gates of the two nodes that tell the caller, by name. One of them is met in the very step
    that makes the other impossible."""
    won = tuple(NewEdge(job, SUCCESS) for job in jobs)
    lost = tuple(NewEdge(job, ANY_END - SUCCESS) for job in jobs)
    return {
        ENOUGH: (NewGate(need, won, losers),),
        TOO_FEW: (NewGate(len(jobs) - need + 1, lost, losers),),
    }


async def tell_caller(store: Store, flow: FlowId, job: JobId, key: str) -> None:
    """Say that the flow has come to something. The caller looks itself what that is. A caller that
    is not there any more needs no telling."""
    signal = NewSignal(job, end_signal(flow), "null", f"{end_signal(flow)} {key}")
    await store.signals.send([signal], _limits)


async def tell_of_end(store: Store, flow: FlowId, job: JobId) -> None:
    """The same when the flow is over. One that was reopened meanwhile will end once more."""
    for info in await store.flows.get([flow]):
        if info.state in FLOW_ENDED:
            await tell_caller(store, flow, job, str(info.epoch))


async def untold_callers(
    store: Store, waits: Sequence[SignalWait]
) -> list[tuple[SignalWait, FlowId]]:
    """Those of these waits that are for a flow which is over for a while, and of which nobody has
    told the caller. There are none, unless a store has a defect."""
    calls = {wait: FlowId(flow) for wait in waits if (flow := called_flow(wait.signal)) is not None}
    if not calls:
        return []
    before = await store.now() - STRANDED_AFTER
    infos = await store.flows.get(list(dict.fromkeys(calls.values())))
    over = {info.id for info in infos if info.finished_at is not None and info.finished_at < before}
    late = {wait: flow for wait, flow in calls.items() if flow in over}
    sent = await store.signals.of([wait.id for wait in late])
    told = {(job, one.name) for job, some in sent.items() for one in some if one.taken_by is None}
    return [(wait, flow) for wait, flow in late.items() if (wait.id, wait.signal) not in told]


class CallEnd(msgspec.Struct, frozen=True):
    """What a call has come to: the results as JSON, None for one that did not succeed; or why the
    call failed."""

    results: tuple[str | None, ...] = ()
    failure: CallFailure | None = None


class CallNodes:
    """The nodes of a call of tasks, in the order of the calls, and how many of them are needed."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = [node for name, node in graph.nodes.items() if name not in (ENOUGH, TOO_FEW)]
        join = graph.nodes.get(ENOUGH)
        self.need = len(self.nodes) if join is None else join.gates[0].need

    @property
    def may_fail(self) -> int:
        return len(self.nodes) - self.need

    async def ended(self, store: Store) -> list[Outcome | None]:
        """How each of them ended; None for those that are live."""
        found: dict[JobId, Outcome] = {}
        jobs = [node.job for node in self.nodes]
        for first in range(0, len(jobs), AT_ONCE):
            some = await store.jobs.outcomes(jobs[first : first + AT_ONCE])
            found |= {one.id: one for one in some}
        return [found.get(job) for job in jobs]


async def end_of_call(store: Store, flow: FlowId, recorded: Decided | None) -> CallEnd | None:
    """What a call of tasks has come to; None while that is open. What has come since it was decided
    does not count."""
    called = CallNodes(Graph(await store.flows.graph(flow)))
    ended = await called.ended(store)
    if recorded is not None:
        missing = recorded.missing
        return CallEnd(tuple(None if n in missing else _result(one) for n, one in enumerate(ended)))
    results = tuple(map(_result, ended))
    if len(results) - results.count(None) >= called.need:
        return CallEnd(results)
    bad = [one for one in ended if one is not None and one.state is not JobState.SUCCEEDED]
    if len(bad) <= called.may_fail:
        return None
    total, why = len(called.nodes), None
    if total > 1:
        why = f"{len(bad)} of {total} jobs ended badly, and {called.need} had to succeed"
    first = min(bad, key=lambda one: one.state is JobState.CANCELLED)  # a loser explains nothing
    return CallEnd(failure=await _failure(store, first.id, why))


async def end_of_flow(store: Store, flow: FlowId) -> CallEnd | None:
    """What a flow has come to that a handler runs as a whole; None while it is live."""
    [info] = await store.flows.get([flow])
    if info.state not in FLOW_ENDED:
        return None
    if info.state is FlowState.SUCCEEDED:
        return CallEnd((await result_of(store, flow),))
    first = await first_failed(store, flow)
    if first is None:
        return CallEnd(failure=CallFailure(info.state, why=info.reason))
    return CallEnd(
        failure=await _failure(store, first.job_id, f"flow {info.name!r} is {info.state}")
    )


def _result(ended: Outcome | None) -> str | None:
    """A task that keeps no result returns null."""
    if ended is None or ended.state is not JobState.SUCCEEDED:
        return None
    return ended.result or "null"


async def _failure(store: Store, job: JobId, why: str | None) -> CallFailure:
    found = await store.jobs.get([job])
    if not found:
        return CallFailure(JobState.FAILED, job, why=why)
    [one] = found
    error = one.errors[-1] if one.errors else None
    kind = None if error is None else error.kind
    message = one.reason if error is None else error.message
    return CallFailure(one.state, job, one.task, kind, message, why)
