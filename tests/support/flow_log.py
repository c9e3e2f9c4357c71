"""What happened to random flows, as their handlers and their operators told it: no store and no
rule of flows was asked. What a node may have come to at a moment follows from that."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import msgspec

from tests.support.diary import Entry
from tests.support.random_flows import SHARE, Gate, Plan, Spec, Told

ActKind = Literal["cancel flow", "cancel node", "pause", "resume", "retry", "cascade"]
ENDS = ("succeeded", "failed", "cancelled", "expired", "skipped")
_told = msgspec.json.Decoder(Told)


@dataclass(frozen=True)
class Act:
    """What an operator did, and when. `names`: the nodes that the operator named."""

    kind: ActKind
    flow: int
    began: float
    over: float
    names: tuple[str, ...] = ()

    @property
    def is_retry(self) -> bool:
        return self.kind in ("retry", "cascade")


@dataclass
class Run:
    """One attempt of a node, as its handler told it."""

    job: str
    fence: int
    began: float
    told: Told
    done: Told | None = None
    done_at: float = math.inf

    def how(self, before: float) -> str:
        """How it had ended before that moment; nothing if it had not."""
        return "" if self.done is None or self.done_at >= before else self.done.how

    @property
    def value(self) -> Any:
        return None if self.done is None else self.done.value


@dataclass
class FlowLog:
    """Of one flow. Runs are listed by the name that the node has in its own values."""

    plan: Plan
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    acts: list[Act] = field(default_factory=list)

    # What is known at a moment ------------------------------------------------------------------

    def latest(self, name: str, before: float) -> Run | None:
        """The last attempt that began before that moment."""
        runs = [run for run in self.runs.get(name, ()) if run.began < before]
        if not runs:
            return None
        since: dict[str, float] = {}
        for run in runs:
            since[run.job] = min(since.get(run.job, math.inf), run.began)
        return max(runs, key=lambda run: (since[run.job], run.fence))

    def success(self, name: str, before: float) -> Run | None:
        run = self.latest(name, before)
        return run if run is not None and run.how(before) == "return" else None

    def values(self, name: str, before: float) -> list[Any]:
        """What the node may have come to as a success; nothing if it had not succeeded. That of a
        map is the list of the values of its elements."""
        match self.plan.nodes.get(name):
            case Spec(kind="child"):
                return self._of_child(name, before)
            case Spec(kind="map"):
                found = self.elements(name, before)
                return [values for values in found if None not in values]
            case _:
                run = self.success(name, before)
                return [] if run is None else [run.value]

    def _of_child(self, name: str, before: float) -> list[Any]:
        """A flow that a node has called may be kept when the node runs again. It succeeds without
        a value if its last node is skipped by a `Skip`."""
        skipped = any(run.how(before) == "skip" for run in self.parts(name))
        runs = self.runs.get(f"{name}/b", ())
        found = [run.value for run in runs if run.how(before) == "return"]
        return [*found, *([None] if skipped else [])]

    def lists(self, name: str, before: float) -> list[list[str]]:
        """The lists that a map may go through, if it had one. A retry that is no cascade keeps the
        elements of an older one."""
        over = self.plan.nodes[name].over
        kept = any(act.kind == "retry" and act.began < before for act in self.acts)
        run = self.success(over, before)
        runs = self.runs.get(over, ()) if kept else [] if run is None else [run]
        return [list(run.value) for run in runs if run.how(before) == "return"]

    def elements(self, name: str, before: float) -> list[list[Any]]:
        """The values of the elements of a map in their order, None for one that had not succeeded:
        one answer for each list that it may go through."""
        return [
            [
                run and run.value
                for item in listed
                for run in [self.success(f"{name}[{item}]", before)]
            ]
            for listed in self.lists(name, before)
        ]

    # What may have been -------------------------------------------------------------------------

    def may_be_met(self, gate: Gate, before: float) -> bool:
        match gate.kind:
            case "all" | "any" | "quorum":
                need = 1 if gate.kind != "quorum" else gate.need
                return sum(bool(self.values(name, before)) for name in gate.names) >= need
            case "share":
                [name] = gate.names
                enough = any(is_share(values) for values in self.elements(name, before))
                return enough and self.may_have_ended(name, before)
            case "failed":
                return any(self.may_have_failed(name, before) for name in gate.names)
            case "ended":
                return all(self.may_have_ended(name, before) for name in gate.names)

    def parts(self, name: str) -> Iterator[Run]:
        """The attempts of a node, or of the elements or the nodes that it is made of."""
        for other, runs in self.runs.items():
            if other == name or other.startswith((f"{name}[", f"{name}/")):
                yield from runs

    def may_have_failed(self, name: str, before: float) -> bool:
        is_map = name in self.plan.nodes and self.plan.nodes[name].kind == "map"
        # a map fails in a cancelled flow
        broken = is_map and self.may_be_cancelled(name, before)
        return broken or any(run.how(before) == "fail" for run in self.parts(name))

    def may_have_ended(self, name: str, before: float) -> bool:
        spec = self.plan.nodes.get(name)
        if self.may_be_cancelled(name, before) or self.may_be_skipped(name, before):
            return True
        if spec is not None and spec.kind == "map":
            return any(
                all(self.may_have_ended(f"{name}[{item}]", before) for item in listed)
                for listed in self.lists(name, before)
            )
        if spec is not None and spec.kind == "child":
            ends = [run.how(before) for run in self.parts(name)]
            return bool(self.values(name, before)) or "fail" in ends
        return any(run.how(before) for run in self.runs.get(name, ()))

    def may_be_lost(self, name: str, before: float) -> bool:
        """Whether it may have ended otherwise than as a success."""
        lost = any(run.how(before) in ("fail", "skip") for run in self.parts(name))
        others = self.may_be_cancelled(name, before) or self.may_be_skipped(name, before)
        return lost or others

    def may_be_skipped(self, name: str, before: float) -> bool:
        if any(run.how(before) == "skip" for run in self.runs.get(name, ())):
            return True
        return any(self.may_be_hopeless(gate, before) for gate in self.gates(name))

    def may_be_hopeless(self, gate: Gate, before: float) -> bool:
        match gate.kind:
            case "ended":
                return False
            case "failed":
                return all(self.may_have_ended(name, before) for name in gate.names)
            case _:
                need = gate.need if gate.kind == "quorum" else 1
                lost = sum(self.may_be_lost(name, before) for name in gate.names)
                return lost > len(gate.names) - need

    def may_be_cancelled(self, name: str, before: float) -> bool:
        for act in self.acts:
            if act.began < before and act.kind == "cancel flow":
                return True
            touched = any(touches(one, name) for one in act.names)
            if act.began < before and act.kind == "cancel node" and touched:
                return True
        return any(is_part(name, one) for one in self.losers)

    @cached_property
    def losers(self) -> set[str]:
        """The nodes that a race may cancel, and what only they may have needed."""
        found: set[str] = set()
        ahead = [
            name
            for spec in self.plan.nodes.values()
            for gate in spec.gates
            if gate.cancels
            for name in gate.names
        ]
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead += [one for gate in self.plan.nodes[name].gates for one in gate.names]
        return found

    def gates(self, name: str) -> Sequence[Gate]:
        """All that a node may wait for, with what growers have added before it."""
        if (spec := self.plan.nodes.get(name)) is None:
            return (Gate("all", (f"{name[:-1]}a",)),) if name.endswith(".b") else ()
        growers = [one for one in self.plan.nodes.values() if one.before == name]
        return (*spec.gates, *(Gate("all", (f"{one.name}.b",)) for one in growers))


def is_share(values: Sequence[Any]) -> bool:
    return sum(value is not None for value in values) >= math.ceil(SHARE * len(values))


def is_part(name: str, of: str) -> bool:
    return name == of or name.startswith((f"{of}[", f"{of}/", f"{of}."))


def touches(named: str, name: str) -> bool:
    """Whether an act on one node may end the other. An operator names elements by their number,
    and they name themselves by their item: any of the map may be meant."""
    if "[" in named and "[" in name:
        return named.partition("[")[0] == name.partition("[")[0]
    return is_part(name, named) or is_part(named, name)


def logs_of(
    plans: Iterable[Plan], entries: Iterable[Entry], acts: Iterable[Act]
) -> dict[int, FlowLog]:
    """What was told, by flow. That of one attempt is told once."""
    logs = {plan.number: FlowLog(plan) for plan in plans}
    runs: dict[tuple[str, int], Run] = {}
    for entry in entries:
        if entry.what == "begun":
            told = _told.decode(entry.text)
            assert (entry.job, entry.fence) not in runs, f"{told} began twice under one fence"
            run = runs[entry.job, entry.fence] = Run(entry.job, entry.fence, entry.at, told)
            logs[told.flow].runs[told.name].append(run)
        elif entry.what == "done":
            run = runs[entry.job, entry.fence]
            assert run.done is None, f"{run} ended twice under one fence"
            run.done, run.done_at = _told.decode(entry.text), entry.at
    for act in acts:
        logs[act.flow].acts.append(act)
    return logs
