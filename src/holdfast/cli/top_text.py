"""The texts of `holdfast top`: the overview, and how fast jobs move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from rich.text import Text

from holdfast.cli.doctor import MARKS
from holdfast.cli.output import STATE_STYLES, duration_text
from holdfast.cli.sheet import Sheet, fitted, one_line
from holdfast.cli.stats import sparkline
from holdfast.cli.top_sheets import failure_sheet, queue_sheet
from holdfast.cli.workers import slots_of
from holdfast.insights.overview import SPAN, Minute, Overview
from holdfast.insights.stats import Percentiles
from holdfast.job.redaction import redact
from holdfast.job.state import JobState
from holdfast.job.text import counted
from holdfast.job.what import What
from holdfast.store.contract.workers import WorkerStanding

ALWAYS_SHOWN = (JobState.READY, JobState.RUNNING, JobState.SCHEDULED, JobState.FAILED)
"""States that are shown also if no job is in them."""
MOVES = {
    "in": (What.ENQUEUED,),
    "claimed": (What.CLAIMED,),
    "succeeded": (What.SUCCEEDED,),
    "retried": (What.RETRIED, What.TIMED_OUT, What.LOST),
    "failed": (What.FAILED,),
}
"""What is drawn as a line of bars, by its name."""
ALWAYS_MOVES = ("in", "succeeded")
"""Moves that have their line also if there was none."""
MOST_ALARMS = 4


def overview_lines(seen: Overview, room: int, height: int) -> Iterator[Text]:
    """The first page, in about so many lines."""
    yield status_line(seen)
    yield from move_lines(minutes_of(seen), room)
    yield times_line(seen.wait, seen.run)
    yield workers_line(seen)
    yield from alarm_lines(seen, room)
    yield from _operations(seen)
    failures = failure_sheet(seen.failures, seen.now)
    left = height - 10 - len(failures.rows)
    yield from titled("queues by lag", queue_sheet(seen, max(3, left)), room)
    if failures.rows:
        yield from titled("failures of the last hour", failures, room)


def status_line(seen: Overview) -> Text:
    """Every state in which there are jobs, as a word with its number."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for state in JobState:
        number = seen.counts.get(state, 0)
        if number or state in ALWAYS_SHOWN:
            line.append(f"{state} ", "dim")
            line.append(f"{number:,}", STATE_STYLES.get(state, "") if number else "dim")
            line.append("  ")
    return line


def minutes_of(seen: Overview) -> list[Minute]:
    """Every minute of the span, also those in which nothing happened."""
    found = {minute.at: minute for minute in seen.minutes}
    last = seen.now.replace(second=0, microsecond=0)
    number = int(SPAN / timedelta(minutes=1))
    moments = (last - timedelta(minutes=back) for back in reversed(range(number)))
    return [found.get(moment, Minute(moment, {})) for moment in moments]


def move_lines(minutes: Sequence[Minute], room: int) -> Iterator[Text]:
    """How many jobs were moved in each minute, the last of which is not over."""
    for name, values in _moves(minutes):
        said = f"{values[-2] if len(values) > 1 else 0:,} a minute, now {values[-1]:,}"
        yield _bars(name, values, said, room)


def pace_lines(ticks: Sequence[Minute], room: int) -> Iterator[Text]:
    """How many jobs were moved a second, between any two of the last readings."""
    for name, values in _moves(ticks):
        yield _bars(name, values, f"{values[-1] if values else 0:,} a second", room)


def _moves(each: Sequence[Minute]) -> Iterator[tuple[str, list[int]]]:
    for name, whats in MOVES.items():
        values = [sum(one.counts.get(what, 0) for what in whats) for one in each]
        if any(values) or name in ALWAYS_MOVES:
            yield name, values


def _bars(name: str, values: Sequence[int], said: str, room: int) -> Text:
    line = Text(f"{name:>9} ", "dim", no_wrap=True)
    bars = sparkline(values[-max(10, room - 40) :])
    line.append(bars, "red" if name == "failed" else "cyan")
    return line.append(f" {said}", "default")


def times_line(wait: Percentiles, run: Percentiles) -> Text:
    def told(times: Percentiles) -> str:
        shown = (("p50", times.p50), ("p95", times.p95), ("p99", times.p99))
        return " ".join(f"{name} {duration_text(value)}" for name, value in shown)

    return Text(f"     wait {told(wait)}   run {told(run)}", no_wrap=True, overflow="ellipsis")


def workers_line(seen: Overview) -> Text:
    """Lapsed workers are told apart, and have no slots."""
    standing = Counter(worker.standing for worker in seen.workers)
    said = [f"{standing[each]} {each}" for each in WorkerStanding if standing[each]]
    slots = [one for worker in seen.workers if worker.alive for one in slots_of(worker).values()]
    used = sum(one.used for one in slots)
    total = used + sum(one.free + one.stuck for one in slots)
    style = "" if standing[WorkerStanding.ALIVE] else "bold red"
    line = Text("  workers ", "dim", no_wrap=True)
    line.append(", ".join(said) or "none", style)
    return line.append(f"   {used:,} of {total:,} slots used")


def alarm_lines(seen: Overview, room: int) -> Iterator[Text]:
    for alarm in seen.alarms[:MOST_ALARMS]:
        mark, style = MARKS[alarm.severity]
        yield Text(fitted(f"{mark} {redact(alarm.saw)}", room), style)
    if (more := len(seen.alarms) - MOST_ALARMS) > 0:
        yield Text(f"  and {more:,} more: holdfast doctor", "dim")


def _operations(seen: Overview) -> Iterator[Text]:
    for one in seen.operations[:2]:
        done = f"{one.progress.changed:,} of {counted(one.request.matched, 'job')}"
        words = one_line(f"operation {one.request.verb}: {one.state}, {done}")
        yield Text(f"  {words}", "cyan", no_wrap=True)


def titled(title: str, sheet: Sheet, room: int) -> Iterator[Text]:
    yield Text(f"── {title} ".ljust(room, "─"), "dim", no_wrap=True)
    yield sheet.head(room)
    yield from sheet.lines(room).values()
    if sheet.note:
        yield Text(f"  {sheet.note}", "dim")
