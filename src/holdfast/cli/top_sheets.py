"""The tables of `holdfast top`: queues, jobs, failures and workers as rows of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from holdfast.cli.jobs_view import job_note
from holdfast.cli.output import STATE_STYLES, ago_text, duration_text, most_text
from holdfast.cli.sheet import Cell, Column, Sheet, SheetRow
from holdfast.cli.sizes import size_text
from holdfast.cli.workers import COLOURS, cpu_text, slots_of
from holdfast.insights.overview import Overview
from holdfast.job.record import Job
from holdfast.job.redaction import redact
from holdfast.job.sealed import shown
from holdfast.job.state import JobState
from holdfast.store.contract.failures import Failure
from holdfast.store.contract.queues import QueueInfo
from holdfast.store.contract.workers import WorkerInfo

MOST_ROWS = 200
"""No table is longer: nobody reads more, and each row is drawn again and again."""
SHORT_ID = 12
"""Characters of a job's id that are shown: its end, because ids of one second begin alike."""


# Queues ------------------------------------------------------------------------------------------

QUEUES = (
    Column("queue", 14, 1),
    Column("ready", 9, right=True),
    Column("running", 7, right=True),
    Column("scheduled", 9, right=True),
    Column("failed", 7, right=True),
    Column("lag", 7, right=True),
    Column("state", 18),
)


def queue_sheet(seen: Overview, most: int = MOST_ROWS) -> Sheet:
    """Those that lag most come first."""
    ordered = sorted(seen.queues, key=lambda queue: (-(queue.oldest_ready_age or 0), queue.name))
    workforce = seen.workforce
    rows = [
        SheetRow(queue.name, _queue_cells(seen, queue, len(workforce.serving(queue.name))))
        for queue in ordered[:most]
    ]
    return Sheet(QUEUES, rows, _more(len(ordered) - most))


def _queue_cells(seen: Overview, queue: QueueInfo, serving: int) -> tuple[Cell, ...]:
    def number(state: JobState) -> Cell:
        return Cell(f"{queue.counts.get(state, 0):,}")

    failed = queue.counts.get(JobState.FAILED, 0)
    return (
        Cell(queue.name),
        number(JobState.READY),
        number(JobState.RUNNING),
        number(JobState.SCHEDULED),
        Cell(f"{failed:,}", "red" if failed else ""),
        Cell(duration_text(queue.oldest_ready_age)),
        _queue_state(seen, queue, serving),
    )


def _queue_state(seen: Overview, queue: QueueInfo, serving: int) -> Cell:
    """In words, so that nobody needs the colour."""
    if queue.paused:
        return Cell("paused", "yellow")
    if seen.paused.everything:
        return Cell("paused (all)", "yellow")
    if queue.cooling_for is not None:
        return Cell(f"cools {duration_text(queue.cooling_for)}", "yellow")
    if not serving:
        return Cell("NO WORKER", "bold red" if queue.counts.get(JobState.READY) else "dim")
    return Cell(f"{serving} worker{'s' if serving > 1 else ''}", "green")


# Jobs --------------------------------------------------------------------------------------------

JOBS = (
    Column("id", SHORT_ID),
    Column("task", 16, 2),
    Column("queue", 9, 1),
    Column("state", 9),
    Column("tries", 5, right=True),
    Column("age", 7, right=True),
    Column("note", 14, 3),
)


def job_sheet(jobs: Sequence[Job], now: datetime, note: str = "") -> Sheet:
    return Sheet(JOBS, [SheetRow(job.id, _job_cells(job, now)) for job in jobs], note)


def _job_cells(job: Job, now: datetime) -> tuple[Cell, ...]:
    return (
        Cell(job.id[-SHORT_ID:]),
        Cell(job.task),
        Cell(job.queue),
        Cell(job.state, STATE_STYLES.get(job.state, "dim")),
        Cell(f"{job.attempts}/{most_text(job)}"),
        Cell(_age(job.created_at, now)),
        Cell(redact(job_note(job))),
    )


RUNNING = (
    Column("id", SHORT_ID),
    Column("task", 16, 2),
    Column("queue", 10, 1),
    Column("worker", 12, 1),
    Column("tries", 5, right=True),
    Column("runs", 7, right=True),
    Column("progress", 12, 3),
)


def running_sheet(
    jobs: Sequence[Job], now: datetime, names: Callable[[str], str], note: str = ""
) -> Sheet:
    """Jobs that run. `names` gives the name of a worker by its id."""
    rows = [
        SheetRow(
            job.id,
            (
                Cell(job.id[-SHORT_ID:]),
                Cell(job.task),
                Cell(job.queue),
                Cell(names(job.worker_id or "")),
                Cell(f"{job.attempts + 1}/{most_text(job)}"),
                Cell(_age(job.claimed_at, now)),
                Cell(redact(job_note(job))),
            ),
        )
        for job in jobs
    ]
    return Sheet(RUNNING, rows, note)


# Failures ----------------------------------------------------------------------------------------

FAILURES = (
    Column("errors", 7, right=True),
    Column("dead", 6, right=True),
    Column("last", 7, right=True),
    Column("task", 16, 1),
    Column("kind", 14, 1),
    Column("message", 22, 4),
)


def failure_sheet(failures: Sequence[Failure], now: datetime, note: str = "") -> Sheet:
    rows = [
        SheetRow(
            one.fingerprint,
            (
                Cell(f"{one.count:,}"),
                Cell(f"{one.dead:,}", "red" if one.dead else ""),
                Cell(_age(one.last_at, now)),
                Cell(one.task),
                Cell(one.kind),
                Cell(redact(shown(one.sample.message))),
            ),
        )
        for one in failures
    ]
    return Sheet(FAILURES, rows, note)


# Workers -----------------------------------------------------------------------------------------

WORKERS = (
    Column("worker", 13, 2),
    Column("state", 8),
    Column("slots", 8, right=True),
    Column("held", 5, right=True),
    Column("cpu", 5, right=True),
    Column("memory", 6, right=True),
    Column("loop", 6, right=True),
    Column("claimed", 7, right=True),
    Column("beat", 6, right=True),
    Column("release", 6, 1),
)


def worker_sheet(seen: Overview) -> Sheet:
    """Oldest first, as they are listed everywhere."""
    rows = [SheetRow(one.id, _worker_cells(one)) for one in seen.workers[:MOST_ROWS]]
    return Sheet(WORKERS, rows, _more(len(seen.workers) - MOST_ROWS))


def _worker_cells(worker: WorkerInfo) -> tuple[Cell, ...]:
    facts, slots = worker.facts, slots_of(worker).values()
    used = sum(one.used for one in slots)
    total = used + sum(one.free + one.stuck for one in slots)
    stuck = sum(one.stuck for one in slots)
    claimed = facts.counts.get("claimed")
    return (
        Cell(worker.name),
        Cell(worker.standing, COLOURS[worker.standing]),
        Cell(f"{used}/{total}" + (f" -{stuck}" if stuck else "")),
        Cell(f"{worker.running:,}"),
        Cell(cpu_text(facts.cpu)),
        Cell(size_text(facts.memory)),
        Cell(duration_text(facts.loop_lag)),
        Cell("–" if claimed is None else f"{claimed:,}"),
        Cell(duration_text(worker.heartbeat_age)),
        Cell(worker.version),
    )


def names_of(workers: Iterable[WorkerInfo]) -> Mapping[str, str]:
    return {worker.id: worker.name for worker in workers}


def _age(moment: datetime | None, now: datetime) -> str:
    return ago_text(moment, now).removesuffix(" ago")


def _more(hidden: int) -> str:
    return f"and {hidden:,} more" if hidden > 0 else ""
