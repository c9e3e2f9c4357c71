"""Spans and measurements of OpenTelemetry, as the SDK's exporters in memory get them."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import App, BadArguments, BadOption, Cancel, Context, Fail, Retry, Snooze, Suspend
from holdfast.contrib.otel import instrument
from holdfast.logs import JobFields
from holdfast.testing import Harness
from tests.support import traced
from tests.support.shell import Shell
from tests.support.traced import hexed

ONCE = Retry.never()
ELSEWHERE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""A context that a caller may have from another system, as a header."""


class Seen:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    def spans(self, name: str) -> list[ReadableSpan]:
        """The spans of this operation, in the order of their ends."""
        found = self._exporter.get_finished_spans()
        return [span for span in found if span.name.split()[0] == name]

    def span(self, name: str) -> ReadableSpan:
        [found] = self.spans(name)
        return found

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def seen() -> Iterator[Seen]:
    one = Seen()
    yield one
    one.meters.shutdown()


@pytest.fixture
def app() -> App:
    return App("sqlite://")


def traced_app(app: App, seen: Seen, **options: Any) -> App:
    instrument(app, tracer_provider=seen.tracers, meter_provider=seen.meters, **options)
    return app


async def drain(app: App, queue: str = "default") -> None:
    async with app.worker({queue: 4}) as worker:
        await worker.drain()


def own(span: ReadableSpan) -> str:
    assert span.context is not None
    return hexed(span.context)


def linked(span: ReadableSpan) -> list[str]:
    return [hexed(link.context) for link in span.links]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# Both sides ---------------------------------------------------------------------------------


async def test_an_attempt_links_to_the_enqueue_of_another_process(
    tmp_path: Path, seen: Seen
) -> None:
    app = traced_app(App(f"sqlite:///{tmp_path / 'jobs.db'}"), seen)

    @app.task(name="work")
    async def work() -> None: ...

    program = [sys.executable, "-m", "tests.support.telling_producer", app.settings.url]
    async with app:
        enqueued = await asyncio.to_thread(subprocess.check_output, program, text=True)
        await drain(app)
    span = seen.span("process")
    assert linked(span) == [enqueued.strip()]
    assert span.parent is None, "an attempt has a trace of its own"
    assert span.context is not None
    assert span.context.trace_id != span.links[0].context.trace_id


async def test_names_and_attributes_are_those_of_the_conventions(app: App, seen: Seen) -> None:
    traced_app(app, seen)

    @app.task(name="send", queue="mail")
    async def send(ctx: Context) -> int:
        return ctx.fence

    async with app:
        job = await send.enqueue()
        await drain(app, "mail")
        fence = await job.result()
    produced, consumed = seen.span("enqueue"), seen.span("process")
    shared = {
        "messaging.system": "holdfast",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "holdfast.task": "send",
    }
    assert (produced.name, produced.kind) == ("enqueue mail", SpanKind.PRODUCER)
    assert attributes(produced) == shared | {
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "holdfast.how": "created",
    }
    assert (consumed.name, consumed.kind) == ("process mail", SpanKind.CONSUMER)
    assert attributes(consumed) == shared | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "holdfast.attempt": 1,
        "holdfast.fence": fence,
        "holdfast.end": "returned",
    }
    assert {produced.status.status_code, consumed.status.status_code} == {StatusCode.UNSET}
    scope = produced.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == ("holdfast", "https://opentelemetry.io/schemas/1.44.0")


async def test_an_attempt_is_a_child_of_its_enqueue_if_that_is_wanted(app: App, seen: Seen) -> None:
    traced_app(app, seen, trace_parent=True)

    @app.task()
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        await drain(app)
    enqueued, attempt = own(seen.span("enqueue")), seen.span("process")
    assert attempt.parent is not None
    assert hexed(attempt.parent) == enqueued
    assert linked(attempt) == [enqueued]


# Enqueues -----------------------------------------------------------------------------------


async def test_every_way_in_has_a_span_that_its_jobs_carry(tmp_path: Path, seen: Seen) -> None:
    app = traced_app(App(f"sqlite:///{tmp_path / 'jobs.db'}"), seen)

    @app.task(name="work")
    async def work(ctx: Context) -> str:
        return str(ctx.job.headers["traceparent"])

    async with app:
        jobs = [
            [await work.enqueue()],
            await work.enqueue_many([(), ()]),
            [await work.enqueue_json("{}")],
            [await asyncio.to_thread(work.enqueue_sync)],
            await asyncio.to_thread(work.enqueue_many_sync, [(), ()]),
        ]
    with sqlite3.connect(tmp_path / "jobs.db") as connection, app.within(connection):
        jobs.append([work.enqueue_sync()])
    connection.close()
    async with app:
        await drain(app)
        spans = seen.spans("enqueue")
        for some, span in zip(jobs, spans, strict=True):
            assert {(await job.result())[3:-3] for job in some} == {own(span)}
    counts = [attributes(span).get("messaging.batch.message_count") for span in spans]
    assert counts == [None, 2, None, None, 2, None]
    links = [linked(span) for span in seen.spans("process")]
    pairs = zip(spans, jobs, strict=True)
    assert sorted(links) == sorted([own(span)] for span, some in pairs for _ in some)


async def test_an_enqueue_is_a_child_of_the_callers_span_and_carries_its_baggage(
    app: App, seen: Seen
) -> None:
    traced_app(app, seen)
    work = app.task(name="work")(traced.seen_on_the_loop)
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    async with app:
        with seen.tracers.get_tracer("caller").start_as_current_span("request") as request:
            job = await work.enqueue()
        context.detach(token)
        await drain(app)
        result = await job.result()
    span = seen.span("enqueue")
    assert span.parent is not None
    assert hexed(span.parent) == hexed(request.get_span_context())
    assert result["tenant"] == "acme"


async def test_a_context_that_the_caller_gave_is_kept(app: App, seen: Seen) -> None:
    traced_app(app, seen)

    @app.task()
    async def work(ctx: Context) -> dict[str, Any]:
        return dict(ctx.job.headers)

    given = work.using(headers={"traceparent": ELSEWHERE})
    async with app:
        jobs = [await given.enqueue(), *await given.enqueue_many([()])]
        await drain(app)
        assert [await job.result() for job in jobs] == [{"traceparent": ELSEWHERE}] * 2
    for span in seen.spans("enqueue"):
        assert span.kind is SpanKind.CLIENT, "its context is not that of the job"
        assert linked(span) == [ELSEWHERE[3:-3]]
    assert [linked(span) for span in seen.spans("process")] == [[ELSEWHERE[3:-3]]] * 2


async def test_each_of_many_jobs_has_a_span_if_that_is_wanted(app: App, seen: Seen) -> None:
    traced_app(app, seen, create_spans=True)

    @app.task()
    async def work() -> None: ...

    async with app:
        jobs = await work.enqueue_many([(), ()])
        await drain(app)
    enqueued, created = seen.span("enqueue"), seen.spans("create")
    assert [attributes(span)["messaging.message.id"] for span in created] == [
        job.id for job in jobs
    ]
    assert {span.kind for span in created} == {SpanKind.PRODUCER}
    assert enqueued.kind is SpanKind.CLIENT
    assert linked(enqueued) == [own(span) for span in created]
    by_job = {attributes(span)["messaging.message.id"]: span for span in seen.spans("process")}
    assert [linked(by_job[job.id]) for job in jobs] == [[own(span)] for span in created]


async def test_an_enqueue_that_found_a_job_names_that_one(app: App, seen: Seen) -> None:
    traced_app(app, seen)

    @app.task()
    async def work() -> None: ...

    async with app:
        first = await work.using(unique="one").enqueue()
        await work.using(unique="one").enqueue()
    told = [attributes(span) for span in seen.spans("enqueue")]
    assert [(one["messaging.message.id"], one["holdfast.how"]) for one in told] == [
        (first.id, "created"),
        (first.id, "existing"),
    ]


async def test_an_enqueue_that_fails_says_so_and_counts_nothing_as_sent(
    app: App, seen: Seen
) -> None:
    traced_app(app, seen)

    @app.task()
    async def work(number: int) -> None: ...

    async with app:
        with pytest.raises(BadArguments):
            await work.enqueue_many([(1,), ("no number",)])
    span = seen.span("enqueue")
    assert attributes(span)["error.type"] == "BadArguments"
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]
    assert seen.points("messaging.client.sent.messages") == []
    [took] = seen.points("messaging.client.operation.duration")
    assert took.attributes["error.type"] == "BadArguments"


async def test_a_long_baggage_is_left_out_and_fails_no_enqueue(app: App, seen: Seen) -> None:
    traced_app(app, seen)

    @app.task()
    async def work(ctx: Context) -> list[str]:
        return sorted(ctx.job.headers)

    token = context.attach(baggage.set_baggage("much", "x" * 4000))
    longer = work.using(headers={"own": "y" * 4180})
    async with app:
        jobs = [await work.enqueue(), await longer.enqueue()]
        context.detach(token)
        await drain(app)
        assert [await job.result() for job in jobs] == [
            ["baggage", "traceparent"],
            ["own", "traceparent"],
        ]


async def test_a_job_that_a_schedule_starts_has_a_trace_without_a_link(
    app: App, seen: Seen
) -> None:
    traced_app(app, seen)

    @app.schedule("* * * * *", name="nightly")
    @app.task()
    async def work() -> None: ...

    async with Harness(app) as harness:
        await harness.advance(minutes=1)
        await harness.drain()
    span = seen.span("process")
    assert (span.parent, list(span.links)) == (None, [])
    assert attributes(span)["holdfast.schedule"] == "nightly"
    assert seen.spans("enqueue") == []


async def test_a_job_that_runs_where_it_is_enqueued_has_both_spans(app: App, seen: Seen) -> None:
    traced_app(app, seen)
    work = app.task(name="work")(traced.seen)
    with app.eager():
        job = await work.enqueue()
        told = await job.result()
        await asyncio.to_thread(work.enqueue_sync)
    enqueued, attempts = seen.spans("enqueue"), seen.spans("process")
    assert [linked(span) for span in attempts] == [[own(span)] for span in enqueued]
    assert told["current"] == own(attempts[0])


# Attempts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["loop", "thread", "process"])
async def test_the_span_is_current_wherever_the_handler_runs(
    app: App, seen: Seen, mode: str
) -> None:
    traced_app(app, seen)
    function: Any = traced.seen_on_the_loop if mode == "loop" else traced.seen
    work = app.task(name="work", process=mode == "process")(function)
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    async with app:
        job = await work.enqueue()
        context.detach(token)
        await drain(app)
        told = await job.result()
    here = own(seen.span("process"))
    assert told == {"current": here, "parent": here, "tenant": "acme"}
    assert not trace.get_current_span().get_span_context().is_valid


async def test_an_attempt_has_nothing_of_the_context_in_which_its_worker_was_started(
    app: App, seen: Seen
) -> None:
    traced_app(app, seen)

    @app.task()
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        with seen.tracers.get_tracer("caller").start_as_current_span("start the worker"):
            await drain(app)
    assert seen.span("process").parent is None


@pytest.mark.parametrize("mode", ["thread", "process"])
async def test_a_failure_is_told_with_its_exception(app: App, seen: Seen, mode: str) -> None:
    traced_app(app, seen)
    work = app.task(name="work", retry=ONCE, process=mode == "process")(traced.raising)
    async with app:
        await work.enqueue()
        await drain(app)
    span = seen.span("process")
    assert attributes(span)["error.type"] == "LookupError"
    assert attributes(span)["holdfast.end"] == "raised"
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "LookupError: no such order"
    [event] = span.events
    told = dict(event.attributes or {})
    assert event.name == "exception"
    assert (told["exception.type"], told["exception.message"]) == ("LookupError", "no such order")
    assert "in raising" in str(told["exception.stacktrace"])


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def test_an_exception_without_words_is_told_and_not_replaced(app: App, seen: Seen) -> None:
    traced_app(app, seen)

    @app.task(retry=ONCE)
    async def work() -> None:
        raise Unspeakable

    async with app:
        job = await work.enqueue()
        await drain(app)
        assert [entry.kind for entry in (await job.get()).errors] == ["Unspeakable"]
    [event] = seen.span("process").events
    told = dict(event.attributes or {})
    assert told["exception.type"] == f"{__name__}.Unspeakable"


async def test_no_password_and_nothing_that_no_exporter_can_encode_is_in_a_span(
    app: App, seen: Seen
) -> None:
    traced_app(app, seen)

    @app.task(retry=ONCE)
    async def work() -> None:
        raise ConnectionError("cannot reach postgres://ann:s3cr3t@db/jobs \ud800")

    async with app:
        await work.enqueue()
        await drain(app)
    span = seen.span("process")
    assert span.status.description == "ConnectionError: cannot reach postgres://ann:***@db/jobs ?"
    told = str([event.attributes for event in span.events])
    assert "postgres://ann:***@db/jobs" in told
    assert "ann:s3cr3t@" not in told


async def test_every_attempt_of_a_job_has_a_span_that_links_to_its_enqueue(
    app: App, seen: Seen
) -> None:
    traced_app(app, seen)

    @app.task(retry=Retry.constant(3, base=0.01))
    async def work(ctx: Context) -> None:
        if ctx.attempt < 3:
            raise ConnectionError("not yet")

    async with Harness(app) as harness:
        job = await work.enqueue()
        for _ in range(3):
            await harness.advance(seconds=1)
            await harness.drain(raises=False)
        await job.result()
    spans = seen.spans("process")
    assert [attributes(span)["holdfast.attempt"] for span in spans] == [1, 2, 3]
    fences = [attributes(span)["holdfast.fence"] for span in spans]
    assert fences == sorted(set(fences))
    assert {tuple(linked(span)) for span in spans} == {(own(seen.span("enqueue")),)}
    errors = [attributes(span).get("error.type") for span in spans]
    assert errors == ["ConnectionError", "ConnectionError", None]


async def test_what_a_handler_wishes_is_no_error(app: App, seen: Seen) -> None:
    traced_app(app, seen)
    ends: dict[str, Callable[[], BaseException]] = {
        "snoozed": lambda: Snooze(60),
        "suspended": Suspend,
        "cancelled": Cancel,
        "raised": lambda: Fail("no order"),
    }

    @app.task()
    async def work(how: str) -> None:
        raise ends[how]()

    async with app:
        await work.enqueue_many([(how,) for how in ends])
        async with app.worker({"default": 1}) as worker:
            await worker.drain()
    told = [attributes(span) for span in seen.spans("process")]
    assert [one["holdfast.end"] for one in told] == list(ends)
    assert [one.get("error.type") for one in told] == [None, None, None, "Fail"]


@pytest.mark.parametrize("mode", ["loop", "thread"])
async def test_an_attempt_that_is_out_of_time_says_so(app: App, seen: Seen, mode: str) -> None:
    traced_app(app, seen)

    async def waiting() -> None:
        await asyncio.sleep(60)

    def looking(ctx: Context) -> None:
        while not ctx.cancelled:
            pass

    function: Any = waiting if mode == "loop" else looking
    work = app.task(name="work", retry=ONCE, timeout=0.05)(function)
    async with app:
        await work.enqueue()
        await drain(app)
    span = seen.span("process")
    assert attributes(span)["error.type"] == "TimedOut"
    assert attributes(span)["holdfast.end"] == "timed out"
    assert span.status.status_code is StatusCode.ERROR
    assert (span.status.description or "").startswith("TimedOut")


@pytest.mark.parametrize("why", ["cancelled", "handed back"])
async def test_an_attempt_that_was_asked_to_stop_is_no_error(
    app: App, seen: Seen, why: str
) -> None:
    traced_app(app, seen)
    begun = asyncio.Event()

    @app.task()
    async def work() -> None:
        begun.set()
        await asyncio.sleep(60)

    async with app:
        job = await work.enqueue()
        async with app.worker(grace=0.0) as worker:
            await begun.wait()
            if why == "cancelled":
                await job.cancel()
                await worker.drain()
    span = seen.span("process")
    assert attributes(span)["holdfast.end"] == why
    assert "error.type" not in attributes(span)
    assert span.status.status_code is StatusCode.UNSET


# Measurements -------------------------------------------------------------------------------


async def test_what_is_measured_has_the_names_of_the_conventions(app: App, seen: Seen) -> None:
    traced_app(app, seen)

    @app.task(name="work", retry=ONCE)
    async def work(fails: bool) -> None:
        if fails:
            raise LookupError

    async with app:
        await work.enqueue(False)
        await work.enqueue_many([(True,), (False,)])
        await drain(app)
    common = {
        "messaging.system": "holdfast",
        "messaging.destination.name": "default",
        "holdfast.task": "work",
    }
    sending = common | {"messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
    working = common | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
    }
    failing = working | {"error.type": "LookupError"}
    [sent] = seen.points("messaging.client.sent.messages")
    assert (dict(sent.attributes), sent.value) == (sending, 3)
    [took] = seen.points("messaging.client.operation.duration")
    assert (dict(took.attributes), took.count) == (sending, 2)
    consumed = seen.points("messaging.client.consumed.messages")
    assert _by_error(consumed) == [(working, 2), (failing, 1)]
    ran = seen.points("messaging.process.duration")
    assert _by_error(ran) == [(working, 2), (failing, 1)]
    assert ran[0].explicit_bounds[:3] == (0.005, 0.01, 0.025)
    lasted = sum((span.end_time or 0) - (span.start_time or 0) for span in seen.spans("process"))
    assert sum(point.sum for point in ran) == pytest.approx(lasted / 1e9)


def _by_error(points: Sequence[Any]) -> list[tuple[dict[str, Any], int]]:
    ordered = sorted(points, key=lambda point: "error.type" in point.attributes)
    return [(dict(one.attributes), getattr(one, "value", None) or one.count) for one in ordered]


# Logs ---------------------------------------------------------------------------------------

PROGRAM = """
import logging

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from holdfast import App, Context
from holdfast.contrib.otel import instrument

trace.set_tracer_provider(TracerProvider())
app = App({url!r})
instrument(app)
log = logging.getLogger("shop.mail")


def say() -> None:
    current = trace.get_current_span().get_span_context()
    log.info(f"{{current.trace_id:032x}} {{current.span_id:016x}}")


@app.task(name="loop")
async def on_the_loop(ctx: Context) -> None:
    ctx.log.info("of the context")
    say()


app.task(name="thread")(say)
app.task(name="child", process=True)(say)
"""


def test_each_line_of_a_handler_names_its_trace(shell: Shell) -> None:
    shell.app.write_text(PROGRAM.format(url=shell.url))
    app = App(shell.url)
    for task in ("loop", "thread", "child"):
        app.task_named(task).enqueue_sync()
    app.close_sync()
    code, _, err = shell.run("worker", "shop:app", "--burst", "--json-logs", "--json")
    assert code == 0, err
    lines = [json.loads(line) for line in err.splitlines()]
    said = {line["task"]: line for line in lines if line["logger"] == "shop.mail"}
    assert sorted(said) == ["child", "loop", "thread"]
    for line in said.values():
        assert line["message"] == f"{line['trace_id']} {line['span_id']}"
    assert len({line["trace_id"] for line in said.values()}) == 3
    [own] = [line for line in lines if line["logger"] == "holdfast.handler"]
    assert own["trace_id"] == said["loop"]["trace_id"]
    outside = [line for line in lines if line["logger"] == "holdfast"]
    assert outside
    assert not [line for line in outside if "trace_id" in line]


def test_a_format_of_the_programs_own_may_name_the_trace(app: App, seen: Seen) -> None:
    traced_app(app, seen)
    record = logging.makeLogRecord({"msg": "ready"})
    fields = JobFields(missing="-")
    assert fields.filter(record)
    assert logging.Formatter("%(trace_id)s %(span_id)s %(message)s").format(record) == "- - ready"


# Switching on -------------------------------------------------------------------------------


async def test_without_an_sdk_nothing_is_carried_and_everything_works(app: App) -> None:
    instrument(app)

    @app.task()
    async def work(ctx: Context) -> dict[str, Any]:
        return dict(ctx.job.headers)

    async with app:
        job = await work.enqueue()
        await drain(app)
        assert await job.result() == {}


def test_an_app_is_instrumented_once(app: App) -> None:
    instrument(app)
    with pytest.raises(BadOption, match="once for each app"):
        instrument(app)


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgres://me:secret@db.example.org:5433/jobs", ("db.example.org", 5433)),
        ("valkey://cache.example.org", ("cache.example.org", None)),
        ("sqlite:///jobs.db", (None, None)),
        ("postgres:///jobs?host=/run/postgresql", (None, None)),
        ("postgres://a:1,b:2/jobs", (None, None)),
    ],
)
async def test_spans_say_which_server_keeps_the_jobs(
    seen: Seen, url: str, where: tuple[str | None, int | None]
) -> None:
    app = traced_app(App(url), seen)

    @app.task()
    async def work() -> None: ...

    with app.using_store("sqlite://"):
        async with app:
            await work.enqueue()
    told = attributes(seen.span("enqueue"))
    assert (told.get("server.address"), told.get("server.port")) == where
    assert "secret" not in str(told)


def test_a_program_that_does_not_switch_it_on_has_nothing_of_it() -> None:
    program = """
import sys
from holdfast import App
app = App("sqlite://")
@app.task()
async def work() -> None: ...
work.enqueue_sync()
app.run_worker(burst=True)
app.close_sync()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
hooks = app.hooks
assert not hooks.around_enqueue and not hooks.surround_handlers and not hooks.on_enqueue
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_program_without_the_extra_is_told_what_to_install() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None\nimport holdfast.contrib.otel"
    ran = subprocess.run([sys.executable, "-c", program], check=False, stderr=subprocess.PIPE)
    said = ran.stderr.decode().rstrip()
    assert said.endswith("needs OpenTelemetry: pip install 'holdfast[otel]'")
