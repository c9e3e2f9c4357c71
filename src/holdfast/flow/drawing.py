"""The graph of a flow as text, for people and for tools that draw. Pure.

`text` lists nodes by depth: each node stands below everything it waits for. Nodes that differ
only in their number, such as the elements of a map, are one line with a count. `mermaid` and `dot`
are the languages of two common tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from holdfast.flow.graph import Graph
from holdfast.flow.model import ANY_END, FAILURE, SUCCESS, NodeInfo
from holdfast.job.ids import JobId

Format = Literal["text", "mermaid", "dot"]
MARKS = {
    "blocked": "·",
    "scheduled": "…",
    "ready": "○",
    "running": "▶",
    "suspended": "‖",
    "succeeded": "✓",
    "failed": "✗",
    "cancelled": "⊘",
    "expired": "⌛",
    "skipped": "⤼",
}
_ELEMENT = re.compile(r"^(.*)\[\d+\]$")
_NUMBERED = re.compile(r"^(.*?)(?:#\d+)?$")
MANY = 8
"""So many nodes of one task that wait for the same nodes, and for which the same nodes wait, are
drawn as one."""
NAMED = 6
"""So many nodes are named behind an arrow of `text`; the others are counted."""


class Drawn(msgspec.Struct, frozen=True):
    """One node of a drawing. Elements of a map, and others that are alike, are drawn as one, with
    how many are in each state."""

    key: str
    states: tuple[tuple[str, int], ...]
    waits_for: tuple[tuple[str, str], ...]
    depth: int

    @property
    def label(self) -> str:
        if len(self.states) == 1 and self.states[0][1] == 1:
            return f"{self.key} ({self.states[0][0]})"
        shown = ", ".join(f"{count:,} {state}" for state, count in self.states)
        return f"{self.key} ({shown})"


def drawn(graph: Graph, nodes: Iterable[NodeInfo]) -> list[Drawn]:
    """The nodes to draw, each after all that it waits for."""
    states = {node.job_id: node.state.value for node in nodes}
    keys = _keys(graph)
    groups: dict[str, list[JobId]] = {}
    for job, key in keys.items():
        groups.setdefault(key, []).append(job)
    edges = {key: _edges(graph, key, jobs, keys) for key, jobs in groups.items()}
    depths = _depths(edges)
    found = [
        Drawn(
            key,
            tuple(sorted(Counter(states.get(job, "gone") for job in jobs).items())),
            tuple(sorted(edges[key].items())),
            depths[key],
        )
        for key, jobs in groups.items()
    ]
    return sorted(found, key=lambda one: (one.depth, one.key))


def draw(graph: Graph, nodes: Iterable[NodeInfo], form: Format = "text") -> list[str]:
    return _DRAWERS[form](drawn(graph, nodes))


def _keys(graph: Graph) -> dict[JobId, str]:
    """As what each node is drawn: by its name, or together with those that are like it."""
    waiting = graph.downstreams()
    alike: dict[object, list[JobId]] = {}
    keys: dict[JobId, str] = {}
    for name, node in graph.nodes.items():
        if (element := _ELEMENT.match(name)) is not None:
            keys[node.job] = f"{element[1]}[…]"
            continue
        keys[node.job] = name
        numbered = _NUMBERED.match(name)
        stem = name if numbered is None else numbered[1]
        like = (stem, node.task, graph.gates_of(node.job), frozenset(waiting[node.job]))
        alike.setdefault(like, []).append(node.job)
    for jobs in alike.values():
        if len(jobs) >= MANY:
            keys |= dict.fromkeys(jobs, f"{keys[jobs[0]]}…")
    return keys


def _edges(
    graph: Graph, key: str, jobs: Iterable[JobId], keys: Mapping[JobId, str]
) -> dict[str, str]:
    """What each node waits for, with a word for how."""
    found: dict[str, str] = {}
    makers: set[str | None] = set()
    for job in jobs:
        makers.add(graph.nodes[graph.names[job]].map)
        for gate in graph.gates_of(job):
            word = "" if gate.need == gate.total else f"{gate.need} of {gate.total}"
            for edge in gate.edges:
                other = keys.get(edge.upstream)
                if other is None or other == key:
                    continue
                wants = {SUCCESS: "", FAILURE: "failed", ANY_END: "ended"}.get(edge.wants, "")
                found[other] = " ".join(part for part in (word, wants) if part)
    return found | {name: "each" for name in makers if name is not None}


def _depths(edges: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    depths: dict[str, int] = {}
    left = {key: set(needed) & edges.keys() for key, needed in edges.items()}
    waiting: dict[str, list[str]] = {key: [] for key in edges}
    for key, needed in left.items():
        for one in needed:
            waiting[one].append(key)
    ahead = [(key, 0) for key, needed in left.items() if not needed]
    while ahead:
        key, depth = ahead.pop()
        depths[key] = max(depth, depths.get(key, 0))
        for other in waiting[key]:
            left[other].discard(key)
            depths[other] = max(depths.get(other, 0), depths[key] + 1)
            if not left[other]:
                ahead.append((other, depths[other]))
    return {key: depths.get(key, 0) for key in edges}


def _as_text(nodes: list[Drawn]) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        mark = MARKS.get(node.states[0][0], "?") if len(node.states) == 1 else "▪"
        ways = [f"{name} ({how})" if how else name for name, how in node.waits_for]
        more = f" and {len(ways) - NAMED:,} more" if len(ways) > NAMED else ""
        after = f"  ← {', '.join(ways[:NAMED])}{more}" if ways else ""
        lines.append(f"{'  ' * node.depth}{mark} {node.label}{after}")
    return lines


def _as_mermaid(nodes: list[Drawn]) -> list[str]:
    numbers = {node.key: f"n{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart TD"]
    lines += [f'  {numbers[node.key]}["{_quoted(node.label)}"]' for node in nodes]
    for node in nodes:
        for name, how in node.waits_for:
            label = f'|"{_quoted(how)}"|' if how else ""
            lines.append(f"  {numbers[name]} -->{label} {numbers[node.key]}")
    return lines


def _as_dot(nodes: list[Drawn]) -> list[str]:
    lines = ["digraph flow {", "  rankdir=TB;", "  node [shape=box];"]
    lines += [f'  "{_escaped(node.key)}" [label="{_escaped(node.label)}"];' for node in nodes]
    for node in nodes:
        for name, how in node.waits_for:
            label = f' [label="{_escaped(how)}"]' if how else ""
            lines.append(f'  "{_escaped(name)}" -> "{_escaped(node.key)}"{label};')
    return [*lines, "}"]


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


_DRAWERS: dict[str, Callable[[list[Drawn]], list[str]]] = {
    "text": _as_text,
    "mermaid": _as_mermaid,
    "dot": _as_dot,
}
