"""Whether random flows came to what they may have come to: judged by what their handlers and
operators told, and by the guide. It shares no code with the store or with other models of flows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.diary import Entry
from tests.support.flow_log import ENDS, FlowLog, Run, is_part
from tests.support.random_flows import SHARE, STAND_INS, Gate, Spec

END = math.inf
BAD = ("failed", "expired", "cancelled")


@dataclass(frozen=True)
class Node:
    """What the store says of a node when all is over."""

    job: str
    state: str
    result: Any = None
    reason: str | None = None


@dataclass(frozen=True)
class Final:
    """What the store says of a flow when all is over."""

    state: str
    nodes: Mapping[str, Node]


# What holds at every moment -------------------------------------------------------------------


def every_fence_ended_once(entries: Iterable[Entry]) -> None:
    """The store accepted one end of each attempt. What waits is cancelled under the fence of the
    attempt before."""
    ends = Counter(
        (entry.job, entry.fence)
        for entry in entries
        if entry.what in ("finish", "reclaim")
        and entry.accepted
        and entry.to in ENDS
        and entry.to != "cancelled"
    )
    twice = [end for end, count in ends.items() if count > 1]
    assert not twice, f"ended more than once under one fence: {twice[:5]}"


@dataclass(frozen=True)
class Judge:
    """Of one flow. `accepted` are the ends that the store accepted, by job; `asked` is when the
    claim of an attempt was asked for."""

    log: FlowLog
    final: Final
    accepted: Mapping[str, Sequence[Entry]]
    asked: Mapping[tuple[str, int], float]

    def judge(self) -> None:
        for name, runs in self.log.runs.items():
            for run in runs:
                self.ran_for_a_reason(name, run)
                self.began_in_time(name, run)
        for name, node in self.final.nodes.items():
            self.came_to_its_end(name, node)
        self.flow_came_to_its_end()

    def say(self, name: str, what: str) -> str:
        flow, plan = self.log.plan.number, self.log.plan.nodes
        acts = [(act.kind, *act.names, round(act.over, 3)) for act in self.log.acts]
        states = {one: node.state for one, node in self.final.nodes.items()}
        reason = self.final.nodes[name].reason if name in self.final.nodes else None
        return (
            f"flow {flow}, node {name}: {what}\nplan {[*plan.values()]}\nstates {states}\n"
            f"flow is {self.final.state}, acts {acts}, reason {reason}\n"
            f"runs {self.log.runs.get(name)}"
        )

    # Each attempt -------------------------------------------------------------------------------

    def ran_for_a_reason(self, name: str, run: Run) -> None:
        """A node that had ended runs again only if an operator retried its flow in between. The
        note of an end comes after it: what is sure is when its handler was done."""
        for end in self.accepted.get(run.job, ()):
            if end.fence >= run.fence:
                continue
            ended = [
                one for one in self.log.runs[name] if (one.job, one.fence) == (run.job, end.fence)
            ]
            since = min(
                (one.began if one.done is None else one.done_at for one in ended), default=-END
            )
            asked = any(
                act.is_retry and act.over > since and act.began < run.began for act in self.log.acts
            )
            assert asked, self.say(name, f"{run} after {end}, and nobody asked")

    def began_in_time(self, name: str, run: Run) -> None:
        for gate in self.log.gates(name):
            if gate.names[0].endswith(".b") and gate.names[0] not in self.log.runs:
                continue  # the grower was another attempt's, and has added nothing in the end
            met = self.log.may_be_met(gate, run.began)
            assert met, self.say(name, f"{run} began before {gate} was met")
        spec = self.log.plan.nodes.get(name)
        for n, gate in enumerate(spec.gates if spec is not None else ()):
            if gate.is_taken and spec is not None and spec.kind != "map":
                self.was_given(name, run, gate, run.told.takes[str(n)])

    def was_given(self, name: str, run: Run, gate: Gate, given: Any) -> None:
        known = [self.log.values(one, run.began) for one in gate.names]
        match gate.kind:
            case "all" | "any":
                right = any(given in values for values in known)
            case "share":
                right = self.is_of_elements(gate.names[0], given, run)
            case _:
                right = self.is_each(gate, given, run)
        assert right, self.say(name, f"{run} was given {given} for {gate}, not one of {known}")

    def is_of_elements(self, name: str, given: Any, run: Run) -> bool:
        """An element that is cancelled has no result, also if its handler was done by then."""
        cancelled = self.log.may_be_cancelled(f"{name}[", run.began)
        return any(
            len(values) == len(given)
            and all(
                got == value or (got is None and cancelled)
                for got, value in zip(given, values, strict=True)
            )
            for values in self.log.elements(name, run.began)
        )

    def is_each(self, gate: Gate, given: Any, run: Run) -> bool:
        """None stands for a node that had not succeeded when the job was claimed."""
        return all(
            value in self.log.values(name, run.began)
            or (value is None and not self.had_surely_succeeded(name, run))
            for name, value in zip(gate.names, given, strict=True)
        )

    def had_surely_succeeded(self, name: str, run: Run) -> bool:
        spec = self.log.plan.nodes[name]
        last = self.log.success(name, run.began)
        if spec.kind in ("map", "child") or last is None:
            return False
        acts = (act for act in self.log.acts if act.is_retry)
        if any(act.over > last.done_at and act.began < run.began for act in acts):
            return False  # it may have had to run again
        asked = self.asked.get((run.job, run.fence), -END)
        return any(
            end.fence == last.fence and end.to == "succeeded" and end.at < asked
            for end in self.accepted.get(last.job, ())
        )

    # Each node, when all is over ----------------------------------------------------------------

    def came_to_its_end(self, name: str, node: Node) -> None:
        spec = self.log.plan.nodes.get(name)
        match node.state:
            case "succeeded":
                self.has_its_result(name, node, spec)
            case "failed":
                assert self.may_have_failed(name, node, spec), self.say(name, "failed by itself")
            case "cancelled":
                own = self.own_name(name, node)
                assert self.log.may_be_cancelled(own, END), self.say(name, "nobody cancelled it")
            case "skipped":
                hopeless = not all(self.is_met(gate) for gate in self.gates(name))
                assert hopeless or self.may_have_skipped(name, node), self.say(
                    name, "was skipped without a cause"
                )
            case state:
                raise AssertionError(self.say(name, f"is {state}, and the flow is over"))

    def may_have_skipped(self, name: str, node: Node) -> bool:
        return self.last_end(name, node) == "skip"

    def own_name(self, name: str, node: Node) -> str:
        """Elements name themselves by their item; one that never ran has told none. What stands
        for the elements of a map is lost with them."""
        if name.startswith(STAND_INS):
            return name.removesuffix(")").partition("(")[2]
        for own, runs in self.log.runs.items():
            if any(run.job == node.job for run in runs):
                return own
        return name

    def last_end(self, name: str, node: Node) -> str:
        run = self.last_run(name, node)
        return "" if run is None else run.how(END)

    def last_run(self, name: str, node: Node) -> Run | None:
        runs = self.log.runs.get(self.own_name(name, node), ())
        own = [run for run in runs if run.job == node.job]
        return max(own, key=lambda run: run.fence, default=None)

    def has_its_result(self, name: str, node: Node, spec: Spec | None) -> None:
        """That of its last attempt."""
        if name.startswith(STAND_INS):
            return
        if spec is not None and spec.kind == "map":
            self.has_its_elements(name, node, spec)
            return
        if spec is not None and spec.kind == "child":
            found = self.log.values(name, END)
            assert node.result in found, self.say(name, f"has {node.result}, not one of {found}")
            return
        run = self.last_run(name, node)
        right = run is not None and run.how(END) == "return" and run.value == node.result
        assert right, self.say(name, f"has {node.result}, and its last attempt was {run}")

    def has_its_elements(self, name: str, node: Node, spec: Spec) -> None:
        """As many as its list has, each with its own item, and all of one list. A retry that was
        no cascade may have kept elements of an older one."""
        count = node.result if isinstance(node.result, int) else node.result[0]
        names, expected = self.elements(name), [f"{name}[{n}]" for n in range(count)]
        assert sorted(names) == sorted(expected), self.say(name, f"has {names}, not {count}")
        source = self.final.nodes[spec.over]
        lists = [run.value for run in self.log.runs[spec.over] if run.how(END) == "return"]
        if source.state == "succeeded" and not any(act.kind == "retry" for act in self.log.acts):
            lists = [source.result]
        runs = [self.last_run(one, self.final.nodes[one]) for one in expected]
        items = [None if run is None else run.told.takes["item"] for run in runs]
        right = any(
            len(listed) == count
            and all(item in (None, own) for item, own in zip(items, listed, strict=True))
            for listed in lists
        )
        assert right, self.say(name, f"has elements for {items}, not for one of {lists}")

    def may_have_failed(self, name: str, node: Node, spec: Spec | None) -> bool:
        if spec is not None and spec.kind == "map":
            # nothing can be added any more
            return self.log.may_be_cancelled(name, END)
        if spec is not None and spec.kind == "child":
            return any(run.how(END) == "fail" for run in self.log.parts(name))
        return self.last_end(name, node) == "fail"

    # Gates, when all is over --------------------------------------------------------------------

    def gates(self, name: str) -> list[Gate]:
        if name.startswith(STAND_INS):
            word, _, of = name.removesuffix(")").partition("(")
            return [Gate("all" if word == "all" else "failed", (of,))]
        return [gate for gate in self.log.gates(name) if gate.names[0] in self.final.nodes]

    def is_out_of_reach(self, name: str) -> bool:
        elements = self.elements(name)
        won = sum(self.final.nodes[one].state == "succeeded" for one in elements)
        is_made = self.final.nodes[name].state == "succeeded"
        return not is_made or won < math.ceil(SHARE * len(elements))

    def elements(self, name: str) -> list[str]:
        return [one for one in self.final.nodes if one.startswith(f"{name}[")]

    def whole(self, name: str, gate: Gate) -> list[str]:
        """The node, and the elements of a map. A condition that does not need all of its nodes
        has another node stand for the elements: what that has come to is kept as any success is."""
        word = "failed" if gate.kind == "failed" else "all"
        stand_in = f"{word}({name})"
        if gate.need < len(gate.names) and stand_in in self.final.nodes:
            return [stand_in]
        return [name, *self.elements(name)]

    def lost(self, name: str, gate: Gate) -> list[str]:
        """The nodes that keep this one from counting as a success."""
        return [one for one in self.whole(name, gate) if self.final.nodes[one].state != "succeeded"]

    def has_failed(self, name: str, gate: Gate) -> bool:
        whole = self.whole(name, gate)
        if whole[0].startswith(STAND_INS):
            return self.final.nodes[whole[0]].state == "succeeded"
        return any(self.final.nodes[one].state in ("failed", "expired") for one in whole)

    # The flow -----------------------------------------------------------------------------------

    def flow_came_to_its_end(self) -> None:
        allowed = self.may_come_to()
        assert self.final.state in allowed, self.say("-", f"the flow should be {allowed}")

    def may_come_to(self) -> set[str]:
        last = [act for act in self.log.acts if act.is_retry or act.kind == "cancel flow"]
        if last and last[-1].kind == "cancel flow":
            return {"cancelled"}
        states = {node.state for node in self.final.nodes.values()}
        badly = "failed" if states & {"failed", "expired"} else "cancelled"
        sinks = [self.is_bad(name) for name in self.sinks()]
        if any(bad == {True} for bad in sinks):
            return {badly}
        return {badly, "succeeded"} if any(True in bad for bad in sinks) else {"succeeded"}

    def sinks(self) -> list[str]:
        """Nodes that nobody waited for when they were written."""
        last = self.log.plan.last
        specs = self.log.plan.nodes.values()
        grown = [f"{spec.name}.b" for spec in specs if spec.kind == "grow" and not spec.before]
        elements = [one for name in last for one in self.elements(name)]
        return [*last, *elements, *(one for one in grown if one in self.final.nodes)]

    def is_bad(self, name: str) -> set[bool]:
        """Whether the end of a node keeps its flow from succeeding, if nobody else needs it. A skip
        does if a condition was not met and something that it lost had ended badly. A loser of a
        race counts for nothing, until an operator cancels it too, or lets the race run again."""
        node = self.final.nodes[name]
        if node.state == "cancelled" and self.may_be_a_loser(name, node):
            return {True, False} if self.log.acts else {False}
        if node.state != "skipped":
            return {node.state in BAD}
        lost = [
            self.is_bad(one)
            for gate in self.gates(name)
            if not self.is_met(gate)
            for one in self.lost_at(gate)
        ]
        found = {True} if {True} in lost else set[bool]().union(*lost) or {False}
        return found | {False} if self.may_have_skipped(name, node) else found

    def may_be_a_loser(self, name: str, node: Node) -> bool:
        own = self.own_name(name, node)
        return any(is_part(own, one) for one in self.log.losers)

    def is_met(self, gate: Gate) -> bool:
        match gate.kind:
            case "ended":
                return True
            case "failed":
                return any(self.has_failed(name, gate) for name in gate.names)
            case "share":
                return not self.is_out_of_reach(gate.names[0])
            case _:
                need = gate.need if gate.kind == "quorum" else 1
                return sum(not self.lost(name, gate) for name in gate.names) >= need

    def lost_at(self, gate: Gate) -> list[str]:
        if gate.kind == "failed":
            return [one for name in gate.names for one in self.whole(name, gate)]
        return [one for name in gate.names for one in self.lost(name, gate)]
