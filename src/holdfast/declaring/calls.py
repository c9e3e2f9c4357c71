"""Calls from a handler as flows: one node for a call, a node for each of several, or a whole flow.

It is the part of `ctx.call` that knows tasks and flows. `holdfast.steps.calls` asks the worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.context import Context
from holdfast.declaring.flows import Flow, FlowGraph
from holdfast.errors import BadArguments, BadFlow, BadOption
from holdfast.flow.calls import TELL, joining_gates
from holdfast.flow.depth import depth_of_called, nodes_at_depth
from holdfast.flow.graph import encode_graph
from holdfast.flow.growing import MOST_ELEMENTS
from holdfast.flow.ids import new_node_id
from holdfast.flow.model import FlowId, Losers, NewFlow, NewNode
from holdfast.job import checks
from holdfast.job.call import FLOW_STEP, TASK_STEP, CallWhat
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import NewJob
from holdfast.job.retry import Retry
from holdfast.job.ties import Tie
from holdfast.steps.calls import LoserWord
from holdfast.task import Task

TELL_POLICY = encode_policy(Policy(retry=Retry(max_attempts=10, base=1, cap=60)))

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
_encoder = msgspec.json.Encoder()
_replace = msgspec.structs.replace


class Calls:
    """Makes the calls of one attempt."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def task(self, task: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TaskCall:
        return TaskCall(self._ctx, _required(task), args, kwargs)

    def tasks(
        self, task: Any, calls: Iterable[object], need: int | None, losers: LoserWord
    ) -> ManyCalls:
        return ManyCalls(self._ctx, _required(task), calls, need, losers)

    def flow(self, flow: Any) -> FlowCall:
        if not isinstance(flow, Flow):
            raise BadFlow(f"ctx.run_flow needs a flow that app.flow(…) has built, got {flow!r}")
        return FlowCall(self._ctx, flow)


class FlowCall:
    """A whole flow."""

    what: CallWhat = "flow"
    is_empty = False

    def __init__(self, ctx: Context, flow: FlowGraph) -> None:
        self._ctx = ctx
        self._flow = flow
        self.name = f"{FLOW_STEP}{flow.name}"

    def written(self, flow: str | None) -> tuple[str, str]:
        chosen = FlowId(new_node_id(FlowId(self._ctx.job.id)) if flow is None else flow)
        depth = depth_of_called(self._ctx.job.headers, self._ctx.job.id, repr(self.name))
        new = self._new_flow(chosen)
        nodes = nodes_at_depth(new.nodes, depth)
        return chosen, _encoder.encode(_replace(new, nodes=nodes, keep={})).decode()

    def read(self, results: tuple[str | None, ...]) -> Any:
        return msgspec.json.decode(results[0] or "null")

    def _new_flow(self, flow: FlowId) -> NewFlow:
        return self._flow.as_child(flow)


class TaskCall(FlowCall):
    """One call of a task."""

    what: CallWhat = "task"

    def __init__(
        self, ctx: Context, task: Task[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(ctx, FlowGraph(task.name))
        self.name = f"{TASK_STEP}{task.name}"
        self._task = task
        self._calls: list[Arguments] = [(args, kwargs)]

    def read(self, results: tuple[str | None, ...]) -> Any:
        return self._task.read_result(results[0])

    def _new_flow(self, flow: FlowId) -> NewFlow:
        for args, kwargs in self._calls:
            self._flow.add(self._task, *args, **kwargs)
        return super()._new_flow(flow)


class ManyCalls(TaskCall):
    """Several calls of a task, of which some have to succeed."""

    what: CallWhat = "tasks"

    def __init__(
        self,
        ctx: Context,
        task: Task[..., Any],
        calls: Iterable[object],
        need: int | None,
        losers: LoserWord,
    ) -> None:
        super().__init__(ctx, task, (), {})
        if not isinstance(calls, Iterable):
            raise BadOption("calls", "a tuple or a mapping of arguments for each call", calls)
        self._calls = [_arguments(task, call) for call in calls]
        self._losers = _chosen(losers)
        most = len(self._calls)
        checks.count("the number of calls", most, least=0, most=MOST_ELEMENTS)
        self._need = most if need is None else checks.count("need", need)
        if self._need > most:
            raise BadOption("need", f"at most {most}, the number of calls", need)

    @property
    def is_empty(self) -> bool:  # type: ignore[override]
        return not self._calls

    def read(self, results: tuple[str | None, ...]) -> Any:
        return [None if one is None else self._task.read_result(one) for one in results]

    def _new_flow(self, flow: FlowId) -> NewFlow:
        """The calls are no sinks: the flow ends as its join does."""
        new = super()._new_flow(flow)
        called = tuple(_replace(node, is_sink=False) for node in new.nodes)
        gates = joining_gates([node.job.id for node in called], self._need, self._losers)
        joins = tuple(
            NewNode(name, self._telling(flow), some, is_sink=True) for name, some in gates.items()
        )
        nodes = (*called, *joins)
        return _replace(new, nodes=nodes, graph=encode_graph(nodes))

    def _telling(self, flow: FlowId) -> NewJob:
        """A job that tells the caller, in the queue of the caller."""
        job = self._ctx.job
        args = _encoder.encode({"flow": flow, "caller": job.id}).decode()
        return NewJob(
            JobId(new_node_id(flow)),
            TELL,
            job.queue,
            args,
            TELL_POLICY,
            job.priority,
            ties=int(Tie.NODE),
            blocked=True,
        )


def _required(task: object) -> Task[..., Any]:
    if not isinstance(task, Task):
        raise BadOption("what ctx.call calls", "a task", task)
    return task


def _arguments(task: Task[..., Any], call: object) -> Arguments:
    match call:
        case tuple():
            return call, {}
        case Mapping() if all(isinstance(name, str) for name in call):
            return (), call
    problem = "a call of ctx.call_many must be a tuple or a mapping of arguments"
    raise BadArguments(task.name, f"{problem}, got {call!r}")


def _chosen(losers: object) -> Losers:
    try:
        return Losers(losers)  # type: ignore[arg-type]
    except ValueError:
        raise BadOption("losers", "'let_run' or 'cancel'", losers) from None
