"""The verbs on flows: `client.flows.cancel(flow_id)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from holdfast.client.acting import Acts
from holdfast.client.selection import LONGEST_TEXT, many
from holdfast.client.waiting import EndWaiter
from holdfast.enqueue.batcher import Batcher
from holdfast.enqueue.options import Seconds
from holdfast.errors import BadOption, FlowTimeout, HoldfastError, Refused, UnknownFlow
from holdfast.flow.graph import Graph
from holdfast.flow.ids import flow_undo_id
from holdfast.flow.model import (
    FLOW_ENDED,
    CloseWhat,
    FlowId,
    FlowInfo,
    FlowState,
    NewFlow,
    NodeInfo,
)
from holdfast.flow.reopening import RetryPlan, plan_retry
from holdfast.insights.actions import Noun, Verb
from holdfast.insights.causes import nodes_with_reasons
from holdfast.job import checks
from holdfast.job.checks import known_job_id
from holdfast.job.ids import JobId
from holdfast.job.json_text import shown_value
from holdfast.store.contract.flows import FlowFilter, FlowPage, Flows, Started
from holdfast.store.contract.store import Store

if TYPE_CHECKING:
    from holdfast.insights.flows import FlowExplanation

CancelWord = Literal["all", "waiting", "blocked"]
Change = Callable[[list[FlowId]], Awaitable[list[FlowId]]]
ALLOWED = {
    Verb.CANCEL: "only a flow that has not ended can be cancelled",
    Verb.PAUSE: "only a running flow can be paused",
    Verb.RESUME: "only a paused flow can be resumed",
}
NODES_AT_ONCE = 2_000
STARTS_AT_ONCE = 200
"""Flows that one call starts. A store cuts them into bites, and where it has a server, that writes
one bite while the rows of the next are made here."""
NODES_NAMED = 20
"""So many nodes of a retry are named in the audit; all are told of it in their lives."""


class FlowWaiter(EndWaiter[FlowId, FlowInfo]):
    """Answers any number of waits for the ends of flows with one polling task."""

    def __init__(self, flows: Flows) -> None:
        super().__init__()
        self._flows = flows

    async def ask(self, ids: list[FlowId]) -> None:
        found = {flow.id: flow for flow in await self._flows.get(ids)}
        for one in ids:
            if one not in found:
                self.fail(one, UnknownFlow(one))
            elif found[one].state in FLOW_ENDED:
                self.tell(one, found[one])

    def too_late(self, key: FlowId, seconds: float) -> FlowTimeout:
        return FlowTimeout(key, seconds)


class FlowVerbs:
    """Read flows, cancel, pause, resume and retry them."""

    def __init__(self, store: Store, acts: Acts | None = None) -> None:
        self._store = store
        self._acts = acts or Acts()
        self._starts: Batcher[NewFlow, Started] = Batcher(self._start_each, limit=STARTS_AT_ONCE)
        self._waiter = FlowWaiter(store.flows)

    async def aclose(self) -> None:
        """Wait until every flow that was to be written is. Whoever waits for an end gets none."""
        await self._starts.aclose()
        await self._waiter.aclose()

    async def write(self, flow: NewFlow) -> Started:
        """Write a whole flow, as `Flow.start` does. Concurrent calls share a transaction. A flow
        with a unique key has one of its own: an open transaction may hold the key, and the others
        must not wait with it."""
        if flow.unique_key is None:
            return await self._starts.submit(flow)
        [started] = await self._store.flows.start([flow])
        return started

    async def _start_each(self, flows: Sequence[NewFlow]) -> Sequence[Started | Exception]:
        """One answer for each flow. If the store refuses them together, each is tried alone, so
        that only the caller of a refused flow hears of it."""
        try:
            return await self._store.flows.start(flows)
        except HoldfastError as error:
            if len(flows) == 1:
                return [error]
            return [one for flow in flows for one in await self._start_each([flow])]

    async def get(self, flow_id: str) -> FlowInfo:
        """A flow as it stands."""
        known = known_flow_id(flow_id)
        for info in await self._store.flows.get([known]):
            return info
        if await self._store.jobs.get([JobId(known)]):
            raise UnknownFlow(flow_id, "this is the id of a job: see 'holdfast jobs show'")
        raise UnknownFlow(flow_id)

    async def called_by(self, job_id: str) -> list[FlowInfo]:
        """The flows that a job has called, or that are its whole life, oldest first."""
        job = known_job_id(job_id)
        found = await self._store.flows.children([job])
        return await self._store.flows.get(found.get(job, []))

    async def wait(self, flow_id: str, timeout: Seconds | None = None) -> FlowInfo:
        """Wait until a flow has ended, however it does; raises `FlowTimeout` after the timeout. All
        who wait share a round trip, and an outage of the store is waited out."""
        seconds = None if timeout is None else checks.wait("timeout", timeout)
        return await self._waiter.answer(known_flow_id(flow_id), seconds)

    async def page(
        self,
        *,
        name: str | Sequence[str] = (),
        state: FlowState | str | Sequence[str] = (),
        tag: str | Sequence[str] = (),
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> FlowPage:
        """Flows, newest first. `cursor` is `next_cursor` of the page before."""
        which = FlowFilter(
            names=_texts("name", name),
            states=frozenset(_state(one) for one in many("state", state)),
            tags=_texts("tag", tag),
            created_after=_moment("created_after", created_after),
            created_before=_moment("created_before", created_before),
        )
        after = None if cursor is None else checks.check_job_id(cursor)
        return await self._store.flows.page(which, checks.count("limit", limit), after)

    async def count(self) -> dict[FlowState, int]:
        """How many flows there are, by state."""
        return await self._store.flows.count()

    async def returned(self, flow_id: str) -> Any:
        """The result of a flow that has succeeded, as a JSON value; of a map, those of its
        elements, in their order."""
        from holdfast.flow.parents import results_of  # only who waits for a flow needs it

        found = await results_of(self._store, known_flow_id(flow_id))
        return shown_value(found) if isinstance(found, str) else [*map(shown_value, found)]

    async def nodes(self, flow_id: str) -> list[NodeInfo]:
        """All nodes of a flow, by name."""
        flow = (await self.get(flow_id)).id
        found: list[NodeInfo] = []
        after: str | None = None
        while some := await self._store.flows.nodes(flow, NODES_AT_ONCE, after):
            found += await nodes_with_reasons(self._store.jobs, some)
            after = some[-1].name
            if len(some) < NODES_AT_ONCE:
                break
        return found

    async def graph(self, flow_id: str) -> Graph:
        """The graph of a flow, as it has grown so far."""
        return Graph(await self._store.flows.graph((await self.get(flow_id)).id))

    async def explain(self, flow_id: str) -> FlowExplanation:
        """What the flow waits for: every node that can go on or is stuck, and the longest path
        left."""
        from holdfast.insights.flows import explain_flow

        flow = await self.get(flow_id)
        return await explain_flow(self._store, flow)

    async def cancel(
        self, flow_id: str, what: CancelWord = "all", *, by: str | None = None
    ) -> None:
        """Cancel the nodes of a live flow: all of them, those that wait, or only those that are
        blocked. Nothing is released after this."""
        if what not in tuple(CloseWhat):
            raise BadOption("what", "'all', 'waiting' or 'blocked'", what)
        reason = None if by is None else f"cancelled by {by}"
        await self._change(
            *(flow_id, Verb.CANCEL, by),
            lambda ids: self._store.flows.close(ids, CloseWhat(what), reason),
            value=what,
        )

    async def pause(self, flow_id: str, *, by: str | None = None) -> None:
        """Release nothing more of a running flow. What is ready goes on."""
        reason = None if by is None else f"paused by {by}"
        await self._change(
            flow_id, Verb.PAUSE, by, lambda ids: self._store.flows.pause(ids, reason)
        )

    async def resume(self, flow_id: str, *, by: str | None = None) -> None:
        """Let a paused flow go on."""
        await self._change(flow_id, Verb.RESUME, by, self._store.flows.resume)

    async def retry(
        self,
        flow_id: str,
        *nodes: str,
        cascade: bool = False,
        dry_run: bool = False,
        by: str | None = None,
    ) -> RetryPlan:
        """Run nodes again: those named, or those that failed. One that needs what has not ended
        waits for it; one that needs what has ended otherwise is refused if it is named. What was
        skipped because of them waits for them again; what succeeded is kept, unless `cascade` runs
        it again too. If the arguments of a map may be others then, its elements are removed, and it
        makes new ones; so is what a node has added with `ctx.flow`. Returns what is run again, also
        with `dry_run`, which changes nothing."""
        flow = await self.get(flow_id)
        plan = plan_retry(
            flow, await self.graph(flow.id), await self.nodes(flow.id), nodes, cascade=cascade
        )
        if dry_run:
            return plan
        if flow.state is FlowState.CANCELLING:
            raise Refused(f"flow {flow.id} is being cancelled: retry it when it has ended")
        if flow.ended and await self._store.flows.get([flow_undo_id(flow.id)]):
            raise Refused(
                f"flow {flow.id} is {flow.state}, and its nodes are undone: start a new one"
            )
        if not plan.again and not plan.wait:
            raise Refused(f"flow {flow.id} has no node that failed: name the nodes to run again")
        chosen = plan.again or plan.wait
        value = {"nodes": list(chosen[:NODES_NAMED])}
        if plan.anew:
            value["removed"] = list(plan.anew[:NODES_NAMED])
        on = (Noun.FLOWS, Verb.RETRY, flow.id)
        async with self._acts.act(self._store, by, *on, value=value) as act:
            if not await self._store.flows.reopen([plan.reopening], by):
                raise Refused(
                    f"flow {flow.id} has changed meanwhile, or still owes cancels that a worker "
                    "has to do, or the steps of a node are undone: look again, and retry"
                )
            act.changed = len(chosen)
        return plan

    async def _change(
        self, flow_id: str, verb: Verb, by: str | None, change: Change, value: str | None = None
    ) -> None:
        flow = await self.get(flow_id)
        async with self._acts.act(self._store, by, Noun.FLOWS, verb, flow.id, value=value) as act:
            if not await change([flow.id]):
                now = await self.get(flow.id)
                raise Refused(f"flow {flow.id} is {now.state}: {ALLOWED[verb]}")
            act.changed = 1


def known_flow_id(flow_id: object) -> FlowId:
    """The id of a flow to look for. A text that is no UUID is the id of no flow."""
    try:
        return FlowId(str(UUID(str(flow_id))))
    except ValueError:
        why = "the id of a flow is a UUID: see 'holdfast flows list --name NAME'"
        raise UnknownFlow(repr(flow_id), why) from None


def _texts(option: str, given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(checks.text(option, one, LONGEST_TEXT) for one in many(option, given))


def _moment(option: str, given: datetime | None) -> datetime | None:
    return None if given is None else checks.moment(option, given)


def _state(given: str) -> FlowState:
    try:
        return FlowState(given)
    except ValueError:
        raise BadOption("state", f"one of {', '.join(FlowState)}", given) from None
