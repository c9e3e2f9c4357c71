"""Canaries in every place where a secret may lie, and none in anything that is shown.

A program plants texts under default names, marks and paths, in headers and in exceptions. Its jobs
run, and then everything is asked that the command line can be asked, with a URL and nothing else.
What is written to logs, spans, the audit and operations is looked at too.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import App, Cancel, Context, Fail, Retry, Secret, UniqueBy
from holdfast.cli.program import program
from holdfast.client.client import Client
from holdfast.contrib.otel import instrument
from holdfast.insights.actions import Verb
from holdfast.insights.overview import OverviewReader
from holdfast.logs import JsonLines, TextLines
from holdfast.store.contract.audit import AuditFilter
from holdfast.store.contract.operations import Operation
from tests.conformance.builders import new_job
from tests.support.backends import Backend, opened
from tests.support.logging_restored import logging_restored

TOKEN, HINT, MAIL = "cnry-token-1", "cnry'hint\n2", "cnry-mail-3@example.org"
NUMBER, HEADER, LINK, NOTE = "cnry-number-4", "cnry-header-5", "cnry-link-6", "cnry-note-7"
CANARIES = ("cnry", "hint\\n2")
URL = f"https://ann:{LINK}@example.org/pay?token={LINK}"


@dataclass
class Card:
    number: Annotated[str, Secret]
    holder: str


@dataclass(frozen=True)
class Place:
    """Where the canaries are: a store, jobs by what became of them, and what was written."""

    url: str
    jobs: dict[str, str]
    text_log: str
    json_log: str
    spans: str

    def run(self, *arguments: str) -> str:
        """Everything that a command says, with the URL of the store and nothing else. On the thread
        of the test, whose sessions of Postgres are kept: there are hundreds of commands."""
        environment = {"COLUMNS": "200", "HOLDFAST_APP": None, "HOLDFAST_URL": None}
        with logging_restored():
            ran = CliRunner(env=environment).invoke(program, [*arguments, "--url", self.url])
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return ran.stdout + ran.stderr


def charged(token: str, seen: str) -> dict[str, str]:
    return {"token": token, "said": seen}


def program_of(url: str) -> App:
    app = App(url)

    @app.task(name="pay", retry=Retry.never(), redact=("customer.email", "return.receipt"))
    async def pay(
        ctx: Context,
        token: str,
        hint: Annotated[str, Secret],
        customer: dict[str, str],
        cards: list[Card],
        how: str,
    ) -> dict[str, str]:
        """Charge a customer."""
        seen = f"{token} {hint!r} {customer['email']} {cards[0].number} {ctx.job.headers} {URL}"
        await ctx.step(f"charge {how}", charged, token, seen)
        async with ctx.stream("said") as out:
            await out.write(charged(token, seen))
        await ctx.progress(0.5, f"paying with {seen}", checkpoint={"token": token, "seen": seen})
        match how:
            case "fails":
                try:
                    raise KeyError(seen)
                except KeyError as error:
                    raise Fail(f"cannot pay: {seen}") from error
            case "is cancelled":
                raise Cancel(f"not wanted: {seen}")
            case _:
                return {"receipt": NOTE, "said": f"paid with {seen}", "api_key": token}

    return app


@pytest.fixture
def logs() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    logger, handlers = logging.getLogger("holdfast"), []
    streams = (io.StringIO(), io.StringIO())
    for stream, lines in zip(streams, (TextLines(), JsonLines()), strict=True):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(lines)
        logger.addHandler(handler)
        handlers.append(handler)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    yield streams
    logger.setLevel(before)
    for handler in handlers:
        logger.removeHandler(handler)


@pytest.fixture
async def place(backend: Backend, logs: tuple[io.StringIO, io.StringIO]) -> Place:
    url = await backend.empty()
    app, exporter, tracers = program_of(url), InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(app, tracer_provider=tracers)
    async with app:
        jobs = await _planted(app)
        async with app.worker({"default": 4}) as worker:
            await worker.drain()
        jobs["waits"] = await _enqueued(app, "waits", delay=3600)
        jobs |= await _unknown(app)
        await _acted(app, jobs)
    spans = "\n".join(span.to_json() for span in exporter.get_finished_spans())
    return Place(url, jobs, logs[0].getvalue(), logs[1].getvalue(), spans)


async def _planted(app: App) -> dict[str, str]:
    pay = app.task_named("pay").using(headers=_headers())
    nightly = pay.scheduled(timedelta(days=1), args=_call("fails"))
    await app.client.schedules.create("nightly", nightly)
    await app.client.schedules.trigger("nightly")
    flow = app.flow("paying")
    flow.add(pay, **_call("fails"))
    started = await flow.start()
    jobs = {how: await _enqueued(app, how) for how in ("fails", "is cancelled", "succeeds")}
    return {**jobs, "flow": started.id}


def _call(how: str) -> dict[str, Any]:
    cards = [{"number": NUMBER, "holder": "Grace"}]
    customer = {"email": MAIL, "name": "Ada"}
    return {"token": TOKEN, "hint": HINT, "customer": customer, "cards": cards, "how": how}


def _headers() -> dict[str, str]:
    return {"x-api-key": HEADER, "tenant": "acme"}


async def _enqueued(app: App, how: str, **options: Any) -> str:
    unique = UniqueBy(args=("token", "hint", "how"))
    task = app.task_named("pay").using(headers=_headers(), unique=unique, tags=[TOKEN], **options)
    return (await task.enqueue_json(json.dumps(_call(how)))).id


async def _unknown(app: App) -> dict[str, str]:
    """Jobs of a task that no worker has published."""
    job = new_job("ghost", queue="ghosts", args=json.dumps({"note": NOTE, "to": [MAIL]}))
    await app.store.jobs.insert([job])
    return {"unknown": job.id}


async def _acted(app: App, jobs: dict[str, str]) -> None:
    by, reason = "ann@desk", f"see {URL}"
    client = app.client
    await client.edit(jobs["waits"], args={"token": TOKEN, "hint": HINT}, by=by)
    said = {"token": TOKEN, "mail": MAIL}
    await client.signals.send(jobs["waits"], "paid", said, by=by)
    await client.queues.tune("mail", throttle_base=5.0, by=by)
    begun = await client.operations.begin(
        Verb.REQUEUE, args={"token": TOKEN}, state="failed", canary=1, reason=reason, by=by
    )
    await client.operations.follow(begun.id)
    jobs["operation"] = begun.id
    while await app.store.telemetry.fold(1_000):
        pass
    jobs["failure"] = (await app.store.failures.find())[0].fingerprint


SHOWN: dict[str, tuple[str, ...]] = {
    "jobs list": ("--where", "task:pay"),
    "jobs explain": ("{waits}",),
    "jobs life": ("{fails}",),
    "jobs retry": ("{fails}", "{waits}"),
    "jobs cancel": ("--all", "--queue", "ghosts", "--dry-run"),
    "jobs resume": ("{waits}",),
    "jobs steps": ("{succeeds}",),
    "jobs signal": ("{waits}", "note", json.dumps({"token": TOKEN})),
    "jobs signals": ("{waits}",),
    "jobs stream": ("{succeeds}", "said"),
    "waits list": (),
    "waits answer": (TOKEN, "yes", "--note", NOTE),
    "jobs run-now": ("--all", "--state", "scheduled", "--dry-run"),
    "jobs delete": ("--all", "--state", "cancelled", "--dry-run"),
    "jobs move": ("{waits}", "--to", "mail"),
    "jobs reprioritise": ("{waits}", "--to", "3"),
    "jobs reschedule": ("{waits}", "--delay", "2h"),
    "jobs edit": ("{waits}", "--arg", f"token={TOKEN}"),
    "enqueue": ("ghost", "--arg", f"note={NOTE}", "--unique", NOTE),
    "top": ("--once",),
    "queues list": (),
    "queues pause": ("mail",),
    "queues resume": ("mail",),
    "queues tune": ("mail", "--throttle-base", "7s"),
    "tasks paused": (),
    "tasks pause": ("ghost",),
    "tasks resume": ("ghost",),
    "schedules list": (),
    "schedules show": ("nightly",),
    "schedules preview": ("nightly",),
    "schedules history": ("nightly",),
    "schedules create": (
        *("new", "--task", "pay", "--every", "1h", "--args", json.dumps({"token": TOKEN})),
    ),
    "schedules edit": ("nightly", "--every", "2h"),
    "schedules trigger": ("nightly",),
    "schedules pause": ("nightly",),
    "schedules resume": ("nightly",),
    "schedules backfill": ("nightly", "--from", "2d", "--dry-run"),
    "schedules delete": ("new", "--yes"),
    "limits list": (),
    "limits show": ("github",),
    "limits set": ("github", "--most", "5"),
    "limits weigh": ("acme", "3"),
    "limits top-up": ("tokens", "5"),
    "limits reset": ("tokens",),
    "limits drain": ("github", "--for", "30s"),
    "limits retire": ("github",),
    "workers list": (),
    "workers show": ("{waits}",),
    "workers drain": ("{waits}",),
    "flows list": (),
    "flows show": ("{flow}",),
    "flows graph": ("{flow}",),
    "flows explain": ("{flow}",),
    "flows pause": ("{flow}",),
    "flows resume": ("{flow}",),
    "flows cancel": ("{flow}",),
    "flows retry": ("{flow}", "--dry-run"),
    "operations list": (),
    "operations show": ("{operation}",),
    "operations go-on": ("{operation}",),
    "operations stop": ("{operation}",),
    "operations undo": ("{operation}", "--reason", URL),
    "failures list": ("--muted",),
    "failures show": ("{failure}",),
    "failures redrive": ("{failure}", "--dry-run"),
    "failures mute": ("{failure}", "--for", "1h"),
    "failures unmute": ("{failure}",),
    "failures note": ("{failure}", URL),
    "audit list": (),
    "keys status": (),
    "migrate": (),
    "doctor": (),
    "health": (),
    "metrics": (),
    "stats": (),
}
"""How each command is called. One that is not named here fails, so a new one is looked at too."""
NOT_ASKED = {
    "worker": "its log is looked at",
    "demo": "has a store of its own",
    "keys generate": "shows a key, once",
}


def commands() -> list[str]:
    def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(command, click.Group):
            yield " ".join(path)
            return
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, (*path, name))

    context = click.Context(program)
    return list(walk(program, ()))


def hits(text: str) -> list[str]:
    """The lines in which a canary sings."""
    return [line for line in text.splitlines() if any(one in line for one in CANARIES)]


def asked(place: Place, command: str, *more: str) -> str:
    words = [place.jobs.get(word.strip("{}"), word) for word in SHOWN[command]]
    return place.run(*command.split(), *words, *more)


def test_every_command_is_asked() -> None:
    assert set(commands()) == {*SHOWN, *NOT_ASKED, "jobs show"}


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["for people", "as JSON"])
def test_no_command_shows_a_canary(place: Place, more: tuple[str, ...]) -> None:
    for state in ("fails", "is cancelled", "succeeds", "waits", "unknown"):
        told = place.run("jobs", "show", place.jobs[state], *more)
        assert state == "unknown" or "Ada" in told, told
        assert hits(told) == []
    assert "charge succeeds" in asked(place, "jobs steps", *more)
    assert "paid" in asked(place, "jobs signals", *more)
    for command in SHOWN:
        assert hits(asked(place, command, *more)) == [], command


async def test_no_log_and_no_span_has_a_canary(place: Place) -> None:
    assert place.text_log.count("job.attempt_failed") >= 2
    assert "Traceback" in place.text_log
    assert "cannot pay: ***" in place.text_log
    assert [json.loads(line) for line in place.json_log.splitlines()]
    assert "exception.stacktrace" in place.spans
    for told in (place.text_log, place.json_log, place.spans):
        assert hits(told) == []


async def test_no_row_of_the_audit_and_no_document_of_the_shelf_has_a_canary(place: Place) -> None:
    async with opened(place.url) as store:
        acts = (await store.audit.page(AuditFilter(), 100)).entries
        documents = await store.shelf.find("task", 100)
    assert {act.verb for act in acts} >= {"jobs.edit", "queues.tune", "jobs.requeue"}
    assert [document.key for document in documents] == ["pay"]
    assert hits(str([*acts, *documents])) == []


def test_only_a_reveal_shows_them_and_the_audit_has_its_reason(place: Place) -> None:
    words = ("jobs", "show", place.jobs["fails"], "--reveal", "--reason", "a customer asks")
    told = place.run(*words, "--json")
    job = json.loads(told)
    assert (job["args"]["token"], job["headers"]["x-api-key"]) == (TOKEN, HEADER)
    assert MAIL in job["errors"][0]["message"]
    audit = place.run("audit", "list", "--verb", "jobs.reveal", "--json")
    [act] = json.loads(audit)["acts"]
    assert (act["target"], act["outcome"]) == (place.jobs["fails"], "done")
    assert act["arguments"] == {"reason": "a customer asks"}
    assert hits(place.run(*words[:-2])) == []  # without a reason: refused


def _said(operation: Operation) -> str:
    """What an operation shows. Its filter is shown by its paths alone."""
    return f"{operation.request.reason} {operation.progress.errors}"


async def test_the_life_of_a_job_and_the_samples_of_failures_are_shown_without_them(
    place: Place,
) -> None:
    async with opened(place.url) as store:
        client = Client(store)
        life = await client.life(place.jobs["fails"])
        found = await store.failures.find()
        shown = [await client.shown.life(life), *await client.shown.failures(found)]
        assert hits(str(shown)) == []
        assert "cannot pay: ***" in str(shown)
        overview = await client.shown.overview(await OverviewReader(store).read())
        assert overview.failures
        assert overview.operations
        assert hits(str([*overview.failures, *[_said(one) for one in overview.operations]])) == []
        assert hits(str([life, *found])) != [], "they are stored as they came"
        await client.aclose()
