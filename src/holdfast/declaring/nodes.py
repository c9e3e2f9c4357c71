"""The parts of a flow as a program writes them: nodes, their outputs, and what a node waits for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn, Self, TypeAlias, TypeVar, cast, overload

from holdfast.context import AddedNode
from holdfast.context.growth import NodeTask
from holdfast.errors import BadFlow, BadOption
from holdfast.flow.growing import COLLECT, own_job
from holdfast.flow.inputs import Each, Mapped, Path, Result, Source, Winner
from holdfast.flow.model import ANY_END, FAILURE, SUCCESS, Losers
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.record import NewJob
from holdfast.job.signal import SignalGroup
from holdfast.job.undo import Undo

R = TypeVar("R")
LoserWord = Literal["let_run", "cancel"]
AnyNode: TypeAlias = "Node[Any] | AddedNode[Any]"
"""A node of a flow that is not started, or one that a handler adds to its own."""


class Output:
    """Stands for a result that is not there yet. The worker puts the value in its place."""

    def __init__(self, waits_for: NodeGroup, kind: type[Result | Winner | Each | Mapped]) -> None:
        self.waits_for = waits_for
        self._kind = kind

    def source(self, ids: Mapping[Node[Any], JobId]) -> Source:
        """Where the value comes from, once the jobs have ids."""
        if self._kind is Winner or self._kind is Each:
            pairs = list(zip(self.waits_for.edges, self.waits_for.nodes, strict=True))
            maps = {ids[node]: ids[of] for (node, _), of in pairs if isinstance(of, MapNode)}
            return self._kind(tuple(ids[node] for (node, _), _ in pairs), maps)
        job = ids[self.waits_for.nodes[0]]
        return Mapped(job) if self._kind is Mapped else Result(job)

    def __repr__(self) -> str:
        return f"<output of {self.waits_for}>"

    def __bool__(self) -> bool:
        raise BadFlow(f"{self!r} is not known yet: it may only be passed on to another node")

    def __iter__(self) -> Any:
        raise BadFlow(f"{self!r} is not known yet: use flow.map(task, …) for a node per element")


class NodeGroup:
    """Some nodes and how many of them are needed. It is made by `all_of`, `any_of`, `quorum`,
    `failed` and `ended`."""

    def __init__(
        self, need: int, given: Sequence[AnyNode], wants: int = SUCCESS, losers: str = "let_run"
    ) -> None:
        nodes = [one for one in given if isinstance(one, Node)]
        if not nodes or len(nodes) < len(given):
            raise BadFlow(
                "a condition takes one or more nodes, such as any_of(first, second); of a wait for "
                "signals it takes their names, such as any_of('paid', 'cancelled')"
            )
        if len(set(nodes)) < len(nodes):
            raise BadFlow("a condition takes each node once")
        if not 1 <= checks.count("quorum", need) <= len(nodes):
            raise BadOption("quorum", f"between 1 and {len(nodes)}, the number of nodes", need)
        if losers not in ("let_run", "cancel"):
            raise BadOption("losers", "'let_run' or 'cancel'", losers)
        self.need = need
        self.nodes = tuple(nodes)
        self.wants = wants
        self.losers = Losers(losers)

    @classmethod
    def of(cls, node: Node[Any]) -> NodeGroup:
        """One node, as most outputs have it: there is nothing to check."""
        group = cls.__new__(cls)
        group.need, group.nodes, group.wants, group.losers = 1, (node,), SUCCESS, Losers.LET_RUN
        return group

    def __repr__(self) -> str:
        return ", ".join(node.name for node in self.nodes)

    @property
    def needs_all(self) -> bool:
        return self.need == len(self.nodes)

    @property
    def edges(self) -> list[tuple[Node[Any], int]]:
        """The node whose end counts for each of its nodes, and which ends win. Where all are
        needed, or a map is alone, the map adds gates for its elements. Otherwise one node has to
        stand for all of them."""
        wants = self.wants
        if not any(isinstance(node, MapNode) for node in self.nodes):
            return [(node, wants) for node in self.nodes]
        if self.needs_all:
            own = SUCCESS | FAILURE if wants == FAILURE else wants
            return [(one, own if isinstance(one, MapNode) else wants) for one in self.nodes]
        return [
            (one.collected(wants), SUCCESS) if isinstance(one, MapNode) else (one, wants)
            for one in self.nodes
        ]

    @property
    def output(self) -> Any:
        """The result of the node that succeeds first."""
        return Output(self, Winner)

    @property
    def outputs(self) -> Any:
        """The results of all of them as a list; None for a node that did not succeed."""
        return Output(self, Each)


class Share:
    """That part of the elements of a map must succeed. `early`: the others need not have ended."""

    def __init__(self, of: MapNode[Any], fraction: float, *, early: bool) -> None:
        self.of = of
        self.fraction = fraction
        self.early = early


class Node(Generic[R]):
    """One job of a flow that is not started yet. It gets its id when the flow is started.

    What most nodes have none of is a tuple: an empty list for each would be one more object that
    the collector of garbage looks at. A fifth of the time of a start was its."""

    __slots__ = (
        *("before_names", "delay", "groups", "inputs", "job"),
        *("name", "needs", "shares", "undone_by"),
    )

    def __init__(self, name: str, job: NewJob, delay: float | None = None) -> None:
        self.name = name
        self.job = job
        self.delay = delay
        self.inputs: tuple[tuple[Path, Output], ...] = ()
        self.groups: tuple[NodeGroup, ...] = ()
        self.shares: tuple[Share, ...] = ()
        self.needs: dict[Node[Any], None] = {}
        self.before_names: tuple[str, ...] = ()
        self.undone_by: Undo | None = None

    def __repr__(self) -> str:
        return f"<node {self.name!r}>"

    @property
    def output(self) -> R:
        """The result of this node, to be passed to another node as an argument."""
        return cast("R", Output(NodeGroup.of(self), Result))

    def after(self, *conditions: NodeGroup | Share | Node[Any]) -> Self:
        """Wait for these too: nodes that must succeed, or conditions such as `failed(node)`."""
        for one in conditions:
            match one:
                case Node():
                    self.needs[one] = None
                case NodeGroup():
                    self.groups += (one,)
                case Share():
                    self.shares += (one,)
                    self.needs[one.of] = None
                case _:
                    raise BadFlow(f"after(…) takes nodes and conditions, got {one!r}")
        return self

    def before(self, *others: Node[Any] | str) -> Self:
        """Let these nodes of the flow wait for this one too: nodes, or their names."""
        for one in others:
            match one:
                case KnownNode():
                    self.before_names += (one.name,)
                case Node():
                    one.after(self)
                case str():
                    self.before_names += (one,)
                case _:
                    raise BadFlow(f"before(…) takes nodes and names of nodes, got {one!r}")
        return self

    def named(self, name: str) -> Self:
        """Give the node another name. Names are unique in a flow."""
        checks.check_name("node", name)
        self.name = name
        return self

    def undo(self, task: NodeTask[..., Any]) -> Self:
        """If the flow ends badly and this node has succeeded, run this task with its result."""
        from holdfast.declaring.undoing import undo_of  # few nodes are undone

        self.undone_by = undo_of(task)
        return self

    def take(self, inputs: Iterable[tuple[Path, Output]]) -> None:
        """Put these outputs into the arguments, and wait for what they come from."""
        for path, output in inputs:
            self.inputs += ((path, output),)
            group = output.waits_for
            if len(group.nodes) == 1 and group.wants == SUCCESS:
                self.needs[group.nodes[0]] = None
            elif group not in self.groups:
                self.groups += (group,)


class KnownNode(Node[Any]):
    """A node that the flow has already, by its name: something to wait for, or to be before."""

    __slots__ = ()

    def after(self, *conditions: NodeGroup | Share | Node[Any]) -> Self:
        raise BadFlow(f"{self!r} is in the flow already: say before({self.name!r}) of a new node")

    def named(self, name: str) -> Self:
        raise BadFlow(f"{self!r} is in the flow already: it keeps its name")

    def undo(self, task: NodeTask[..., Any]) -> Self:
        raise BadFlow(f"{self!r} is in the flow already: it is undone as it said")


class CollectorNode(Node[None]):
    """Stands for the elements of a map where a condition counts the map among other nodes. It
    succeeds when the elements are what the condition wants, and is skipped when they cannot be."""

    __slots__ = ("_word", "of")

    def __init__(self, of: MapNode[Any], wants: int) -> None:
        super().__init__("", own_job(of.job, COLLECT, "{}"))
        self.of = of
        self._word = "failed" if wants == FAILURE else "all"
        self.after(failed(of) if wants == FAILURE else of)

    def take_name(self) -> None:
        """Its name is that of the map, which may have been given another one."""
        self.name = f"{self._word}({self.of.name})"


class MapNode(Node[list[R]], Generic[R]):
    """A node for each element of a result. They are made when the result is there."""

    __slots__ = ("_collectors",)

    def __init__(self, name: str, job: NewJob, delay: float | None = None) -> None:
        super().__init__(name, job, delay)
        self._collectors: dict[int, CollectorNode] = {}

    def collected(self, wants: int) -> CollectorNode:
        """The node whose success means that the elements have all succeeded, or that one has
        failed."""
        known = self._collectors.get(wants)
        if known is None:
            known = self._collectors[wants] = CollectorNode(self, wants)
        return known

    def undo(self, task: NodeTask[..., Any]) -> Self:
        raise BadFlow(f"{self!r} makes nodes: the elements of a map cannot be undone one by one")

    @property
    def output(self) -> NoReturn:
        raise BadFlow(f"{self.name!r} is a map, which has a result for each element: use .outputs")

    @property
    def outputs(self) -> list[R]:
        """The results of all elements, in their order; None for one that did not succeed."""
        return cast("list[R]", Output(NodeGroup.of(self), Mapped))

    def at_least(self, fraction: float, *, early: bool = False) -> Share:
        """It is enough if this part of the elements succeeds: `0.9` lets one in ten fail. All of
        them must have ended, unless `early`: then what is slow is left out too."""
        if not (math.isfinite(checks.number(fraction)) and 0 <= fraction <= 1):
            raise BadOption("at_least", "a fraction between 0 and 1", fraction)
        return Share(self, float(fraction), early=early)


@overload
def all_of(name: str, /, *names: str) -> SignalGroup: ...
@overload
def all_of(*nodes: AnyNode) -> NodeGroup: ...
def all_of(*given: Any) -> Any:
    """All of these nodes must succeed, or all of these signals must come."""
    return _group(len(given), given)


@overload
def any_of(name: str, /, *names: str) -> SignalGroup: ...
@overload
def any_of(*nodes: AnyNode, losers: LoserWord = "let_run") -> NodeGroup: ...
def any_of(*given: Any, losers: LoserWord = "let_run") -> Any:
    """One of these nodes must succeed, or one of these signals must come. `losers="cancel"` cancels
    the nodes that nobody else needs then."""
    return _group(1, given, losers)


@overload
def quorum(need: int, name: str, /, *names: str) -> SignalGroup: ...
@overload
def quorum(need: int, *nodes: AnyNode, losers: LoserWord = "let_run") -> NodeGroup: ...
def quorum(need: int, *given: Any, losers: LoserWord = "let_run") -> Any:
    """So many of these nodes must succeed, or so many of these signals must come."""
    return _group(need, given, losers)


def _group(
    need: int, given: Sequence[Any], losers: LoserWord = "let_run"
) -> NodeGroup | SignalGroup:
    """Names are those of signals."""
    if not given or not all(isinstance(one, str) for one in given):
        return NodeGroup(need, given, losers=losers)
    if losers != "let_run":
        raise BadOption("losers", "left out: signals are not cancelled", losers)
    return SignalGroup(need, given)


def failed(*nodes: AnyNode) -> NodeGroup:
    """One of these nodes must fail, or pass its deadline."""
    return NodeGroup(1, nodes, FAILURE)


def ended(*nodes: AnyNode) -> NodeGroup:
    """All of these nodes must end, however they do."""
    return NodeGroup(len(nodes), nodes, ANY_END)
