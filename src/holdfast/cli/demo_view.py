"""The live view of the demo: queues and their jobs as they move, or plain lines in a pipe."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.cli.output import duration_text, make_console, make_table, make_text, state_text
from holdfast.job.record import Job
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from holdfast.cli.demo_script import FlowLine, OnSchedule, Row

SHOWN = (
    JobState.SCHEDULED,
    JobState.READY,
    JobState.RUNNING,
    JobState.SUCCEEDED,
    JobState.FAILED,
    JobState.CANCELLED,
)
FEED_LINES = 6
LINE_EVERY_SECONDS = 1.0


class Scene(msgspec.Struct, frozen=True):
    """The jobs of the demo at one moment."""

    queues: dict[str, dict[JobState, int]]
    running: list[Job]
    ended: int
    total: int


class View(Protocol):
    def say(self, line: str) -> None: ...

    def show(self, scene: Scene) -> None: ...


class Silent:
    """Shows nothing, for `--json`, which prints only the summary."""

    def say(self, line: str) -> None:
        pass

    def show(self, scene: Scene) -> None:
        pass


class Lines:
    """One line a second, for pipes and logs."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._start = time.monotonic()
        self._last = 0.0

    def say(self, line: str) -> None:
        self._write(f"{time.monotonic() - self._start:5.1f} s  {line}")

    def show(self, scene: Scene) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_EVERY_SECONDS:
            self._last = now
            sums = {s: sum(counts.get(s, 0) for counts in scene.queues.values()) for s in SHOWN}
            shown = [f"{state} {number}" for state, number in sums.items() if number]
            if shown:
                self.say("  ".join(shown))


class Board:
    """A table that redraws itself."""

    def __init__(self, update: Callable[[RenderableType], object]) -> None:
        self._update = update
        self._feed: deque[str] = deque(maxlen=FEED_LINES)
        self._start = time.monotonic()

    def say(self, line: str) -> None:
        self._feed.append(f"{time.monotonic() - self._start:5.1f} s  {line}")

    def show(self, scene: Scene) -> None:
        self._update(self._draw(scene))

    def _draw(self, scene: Scene) -> Group:
        from rich.console import Group

        table = make_table("queue", *(f">{state}" for state in SHOWN))
        for name, counts in scene.queues.items():
            table.add_row(name, *(_cell(state, counts.get(state, 0)) for state in SHOWN))
        feed = [make_text(line, "dim") for line in self._feed]
        return Group(
            table,
            _bar(scene.ended, scene.total, f"{scene.ended} of {scene.total} jobs ended"),
            "",
            *(_job_bar(job) for job in scene.running),
            "",
            *feed,  # not padded to the full width, so that an echoed ^C does not wrap a line
        )


def _cell(state: JobState, number: int) -> RenderableType:
    if not number:
        return make_text("·", "dim")
    text = state_text(state)
    text.plain = f"{number}"
    return text


def _job_bar(job: Job) -> RenderableType:
    progress = job.progress
    fraction = (progress.fraction or 0.0) if progress else 0.0
    message = (progress.message or "") if progress else ""
    return _bar(int(fraction * 100), 100, f"{job.task}: {message}")


def _bar(done: int, total: int, label: str) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=max(1, total), completed=done, width=30), make_text(label))
    return grid


@contextmanager
def make_view(*, as_json: bool) -> Iterator[View]:
    console = make_console()
    if as_json:
        yield Silent()
    elif not console.is_terminal:
        yield Lines(lambda line: print(line, flush=True))
    else:
        from rich.live import Live

        with Live(console=console, refresh_per_second=10, transient=True) as live:
            yield Board(live.update)


def draw_summary(rows: list[Row]) -> Iterator[RenderableType]:
    heads = (">enqueued", ">succeeded", ">failed", ">cancelled", ">retries", ">wait", ">run")
    table = make_table("task", *heads)
    for row in rows:
        numbers = [str(number) if number else make_text("·", "dim") for number in row.counts]
        times = (duration_text(row.median_wait), duration_text(row.median_run))
        table.add_row(row.task, *numbers, *times)
    yield table
    yield make_text(
        "wait: from enqueue to the start of the last attempt; run: that attempt (medians)", "dim"
    )


def draw_flow(flow: FlowLine) -> RenderableType:
    nodes = ", ".join(f"{number} {state}" for state, number in sorted(flow.nodes.items()))
    line = f"flow {flow.name!r} {flow.state}: {nodes}, in the order that its graph says"
    return make_text(line, "cyan")


def draw_schedule(clock: OnSchedule) -> RenderableType:
    late = duration_text(clock.median_late)
    line = f"schedule {clock.name!r}: {clock.fired} plans fired, each once, {late} after their time"
    return make_text(line, "cyan")
