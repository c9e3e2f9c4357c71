"""Flows and their nodes, drawn for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.cli.advice import advice_text
from holdfast.cli.output import (
    ago_text,
    indented,
    make_console,
    make_table,
    make_text,
    state_text,
    time_text,
)
from holdfast.flow.drawing import MARKS
from holdfast.flow.model import FlowInfo, FlowState, NodeInfo
from holdfast.flow.reopening import RetryPlan
from holdfast.insights.causes import end_text
from holdfast.insights.flows import FlowExplanation
from holdfast.job.state import SOONEST, JobState
from holdfast.job.text import counted
from holdfast.store.contract.flows import FlowPage

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

COLOURS = {
    FlowState.RUNNING: "cyan",
    FlowState.PAUSED: "yellow",
    FlowState.CANCELLING: "yellow",
    FlowState.SUCCEEDED: "green",
    FlowState.FAILED: "red",
    FlowState.CANCELLED: "dim",
}

NODES_SHOWN = 40
LINES_SHOWN = 200
PATH_SHOWN = 10
TABLE_WIDTH = 100
"""Columns that a terminal needs for a table of flows or nodes."""
NOTE_WIDTH = 100
FIRST, LAST = (JobState.FAILED, JobState.EXPIRED), (JobState.SKIPPED, JobState.SUCCEEDED)
TELLING = (*FIRST, *SOONEST, JobState.CANCELLED, *LAST)


def draw_list(page: FlowPage, *, filtered: bool) -> Iterator[RenderableType]:
    if page.flows:
        wide = make_console().width >= TABLE_WIDTH
        yield from _as_table(page.flows) if wide else _stacked(page.flows)
    elif page.next_cursor is None:
        yield "no flows match" if filtered else "no flows"
    if page.next_cursor is not None:
        yield make_text(f"more: --cursor {page.next_cursor}", "dim")


def _as_table(flows: tuple[FlowInfo, ...]) -> Iterator[RenderableType]:
    table = make_table("=id", "name", "=state", ">live", ">nodes", "=started")
    for flow in flows:
        table.add_row(
            flow.id,
            flow.name,
            flow_state_text(flow),
            f"{flow.open:,}",
            f"{flow.total:,}",
            ago_text(flow.created_at),
        )
    yield table


def _stacked(flows: tuple[FlowInfo, ...]) -> Iterator[RenderableType]:
    """Flows below each other, for a terminal that is too narrow for a table."""
    from rich.text import Text

    for flow in flows:
        yield Text.assemble(flow.id, "  ", flow_state_text(flow))
        live = f"{flow.open:,} of {counted(flow.total, 'node')} live"
        yield indented(f"{flow.name} · {live} · {ago_text(flow.created_at)}", "dim")


def flow_state_text(flow: FlowInfo) -> Text:
    return make_text(flow.state.value, COLOURS[flow.state])


def draw_flow(flow: FlowInfo, nodes: list[NodeInfo], parent: str) -> Iterator[RenderableType]:
    from rich.text import Text

    states = Counter(node.state.value for node in nodes)
    shown = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
    by = f" ({flow.reason})" if flow.reason else ""
    yield Text.assemble(
        f"flow {flow.id} ({flow.name}) is ", flow_state_text(flow), f"{by}: {shown}"
    )
    for word, value in (*_facts(flow), ("parent", parent)):
        if value:
            yield indented(f"{word} {value}", "dim")
    some = nodes if len(nodes) <= NODES_SHOWN else sorted(nodes, key=_telling)[:NODES_SHOWN]
    wide = make_console().width >= TABLE_WIDTH
    yield from _node_table(some) if wide else _stacked_nodes(some)
    if len(nodes) > NODES_SHOWN:
        left = counted(len(nodes) - NODES_SHOWN, "node")
        yield make_text(f"and {left} more: --json shows all", "dim")


def _facts(flow: FlowInfo) -> Iterator[tuple[str, str | None]]:
    yield "started", time_text(flow.created_at)
    yield "finished", time_text(flow.finished_at) if flow.ended else None
    kept = time_text(flow.expires_at) if flow.expires_at else "for ever"
    yield "kept", f"until {kept}" if flow.expires_at else kept if flow.ended else None
    yield "unique key", flow.unique_key
    yield "tags", ", ".join(flow.tags)


def _telling(node: NodeInfo) -> tuple[int, str]:
    """Of many nodes those that failed or move are shown, and then the others."""
    return TELLING.index(node.state), node.name


def _node_table(nodes: list[NodeInfo]) -> Iterator[RenderableType]:
    table = make_table("node", "=state", "task", "=job", ">attempts", "reason")
    for node in nodes:
        state = state_text(node.state)
        table.add_row(node.name, state, node.task, node.job_id, str(node.attempts), _note(node))
    yield table


def _stacked_nodes(nodes: list[NodeInfo]) -> Iterator[RenderableType]:
    from rich.text import Text

    for node in nodes:
        yield Text.assemble(f"{node.name}  ", state_text(node.state))
        tries = counted(node.attempts, "attempt") if node.attempts else ""
        yield indented(" · ".join(filter(None, (node.job_id, node.task, tries))), "dim")
        if note := _note(node):
            yield indented(note, "dim")


def _note(node: NodeInfo) -> str:
    """The reason in one line that is not too long."""
    line = " ".join((node.reason or "").split())
    return line if len(line) <= NOTE_WIDTH else line[: NOTE_WIDTH - 1] + "…"


def some_lines(lines: list[str]) -> list[str]:
    """What a person reads of a graph. The other forms are for programs, and whole."""
    if len(lines) <= LINES_SHOWN:
        return lines
    left = counted(len(lines) - LINES_SHOWN, "node")
    return [*lines[:LINES_SHOWN], f"and {left} more: --format dot or --json shows all"]


def draw_explained(explained: FlowExplanation) -> Iterator[RenderableType]:
    flow = explained.flow
    by = f" ({flow.reason})" if flow.reason else ""
    live = f"{flow.open:,} of {counted(flow.total, 'node')} live"
    yield make_text(f"{flow.name} is {flow.state}{by}: {live}", "bold")
    for reason in explained.held:
        actions = [] if reason.action is None else [reason.action]
        yield indented(advice_text(reason.advice, actions), "yellow", mark="→ ")
    for cause in explained.causes:
        why = f": {cause.reason}" if cause.reason else ""
        style = "dim" if cause.state is JobState.CANCELLED else "red"
        mark = f"{MARKS[cause.state]} "
        yield indented(f"{cause.name!r} {end_text(cause)}{why}", style, mark=mark)
    if explained.skipped:
        yield indented(f"{counted(explained.skipped, 'node')} skipped", "dim", mark="⤼ ")
    for node in (*explained.frontier, *explained.waiting):
        yield indented(f"{node.name!r} {node.why}", mark=f"{MARKS[node.state]} ")
    if explained.left_out:
        shown = ", ".join(f"{many:,} {state}" for state, many in explained.left_out.items())
        yield make_text(f"and more live nodes: {shown}", "dim")
    if len(explained.longest_path) > 1:
        yield f"longest path left: {_path_text(explained.longest_path)}"


def _path_text(path: tuple[str, ...]) -> str:
    """The first and the last nodes of a path, and how many nodes it has."""
    if len(path) <= PATH_SHOWN:
        return " → ".join(path)
    ends = PATH_SHOWN // 2
    return f"{len(path):,} nodes: {' → '.join((*path[:ends], '…', *path[-ends:]))}"


def draw_plan(plan: RetryPlan, dry_run: bool) -> Iterator[RenderableType]:
    verb = "would run" if dry_run else "run"
    yield f"{verb} again: {', '.join(plan.again) or 'no node'}"
    if plan.wait:
        yield f"{'would wait' if dry_run else 'wait'} for others: {', '.join(plan.wait)}"
    if plan.anew:
        removed = "would be removed and added" if dry_run else "removed and added"
        yield f"{removed} anew: {', '.join(plan.anew)}"
    yield f"kept: {counted(len(plan.kept), 'node')} that succeeded"
