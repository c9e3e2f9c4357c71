"""One job, drawn for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import (
    ago_text,
    duration_text,
    make_text,
    most_text,
    state_text,
    time_text,
)
from holdfast.flow.model import FlowInfo
from holdfast.job.policy import decode_policy, readable_part
from holdfast.job.record import ErrorEntry, Job
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from rich.console import RenderableType

NOTE_WIDTH = 100


def job_note(job: Job) -> str:
    """The last column of a list: what the job waits for, how far it has come, or why it ended."""
    note = job.reason or ""
    match job.state:
        case JobState.SCHEDULED | JobState.SUSPENDED if job.due_at is not None:
            note = f"due {ago_text(job.due_at)}" + (f", {note}" if note else "")
        case JobState.RUNNING if job.progress is not None:
            note = progress_text(job)
        case JobState.RUNNING if job.cancel_requested_at is not None:
            note = "told to cancel"
    line = " ".join(note.split())
    return line if len(line) <= NOTE_WIDTH else line[: NOTE_WIDTH - 1] + "…"


def progress_text(job: Job) -> str:
    if job.progress is None:
        return ""
    share = "" if job.progress.fraction is None else f"{job.progress.fraction:.0%}"
    return " ".join(part for part in (share, job.progress.message) if part)


def draw_job(
    job: Job, called: Sequence[FlowInfo] = (), streams: Sequence[tuple[str, str]] = ()
) -> Iterator[RenderableType]:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("state", state_text(job.state))
    for name, value in _facts(job):
        if value and value != "–":
            grid.add_row(name, value)
    for flow in called:
        grid.add_row("called", f"{flow.name}: flow {flow.id} is {flow.state}")
    for name, kept in streams:
        grid.add_row("stream", f"{name}: {kept}")
    yield grid
    yield make_text(f"what happened to it: holdfast jobs life {job.id}", "dim")
    if job.errors:
        yield ""
        yield make_text(f"errors ({len(job.errors)} kept, newest last)", "bold")
        for error in job.errors:
            yield from draw_error(error)


def _facts(job: Job) -> list[tuple[str, str]]:
    return [
        ("id", job.id),
        ("task", job.task),
        ("queue", job.queue),
        ("reason", job.reason or ""),
        ("priority", str(job.priority)),
        ("attempts", _attempts(job)),
        ("arguments", job.args_json),
        ("result", job.result_json or ""),
        ("created", time_text(job.created_at)),
        ("due", time_text(job.due_at)),
        ("started", time_text(job.claimed_at)),
        ("finished", time_text(job.finished_at)),
        (_deadline_word(job), time_text(job.deadline_at)),
        ("cancel requested", time_text(job.cancel_requested_at)),
        ("kept", _kept(job)),
        ("worker", job.worker_id or ""),
        ("fence", str(job.fence)),
        ("progress", progress_text(job)),
        ("checkpoint", (job.progress.checkpoint_json or "") if job.progress else ""),
        ("tags", ", ".join(job.tags)),
        ("unique key", job.unique_key or ""),
        ("headers", job.headers_json or ""),
        ("policy", _policy(job)),
    ]


def _deadline_word(job: Job) -> str:
    return "must start by" if readable_part(job.policy).start_only else "deadline"


def _kept(job: Job) -> str:
    if not job.ended:
        return ""
    return f"until {time_text(job.expires_at)}" if job.expires_at else "for ever"


def _attempts(job: Job) -> str:
    crashes = f", {job.crashes} of them crashes" if job.crashes else ""
    return f"{job.attempts} of {most_text(job)} spent{crashes}"


def _policy(job: Job) -> str:
    if job.unreadable is not None:
        return str(job.unreadable)
    policy = decode_policy(job.policy)
    retry, kept = policy.retry, policy.retention
    limit = "no attempt timeout" if policy.timeout is None else f"{policy.timeout:g} s an attempt"
    return (
        f"{retry.curve} backoff from {duration_text(retry.base)}; {limit}; "
        f"at most {policy.max_crashes} crashes; kept {duration_text(kept.succeeded)} if succeeded, "
        f"{duration_text(kept.failed)} if failed"
    )


def draw_error(error: ErrorEntry) -> Iterator[RenderableType]:
    from rich.padding import Padding

    when = time_text(error.at)
    name = "" if error.fingerprint is None else f"  fingerprint {error.fingerprint}"
    yield make_text(f"attempt {error.attempt}  {when}{name}", "dim")
    yield Padding(make_text(f"{error.kind}: {error.message}", "red"), (0, 0, 0, 2))
    if error.traceback:
        yield Padding(make_text(error.traceback.rstrip(), "dim"), (0, 0, 0, 2))
