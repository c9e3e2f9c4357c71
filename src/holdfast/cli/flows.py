"""`holdfast flows list|show|graph|explain|cancel|pause|resume|retry`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from holdfast.cli.output import ago_text, counted, make_table, make_text
from holdfast.cli.program import flows_group
from holdfast.cli.target import CommandSession
from holdfast.client.flows import CancelWord
from holdfast.errors import UnknownJob
from holdfast.flow.drawing import Format, draw
from holdfast.flow.model import CloseWhat, FlowInfo, FlowState, NodeInfo
from holdfast.flow.reopening import RetryPlan
from holdfast.insights.flows import FlowExplanation

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.client.client import Client

COLOURS = {
    FlowState.RUNNING: "cyan",
    FlowState.PAUSED: "yellow",
    FlowState.CANCELLING: "yellow",
    FlowState.SUCCEEDED: "green",
    FlowState.FAILED: "red",
    FlowState.CANCELLED: "dim",
}

flow_argument = click.argument("flow_id", metavar="ID")
NODES_SHOWN = 40


def document_of(flow: FlowInfo) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(flow))


@flows_group.command("list")
@click.option("--name", "-n", multiple=True, help="Only flows of this name.")
@click.option("--state", "-s", multiple=True, help=f"Only this state: {', '.join(FlowState)}.")
@click.option("--tag", "-t", multiple=True, help="Only flows with this tag.")
@click.option("--limit", metavar="N", default=25, help="At most this many.")
@click.option("--cursor", help="Go on behind an earlier page.")
async def list_flows(
    session: CommandSession,
    name: tuple[str, ...],
    state: tuple[str, ...],
    tag: tuple[str, ...],
    limit: int,
    cursor: str | None,
) -> None:
    """List flows, newest first."""
    async with session.client() as client:
        page = await client.flows.page(name=name, state=state, tag=tag, limit=limit, cursor=cursor)
    document = {"flows": [document_of(one) for one in page.flows], "next_cursor": page.next_cursor}
    session.answer(document, lambda: _draw_list(page.flows, page.next_cursor))


def _draw_list(flows: tuple[FlowInfo, ...], cursor: str | None) -> Iterator[RenderableType]:
    if not flows:
        yield "no flows"
        return
    table = make_table("=id", "name", "=state", ">live", ">nodes", "=started")
    for flow in flows:
        table.add_row(
            flow.id,
            flow.name,
            make_text(flow.state.value, COLOURS[flow.state]),
            f"{flow.open:,}",
            f"{flow.total:,}",
            ago_text(flow.created_at),
        )
    yield table
    if cursor is not None:
        yield f"more: --cursor {cursor}"


@flows_group.command("show")
@flow_argument
async def show_flow(session: CommandSession, flow_id: str) -> None:
    """Show a flow and its nodes."""
    async with session.client() as client:
        flow = await client.flows.get(flow_id)
        nodes = await client.shown.nodes(await client.flows.nodes(flow_id))
        parent = await _parent_text(client, flow)
    document = document_of(flow) | {"nodes": msgspec.to_builtins(nodes)}
    session.answer(document, lambda: _draw_flow(flow, nodes, parent))


async def _parent_text(client: Client, flow: FlowInfo) -> str:
    """The job that waits for the flow. It may be gone: it is kept by its own retention."""
    if flow.parent is None:
        return ""
    try:
        job = await client.get(flow.parent)
    except UnknownJob:
        return f"{flow.parent}, which is gone"
    return f"{job.task} {job.id}, {job.state}"


def _draw_flow(flow: FlowInfo, nodes: list[NodeInfo], parent: str) -> Iterator[RenderableType]:
    yield make_text(f"{flow.name} {flow.id}", "bold")
    states = Counter(node.state.value for node in nodes)
    shown = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
    yield f"{flow.state}, started {ago_text(flow.created_at)}: {shown}"
    if flow.unique_key:
        yield f"key {flow.unique_key}"
    if flow.parent:
        yield f"parent {parent}"
    table = make_table("node", "=state", "task", "=job", ">attempts", "reason")
    for node in nodes[:NODES_SHOWN]:
        table.add_row(
            node.name, node.state.value, node.task, node.job_id, str(node.attempts), node.reason
        )
    yield table
    if len(nodes) > NODES_SHOWN:
        yield f"and {counted(len(nodes) - NODES_SHOWN, 'node')} more: --json shows all"


@flows_group.command("graph")
@flow_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot"]),
    default="text",
    help="How to write it.",
)
async def graph_of_flow(session: CommandSession, flow_id: str, form: str) -> None:
    """Draw the graph of a flow, with the state of every node."""
    async with session.client() as client:
        graph = await client.flows.graph(flow_id)
        nodes = await client.flows.nodes(flow_id)
    lines = draw(graph, nodes, cast("Format", form))
    session.answer({"format": form, "graph": "\n".join(lines)}, lambda: iter(lines))


@flows_group.command("explain")
@flow_argument
async def explain_flow(session: CommandSession, flow_id: str) -> None:
    """Say what a flow waits for, and what made it fail."""
    async with session.client() as client:
        explained = await client.flows.explain(flow_id)
        causes = tuple(await client.shown.nodes(explained.causes))
    explained = msgspec.structs.replace(explained, causes=causes)
    session.answer(msgspec.to_builtins(explained), lambda: _draw_explained(explained))


def _draw_explained(explained: FlowExplanation) -> Iterator[RenderableType]:
    flow = explained.flow
    live = f"{flow.open:,} of {counted(flow.total, 'node')} live"
    yield make_text(f"{flow.name} is {flow.state}: {live}", "bold")
    for cause in explained.causes:
        yield f"failed because {cause.name!r} {cause.state}: {cause.reason or 'no reason given'}"
    for node in explained.frontier:
        yield f"{node.name} {node.why}"
    for node in explained.waiting:
        yield f"{node.name} {node.why}"
    if explained.left_out:
        yield f"and {counted(explained.left_out, 'live node')} more"
    if len(explained.longest_path) > 1:
        yield f"longest path left: {' → '.join(explained.longest_path)}"


@flows_group.command("cancel")
@flow_argument
@click.option(
    "--what",
    type=click.Choice([what.value for what in CloseWhat]),
    default="all",
    help="Which nodes: all, those that wait, or only those that are blocked.",
)
async def cancel_flow(session: CommandSession, flow_id: str, what: str) -> None:
    """Cancel the nodes of a flow; nothing more of it begins."""
    async with session.client() as client:
        await client.flows.cancel(flow_id, cast("CancelWord", what), by=session.by)
        flow = await client.flows.get(flow_id)
    session.answer(document_of(flow), lambda: iter([f"flow {flow.id} is {flow.state}"]))


@flows_group.command("pause")
@flow_argument
async def pause_flow(session: CommandSession, flow_id: str) -> None:
    """Release nothing more of a flow; what is ready goes on."""
    async with session.client() as client:
        await client.flows.pause(flow_id, by=session.by)
        flow = await client.flows.get(flow_id)
    session.answer(document_of(flow), lambda: iter([f"flow {flow.id} is {flow.state}"]))


@flows_group.command("resume")
@flow_argument
async def resume_flow(session: CommandSession, flow_id: str) -> None:
    """Let a paused flow go on."""
    async with session.client() as client:
        await client.flows.resume(flow_id, by=session.by)
        flow = await client.flows.get(flow_id)
    session.answer(document_of(flow), lambda: iter([f"flow {flow.id} is {flow.state}"]))


@flows_group.command("retry")
@flow_argument
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--cascade", is_flag=True, help="Run nodes behind them again that succeeded.")
@click.option("--dry-run", is_flag=True, help="Only say what would run again.")
async def retry_flow(
    session: CommandSession, flow_id: str, nodes: tuple[str, ...], cascade: bool, dry_run: bool
) -> None:
    """Run failed nodes of a flow again, and what was skipped because of them."""
    async with session.client() as client:
        plan = await client.flows.retry(
            flow_id, *nodes, cascade=cascade, dry_run=dry_run, by=session.by
        )
    document = {"again": plan.again, "wait": plan.wait, "kept": plan.kept, "dry_run": dry_run}
    session.answer(document, lambda: _draw_plan(plan, dry_run))


def _draw_plan(plan: RetryPlan, dry_run: bool) -> Iterator[RenderableType]:
    verb = "would run" if dry_run else "run"
    yield f"{verb} again: {', '.join(plan.again) or 'no node'}"
    if plan.wait:
        yield f"{'would wait' if dry_run else 'wait'} for them: {', '.join(plan.wait)}"
    yield f"kept: {counted(len(plan.kept), 'node')} that succeeded"
