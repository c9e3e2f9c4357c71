"""Errors about a graph of jobs, and about its end."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.base import HoldfastError


class BadFlow(HoldfastError):
    """A graph of jobs that cannot be started."""


class FlowCycle(BadFlow):
    """Nodes that wait for each other."""

    def __init__(self, circle: Sequence[str]) -> None:
        shown = " waits for ".join(map(repr, circle))
        super().__init__(f"nodes of a flow wait for each other: {shown}")
        self.circle = tuple(circle)

    def __reduce__(self) -> tuple[type[FlowCycle], tuple[tuple[str, ...]]]:
        return type(self), (self.circle,)


class FlowNotSucceeded(HoldfastError):
    """A result was asked of a flow that has none."""

    verb = "has no result"

    def __init__(self, flow_id: str, why: str = "") -> None:
        super().__init__(f"flow {flow_id} {self.verb}" + (f": {why}" if why else ""))
        self.flow_id = flow_id
        self.why = why

    def __reduce__(self) -> tuple[type[FlowNotSucceeded], tuple[str, str]]:
        return type(self), (self.flow_id, self.why)


class FlowFailed(FlowNotSucceeded):
    """A node whose end counts has failed, expired, or was skipped for such a reason."""

    verb = "failed"


class FlowCancelled(FlowNotSucceeded):
    """Somebody cancelled the flow."""

    verb = "was cancelled"


class FlowTimeout(HoldfastError, TimeoutError):
    """The flow has not ended in the time given. It goes on."""

    def __init__(self, flow_id: str, seconds: float) -> None:
        super().__init__(f"flow {flow_id} has not ended after {seconds:g} s; it goes on")
        self.flow_id = flow_id
        self.seconds = seconds

    def __reduce__(self) -> tuple[type[FlowTimeout], tuple[str, float]]:
        return type(self), (self.flow_id, self.seconds)
