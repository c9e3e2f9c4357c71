"""The six views of `holdfast top`: what each shows, from what was read last. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

import msgspec
from rich.text import Text

from holdfast.cli.output import time_text
from holdfast.cli.sheet import Sheet, one_line
from holdfast.cli.top_reading import MovePace, Wanted
from holdfast.cli.top_sheets import (
    failure_sheet,
    job_sheet,
    names_of,
    queue_sheet,
    running_sheet,
    worker_sheet,
)
from holdfast.cli.top_text import overview_lines, pace_lines, status_line, times_line
from holdfast.insights.overview import Overview
from holdfast.store.contract.failures import Failure
from holdfast.store.contract.records import Page


class TopView(StrEnum):
    """In the order of the keys 1 to 6."""

    OVERVIEW = "overview"
    QUEUES = "queues"
    JOBS = "jobs"
    FAILURES = "failures"
    WORKERS = "workers"
    LIVE = "live"


VIEWS = tuple(TopView)
KEYS: dict[TopView, str] = {
    TopView.OVERVIEW: "",
    TopView.QUEUES: "p pause/resume  Enter its jobs  ",
    TopView.JOBS: "Enter open  r retry  c cancel  n b pages  ",
    TopView.FAILURES: "Enter open a job of it  r run all again  ",
    TopView.WORKERS: "d drain  Enter open  ",
    TopView.LIVE: "Enter open  c cancel  ",
}
KEYS_EVERYWHERE = "1-6 views  / filter  ? keys  q quit"


class Picture(msgspec.Struct):
    """What was read, and which view of it is open."""

    view: TopView = TopView.OVERVIEW
    wanted: Wanted = msgspec.field(default_factory=Wanted)
    pace: MovePace = msgspec.field(default_factory=MovePace)
    seen: Overview | None = None
    page: Page | None = None
    failures: list[Failure] = msgspec.field(default_factory=list)
    is_held: bool = False

    def turn_to(self, view: TopView) -> None:
        self.view, self.page = view, None

    def tabs(self) -> Text:
        """The views by their numbers, the open one in brackets, and whether all is well."""
        line = Text(no_wrap=True)
        for number, view in enumerate(VIEWS, start=1):
            if view is self.view:
                line.append(f"[{number} {view}]", "bold reverse")
            else:
                line.append(f" {number} {view} ")
        if self.seen is not None:
            alarms = len(self.seen.alarms)
            line.append(f" {self.seen.kind}", "dim")
            line.append(f" ✗ {alarms}" if alarms else " ✓", "red" if alarms else "green")
        return line.append(" held" if self.is_held else "", "yellow")

    def contents(self, seen: Overview, room: int, height: int) -> tuple[list[Text], Sheet | None]:
        """The text of the open view, and its table if it has one."""
        match self.view:
            case TopView.OVERVIEW:
                return list(overview_lines(seen, room, height)), None
            case TopView.QUEUES:
                return [status_line(seen)], queue_sheet(seen)
            case TopView.JOBS:
                return [status_line(seen), self._filter_line()], self._jobs(seen)
            case TopView.FAILURES:
                return [status_line(seen)], self._failures(seen)
            case TopView.WORKERS:
                return [status_line(seen)], worker_sheet(seen)
            case TopView.LIVE:
                return self._live(seen, room), self._running(seen)
            case _:
                assert_never(self.view)

    def _filter_line(self) -> Text:
        line = Text(" which: ", "dim", no_wrap=True, overflow="ellipsis")
        line.append(one_line(self.wanted.where) or "all jobs, newest first", "default")
        if self.wanted.cursors:
            line.append(f"   page {len(self.wanted.cursors) + 1}", "dim")
        return line

    def _jobs(self, seen: Overview) -> Sheet:
        if self.page is None:
            return job_sheet((), seen.now, "reading …")
        return job_sheet(self.page.jobs, seen.now, _about(self.page))

    def _failures(self, seen: Overview) -> Sheet:
        note = "last seen first; muted ones too" if self.failures else "no failure is known"
        return failure_sheet(self.failures, seen.now, note)

    def _live(self, seen: Overview, room: int) -> list[Text]:
        moves = pace_lines(list(self.pace.ticks), room)
        return [status_line(seen), *moves, times_line(seen.wait, seen.run)]

    def _running(self, seen: Overview) -> Sheet:
        jobs, names = () if self.page is None else self.page.jobs, names_of(seen.workers)
        note = "these run now" if jobs else "nothing runs now"
        return running_sheet(jobs, seen.now, lambda worker: names.get(worker, worker[-12:]), note)


def _about(page: Page) -> str:
    """How far the page has looked, and how to go on."""
    note = "" if page.next_cursor is None else "n: older jobs"
    if not page.complete:
        back = "" if page.reached is None else f"searched back to {time_text(page.reached)}; "
        note = f"{back}{page.looked_at:,} looked at; n: go on"
    elif not page.jobs:
        note = "no jobs match"
    if page.unsearched:
        note = f"{page.unsearched:,} or more are encrypted and not searched; {note}"
    return note
