"""The handle of one flow: what `Flow.start` answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.client.flows import CancelWord
from holdfast.enqueue.options import Seconds
from holdfast.errors import FlowCancelled, FlowFailed, FlowNotSucceeded
from holdfast.flow.model import FlowId, FlowInfo, FlowState, NodeInfo
from holdfast.flow.reopening import RetryPlan
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.insights.flows import FlowExplanation


class FlowHandle:
    """One started flow: its id, and its result once there is one.

    `created` is False if another live flow has the unique key and the handle is on that flow.
    """

    def __init__(self, client: Callable[[], Client], flow_id: FlowId, created: bool = True) -> None:
        self._client = client
        self.id = flow_id
        self.created = created

    def __repr__(self) -> str:
        return f"<flow {self.id}>"

    async def result(self, timeout: Seconds | None = None) -> Any:
        """Wait for the flow to end. Returns the result of its last node, or of the node that
        `flow.returns` named; of a map, those of its elements. Raises `FlowFailed` or
        `FlowCancelled` if it ended otherwise."""
        flow = await self.wait(timeout)
        if flow.state is not FlowState.SUCCEEDED:
            raise await self._why_not(flow)
        return await self._client().flows.returned(self.id)

    async def wait(self, timeout: Seconds | None = None) -> FlowInfo:
        """Wait until the flow has ended, however it does."""
        return await self._client().flows.wait(self.id, timeout)

    async def _why_not(self, flow: FlowInfo) -> FlowNotSucceeded:
        if flow.state is FlowState.CANCELLED:
            return FlowCancelled(flow.id)
        nodes = await self.nodes()
        bad = [node for node in nodes if node.state in (JobState.FAILED, JobState.EXPIRED)]
        first = min(bad, key=lambda node: str(node.finished_at), default=None)
        said = "" if first is None else f"node {first.name!r} {first.state}: {first.reason or ''}"
        return FlowFailed(flow.id, said)

    async def get(self) -> FlowInfo:
        """The flow as it stands."""
        return await self._client().flows.get(self.id)

    async def nodes(self) -> list[NodeInfo]:
        """All nodes, by name."""
        return await self._client().flows.nodes(self.id)

    async def explain(self) -> FlowExplanation:
        """What the flow waits for."""
        return await self._client().flows.explain(self.id)

    async def cancel(self, what: CancelWord = "all", *, by: str | None = None) -> None:
        """Cancel the flow; see `client.flows.cancel`."""
        await self._client().flows.cancel(self.id, what, by=by)

    async def pause(self, *, by: str | None = None) -> None:
        """Release nothing more."""
        await self._client().flows.pause(self.id, by=by)

    async def resume(self, *, by: str | None = None) -> None:
        """Go on after a pause."""
        await self._client().flows.resume(self.id, by=by)

    async def retry(
        self, *nodes: str, cascade: bool = False, dry_run: bool = False, by: str | None = None
    ) -> RetryPlan:
        """Run failed nodes again; see `client.flows.retry`."""
        verbs = self._client().flows
        return await verbs.retry(self.id, *nodes, cascade=cascade, dry_run=dry_run, by=by)
