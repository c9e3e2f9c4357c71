"""`holdfast demo`: every kind of job, live in the terminal, checked at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

import click
import msgspec

from holdfast.cli.output import complain, make_text
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession
from holdfast.events import Event
from holdfast.job.ids import new_job_id
from holdfast.job.state import ENDED, JobState
from holdfast.store.open import drop_store, open_store

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.cli.demo_script import FlowLine, OnSchedule, Pace, Row
    from holdfast.cli.demo_view import Scene, View
    from holdfast.client.client import Client

REFRESH_SECONDS = 0.1
PATIENCE_SECONDS = 60.0
"""The demo gives up if its jobs have not ended by then."""


@program.command("demo")
@click.option("--quick", is_flag=True, help="A few seconds instead of fifteen.")
async def demo(session: CommandSession, quick: bool) -> None:
    """Watch jobs of every kind run.

    They run on a temporary SQLite file, or on --url postgres://… or valkey://… On a server the demo
    works in a schema or namespace of its own and drops it at the end.
    """
    from holdfast.cli import demo_script, demo_view

    pace = demo_script.QUICK if quick else demo_script.FULL
    started = time.monotonic()
    async with _store_url(session.given_url) as url:
        with demo_view.make_view(as_json=session.as_json) as view:
            view.say(f"a worker starts on {url.partition('://')[0]}")
            rows, clock, flow = await _run(url, pace, view)
    seconds = time.monotonic() - started
    problems = demo_script.unmet(rows, flow, pace)
    jobs = sum(row.enqueued for row in rows) + sum(flow.nodes.values())
    document = {
        "tasks": [msgspec.structs.asdict(row) for row in rows],
        "jobs": jobs,
        "schedule": msgspec.structs.asdict(clock),
        "flow": msgspec.structs.asdict(flow),
        "seconds": round(seconds, 3),
        "problems": problems,
    }
    verdict = "not as it must be" if problems else "every one ended as it must"
    closing = make_text(f"{jobs} jobs in {seconds:.1f} s: {verdict}", "bold")
    others = [demo_view.draw_flow(flow), demo_view.draw_schedule(clock)]
    session.answer(document, lambda: [*demo_view.draw_summary(rows), *others, closing])
    if problems:
        complain("\n".join(f"error: {problem}" for problem in problems))
        raise click.exceptions.Exit(1)


@asynccontextmanager
async def _store_url(given: str | None) -> AsyncIterator[str]:
    """The URL of a store for the demo alone, which is removed at the end, also after an error."""
    if given is None or given.startswith("sqlite"):
        with TemporaryDirectory(prefix="holdfast-demo-") as folder:
            yield f"sqlite:///{Path(folder) / 'demo.db'}"
        return
    url = _in_own_schema(given)
    store = open_store(url)
    try:
        await store.migrate()
        yield url
    finally:
        await store.close()
        await drop_store(url)


def _in_own_schema(url: str) -> str:
    """The URL with a schema or namespace that nobody else has, because the demo drops it at the
    end."""
    parts = urlsplit(url)
    corner = "schema" if parts.scheme.startswith("postgres") else "namespace"
    query = dict(parse_qsl(parts.query)) | {corner: f"holdfast_demo_{new_job_id()[-12:]}"}
    return parts._replace(query=urlencode(query)).geturl()


async def _run(url: str, pace: Pace, view: View) -> tuple[list[Row], OnSchedule, FlowLine]:
    from holdfast.cli import demo_script
    from holdfast.cli.demo_tasks import SERVED, app

    with app.using_store(url), _shown_failures(app, view):
        async with app, app.worker(SERVED, grace=0.5):
            playing = asyncio.create_task(demo_script.play(pace, view.say))
            try:
                await _watch(app.client, pace, view, playing)
                await playing
            finally:
                playing.cancel()
            rows = await demo_script.summarise(app.client)
            clock = await demo_script.on_schedule(app.client)
            return rows, clock, await demo_script.flow_line(app.client)


@contextmanager
def _shown_failures(app: App, view: View) -> Iterator[None]:
    """Show failed attempts in the view instead of the log: they are part of the demo."""

    def tell(event: Event) -> None:
        if event.name == "job.attempt_failed":
            facts = event.fields
            view.say(f"{facts['task']}, attempt {facts['attempt']} failed: {facts['message']}")

    logger = logging.getLogger("holdfast")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    unsubscribe = app.events.subscribe(tell)
    try:
        yield
    finally:
        unsubscribe()
        logger.setLevel(level)


async def _watch(client: Client, pace: Pace, view: View, playing: asyncio.Task[None]) -> None:
    """Show how things stand until all jobs have ended, or until the demo gives up."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        scene = await _scene(client, pace)
        view.show(scene)
        if playing.done() and scene.ended >= pace.total:
            return
        if playing.done() and playing.exception() is not None:
            return
        await asyncio.sleep(REFRESH_SECONDS)


async def _scene(client: Client, pace: Pace) -> Scene:
    from holdfast.cli.demo_tasks import QUEUES, SERVED, report
    from holdfast.cli.demo_view import Scene

    queues = {name: await client.count(queue=name) for name in SERVED}
    running = (await client.page(task=report.name, state=JobState.RUNNING)).jobs
    ended = sum(queues[name].get(state, 0) for name in QUEUES for state in ENDED)
    return Scene(queues, list(running), ended, pace.total)
