"""Filters of jobs as command-line options, and moments and waits as people write them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from holdfast.cli.output import parse_duration, parse_moment
from holdfast.cli.target import UsageProblem
from holdfast.job.state import JobState

QueueFilter = Annotated[
    list[str] | None, typer.Option("--queue", "-q", help="Only this queue (repeatable).")
]
StateFilter = Annotated[
    list[str] | None,
    typer.Option(
        "--state", "-s", help="Only this state (repeatable).", autocompletion=lambda: list(JobState)
    ),
]
TaskFilter = Annotated[
    list[str] | None, typer.Option("--task", "-t", help="Only this task (repeatable).")
]
TagFilter = Annotated[str | None, typer.Option("--tag", help="Only jobs with this tag.")]
SinceFilter = Annotated[
    str | None,
    typer.Option("--since", help="Created after: '2h' (ago) or an ISO time.", metavar="WHEN"),
]
UntilFilter = Annotated[
    str | None,
    typer.Option("--until", help="Created before: '2h' (ago) or an ISO time.", metavar="WHEN"),
]
ErrorFilter = Annotated[
    str | None, typer.Option("--error", help="Only jobs with this text in an error.")
]


def filter_words(
    queue: list[str] | None,
    state: list[str] | None,
    task: list[str] | None,
    tag: str | None,
    since: str | None,
    until: str | None,
    error: str | None,
) -> dict[str, Any]:
    """The words that `Client.page`, `count` and the bulk verbs take; nothing given, no word."""
    words = {
        "queues": queue,
        "states": state,
        "tasks": task,
        "tag": tag,
        "created_after": moment("--since", since),
        "created_before": moment("--until", until),
        "error_text": error,
    }
    return {word: value for word, value in words.items() if value}


def moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    found = parse_moment(text)
    if found is None:
        raise UsageProblem(
            f"{option} must be a time such as 2026-03-01T12:00 or how long ago, such as 90s, "
            f"15m, 2h, 3d; got {text!r}"
        )
    return found


def due_time(option: str, text: str | None) -> datetime | None:
    """A moment to come: here `2h` would mean two hours ago, so only an ISO time will do."""
    if text is not None and parse_duration(text) is not None:
        raise UsageProblem(f"{option} must be a time such as 2026-03-01T12:00; got {text!r}")
    return moment(option, text)


def wait(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    found = parse_duration(text)
    if found is None:
        raise UsageProblem(f"{option} must be seconds or such as 90s, 15m, 2h, 3d; got {text!r}")
    return found
