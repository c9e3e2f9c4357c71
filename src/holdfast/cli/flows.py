"""`holdfast flows list|show|graph|explain|cancel|pause|resume|retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from holdfast.cli.flows_view import draw_explained, draw_flow, draw_list, draw_plan, some_lines
from holdfast.cli.output import Verbatim
from holdfast.cli.program import flows_group
from holdfast.cli.target import CommandSession
from holdfast.client.flows import CancelWord
from holdfast.errors import UnknownJob
from holdfast.flow.drawing import Format, draw
from holdfast.flow.ids import watcher_id
from holdfast.flow.model import CloseWhat, FlowInfo, FlowState

if TYPE_CHECKING:
    from holdfast.client.client import Client

flow_argument = click.argument("flow_id", metavar="ID")


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
    filtered = bool(name or state or tag or cursor)
    session.answer(document, lambda: draw_list(page, filtered=filtered))


@flows_group.command("show")
@flow_argument
async def show_flow(session: CommandSession, flow_id: str) -> None:
    """Show a flow and its nodes."""
    async with session.client() as client:
        flow = await client.flows.get(flow_id)
        nodes = await client.shown.nodes(await client.flows.nodes(flow_id))
        parent = await _parent_text(client, flow)
    document = document_of(flow) | {"nodes": msgspec.to_builtins(nodes)}
    session.answer(document, lambda: draw_flow(flow, nodes, parent))


async def _parent_text(client: Client, flow: FlowInfo) -> str:
    """The job that waits for the flow. It may be gone: it is kept by its own retention."""
    if flow.parent is None or flow.parent == watcher_id(flow.id):
        return ""
    try:
        job = await client.get(flow.parent)
    except UnknownJob:
        return f"{flow.parent}, which is gone"
    return f"{job.task} {job.id}, {job.state}"


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
    document = {"format": form, "graph": "\n".join(lines)}
    session.answer(document, lambda: map(Verbatim, lines if form != "text" else some_lines(lines)))


@flows_group.command("explain")
@flow_argument
async def explain_flow(session: CommandSession, flow_id: str) -> None:
    """Say what a flow waits for, and what made it fail."""
    async with session.client() as client:
        explained = await client.flows.explain(flow_id)
        causes = tuple(await client.shown.nodes(explained.causes))
    explained = msgspec.structs.replace(explained, causes=causes)
    session.answer(msgspec.to_builtins(explained), lambda: draw_explained(explained))


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
        await _answer(session, client, flow_id)


async def _answer(session: CommandSession, client: Client, flow_id: str) -> None:
    """Answer with a flow as it is after the change."""
    flow = await client.flows.get(flow_id)
    session.answer(document_of(flow), lambda: iter([f"flow {flow.id} is {flow.state}"]))


@flows_group.command("pause")
@flow_argument
async def pause_flow(session: CommandSession, flow_id: str) -> None:
    """Release nothing more of a flow; what is ready goes on."""
    async with session.client() as client:
        await client.flows.pause(flow_id, by=session.by)
        await _answer(session, client, flow_id)


@flows_group.command("resume")
@flow_argument
async def resume_flow(session: CommandSession, flow_id: str) -> None:
    """Let a paused flow go on."""
    async with session.client() as client:
        await client.flows.resume(flow_id, by=session.by)
        await _answer(session, client, flow_id)


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
    document = {
        "again": plan.again,
        "wait": plan.wait,
        "anew": plan.anew,
        "kept": plan.kept,
        "dry_run": dry_run,
    }
    session.answer(document, lambda: draw_plan(plan, dry_run))
