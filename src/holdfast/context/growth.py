"""What `ctx.flow` offers. The context is below all that builds flows, so it is told how."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from holdfast.context.context import Context

P = ParamSpec("P")
T = TypeVar("T", covariant=True)


class NodeTask(Protocol[P, T]):
    """A task, as far as a node needs it."""

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> HasResult[T]: ...


class HasResult(Protocol[T]):
    async def result(self) -> T: ...


class AddedNode(Protocol[T]):
    """A node that a handler adds to its flow; see `holdfast.Node`."""

    @property
    def output(self) -> T: ...
    def after(self, *conditions: Any) -> Self: ...
    def before(self, *others: Any) -> Self: ...
    def named(self, name: str) -> Self: ...


class GrowsFlow(Protocol):
    """What `ctx.flow` offers; `holdfast.declaring.growing` has it. The context itself is below all
    that builds flows, so it is told how by `on_growth`."""

    def add(self, task: NodeTask[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AddedNode[T]:
        """A node that runs this task, as `flow.add` makes one."""
        ...

    def map(self, task: Any, items: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A node for each element of a list, as `flow.map` makes one."""
        ...

    def node(self, name: str) -> AddedNode[Any]:
        """A node that the flow has already."""
        ...

    async def extend(self) -> None:
        """Add what was written down, all of it or nothing."""
        ...

    def extend_sync(self) -> None:
        """`extend` for plain functions, in a thread or a process."""
        ...


_makers: list[Callable[[Context], GrowsFlow]] = []


def on_growth(make: Callable[[Context], GrowsFlow]) -> None:
    """Let this make what `ctx.flow` is, for the attempt of a node."""
    _makers[:] = [make]


def make_growth(context: Context) -> GrowsFlow:
    """What `ctx.flow` is, for the attempt of a node."""
    [make] = _makers
    return make(context)
