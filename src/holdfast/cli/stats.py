"""`holdfast stats`: what happened in a span of time, and how long jobs waited and ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.filters import wait_option
from holdfast.cli.output import duration_text, make_table, make_text
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession
from holdfast.insights.stats import ENDS, TRIED_AGAIN, SpanFigures, Stats, TimelinePoint
from holdfast.job.text import counted
from holdfast.job.what import What

if TYPE_CHECKING:
    from rich.console import RenderableType

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 48
TASKS_SHOWN = 30


@program.command("stats")
@wait_option("--since", default="1h", show_default=True, help="How far back: '15m', '24h', '30d'.")
@click.option("--queue", "-q", help="Only this queue.")
@click.option("--task", "-t", help="Only this task.")
async def tell_stats(
    session: CommandSession, since: float, queue: str | None, task: str | None
) -> None:
    """Show how many jobs there were, how they ended, and how long they waited and ran.

    Counts are exact. Times are percentiles: p95 is what 95 of a hundred attempts did not exceed,
    and at most 2.2 percent wrong.
    """
    async with session.client() as client:
        stats = await client.telemetry.stats(since, queue=queue, task=task)
    session.answer(_document(stats), lambda: _draw(stats))


def _document(stats: Stats) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(stats)
    return document


def _draw(stats: Stats) -> Iterator[RenderableType]:
    yield make_text(_headline(stats), "bold")
    if not stats.every.counts:
        yield "nothing happened to jobs in this time"
        return
    yield _counts(stats.every)
    yield from _timeline(stats)
    if stats.every.run.p50 is None:
        yield "no attempt was measured in this time: a worker measures when an attempt has ended"
    else:
        yield _percentiles(stats.every)
    yield from _tasks(stats.tasks)


def _headline(stats: Stats) -> str:
    every = stats.every
    of = [f"queue {every.queue}"] if every.queue else []
    of += [f"task {every.task}"] if every.task else []
    span = duration_text((stats.until - stats.since).total_seconds())
    begin = stats.since.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"since {begin}, {span}: {', '.join(of) or 'all jobs'}"


def _counts(figures: SpanFigures) -> str:
    """Each part stands alone, so that a narrow terminal breaks between them."""
    told = [f"{figures.enqueued:,} enqueued", f"{figures.ended:,} ended ({figures.rate:.3g}/s)"]
    told += [
        f"{figures.counts[what]:,} {what.replace('_', ' ')}"
        for what in (*ENDS, *TRIED_AGAIN, What.THROTTLED, What.SNOOZED)
        if figures.counts.get(what)
    ]
    if figures.lag is not None:
        told.append(f"lag {duration_text(figures.lag)}")
    return " · ".join(told)


def _timeline(stats: Stats) -> Iterator[str]:
    bars = max(1, round((stats.until - stats.since).total_seconds() / stats.step))
    width = -(-bars // MOST_BARS)
    step = timedelta(seconds=stats.step * width)
    each = duration_text(step.total_seconds())
    for name, words in (("ended", ENDS), ("errors", (What.FAILED, *TRIED_AGAIN))):
        numbers = _numbers(stats.timeline, stats.since, stats.until, step, words)
        if any(numbers):
            yield f"{name:>7} {sparkline(numbers)}  most {max(numbers):,} in {each}"


def _numbers(
    timeline: Sequence[TimelinePoint],
    since: datetime,
    until: datetime,
    step: timedelta,
    words: Sequence[What],
) -> list[int]:
    """How many there were in each step, also in those in which nothing happened."""
    numbers = [0] * max(1, -(-(until - since) // step))
    for moment in timeline:
        numbers[min((moment.at - since) // step, len(numbers) - 1)] += sum(
            moment.counts.get(what, 0) for what in words
        )
    return numbers


def sparkline(numbers: Sequence[int]) -> str:
    """A bar for each number: the highest for the greatest, a blank for none.

    >>> sparkline([0, 1, 4, 8])
    ' ▁▄█'
    """
    top = max(numbers, default=0)
    return "".join(" " if not n else BARS[-(-n * len(BARS) // top) - 1] for n in numbers)


def _percentiles(figures: SpanFigures) -> RenderableType:
    table = make_table("=", ">p50", ">p95", ">p99")
    for name, about in (
        ("wait", "ready until its function was called"),
        ("run", "one attempt"),
        ("total", "enqueued until ended"),
    ):
        one = getattr(figures, name)
        times = (duration_text(seconds) for seconds in (one.p50, one.p95, one.p99))
        table.add_row(f"{name:6} {about}", *times)
    return table


def _tasks(tasks: Sequence[SpanFigures]) -> Iterator[RenderableType]:
    if len(tasks) < 2:
        return
    table = make_table(
        "task", "queue", ">ended", ">failed", ">again", ">wait p95", ">run p50", ">p95"
    )
    for one in tasks[:TASKS_SHOWN]:
        numbers = (f"{number:,}" for number in (one.ended, one.failed, one.tried_again))
        times = (one.wait.p95, one.run.p50, one.run.p95)
        table.add_row(one.task, one.queue, *numbers, *map(duration_text, times))
    yield table
    if len(tasks) > TASKS_SHOWN:
        more = counted(len(tasks) - TASKS_SHOWN, "task")
        yield make_text(f"and {more} more: narrow with --queue or --task, or use --json", "dim")
