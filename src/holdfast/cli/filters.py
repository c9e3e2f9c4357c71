"""Options that several commands share: which jobs are meant, and times as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from holdfast.cli.output import parse_duration, parse_moment
from holdfast.cli.target import UsageProblem
from holdfast.client.selection import FilterWords
from holdfast.job.state import JobState


@dataclass(frozen=True, slots=True)
class JobFilters:
    """The options that say which jobs are meant: a group, for `list` and for every bulk verb."""

    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Only this queue (repeatable).")
    ] = None
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            "-s",
            help="Only this state (repeatable).",
            autocompletion=lambda: list(JobState),
        ),
    ] = None
    task: Annotated[
        list[str] | None, typer.Option("--task", "-t", help="Only this task (repeatable).")
    ] = None
    tag: Annotated[str | None, typer.Option("--tag", help="Only jobs with this tag.")] = None
    since: Annotated[
        str | None,
        typer.Option("--since", help="Created after: '2h' (ago) or an ISO time.", metavar="WHEN"),
    ] = None
    until: Annotated[
        str | None,
        typer.Option("--until", help="Created before: '2h' (ago) or an ISO time.", metavar="WHEN"),
    ] = None
    error: Annotated[
        str | None, typer.Option("--error", help="Only jobs with this text in an error.")
    ] = None

    @property
    def words(self) -> FilterWords:
        """The same as words of the client's filter; an option that was not given is no word."""
        words: FilterWords = {}
        if self.queue:
            words["queues"] = self.queue
        if self.state:
            words["states"] = self.state
        if self.task:
            words["tasks"] = self.task
        if self.tag:
            words["tag"] = self.tag
        if self.error:
            words["error_text"] = self.error
        if self.since:
            words["created_after"] = moment("--since", self.since)
        if self.until:
            words["created_before"] = moment("--until", self.until)
        return words


def moment(option: str, text: str | None) -> datetime | None:
    """A moment as an ISO time, or as how long ago it was."""
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
    """A moment in the future, as an ISO time. `2h` is refused, because elsewhere it means two
    hours ago."""
    if text is not None and parse_duration(text) is not None:
        raise UsageProblem(f"{option} must be a time such as 2026-03-01T12:00; got {text!r}")
    return moment(option, text)


def wait(option: str, text: str | None) -> float | None:
    """How many seconds to wait, from `90`, `15m` or `2h`."""
    if text is None:
        return None
    found = parse_duration(text)
    if found is None:
        raise UsageProblem(f"{option} must be seconds or such as 90s, 15m, 2h, 3d; got {text!r}")
    return found
