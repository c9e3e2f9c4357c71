"""What is kept of the times of jobs: measures of single workers, and points of a series."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from holdfast.job.what import What
from holdfast.telemetry.sketch import Sketch

HOURS = 3600.0
DAYS = 24 * HOURS

OTHERS = "…"
"""Stands for all queues or tasks that have no name of their own here. It is no legal name."""
EVERY = ""
"""Stands for the queue or the task where a point is about all of them."""
MOST_PAIRS = 1_000
"""So many pairs of queue and task have names of their own at a time. The others are added up under
`OTHERS`, so that sums stay exact."""

Pair = tuple[str, str]  # queue and task


class Step(IntEnum):
    """How many seconds a point of a series covers. Days are those of UTC."""

    MINUTE = 60
    TEN_MINUTES = 600
    HOUR = 3600
    DAY = 86_400

    def start_of(self, moment: datetime) -> datetime:
        """When the step began to which this moment belongs."""
        return datetime.fromtimestamp(int(moment.timestamp()) // self * self, UTC)


class Grain(StrEnum):
    """What a point is about: all jobs, those of a queue, or those of a task in a queue."""

    ALL = "all"
    QUEUE = "queue"
    TASK = "task"

    def of(self, pair: Pair) -> Pair:
        """The queue and task of the point that counts this pair."""
        queue, task = pair
        return (
            EVERY if self is Grain.ALL else queue,
            task if self is Grain.TASK else EVERY,
        )


KEPT: Final[Mapping[tuple[Step, Grain], float]] = {
    (step, grain): seconds
    for step, seconds in (
        (Step.MINUTE, 48 * HOURS),
        (Step.TEN_MINUTES, 7 * DAYS),
        (Step.HOUR, 90 * DAYS),
        (Step.DAY, 400 * DAYS),
    )
    for grain in Grain
} | {(Step.MINUTE, Grain.TASK): 6 * HOURS}
"""Seconds that the points of a step and a grain are kept."""

OPEN_SECONDS = 60.0
"""So long after its end a minute still takes measures. Then it is closed."""


class JobTimes(msgspec.Struct, gc=False):
    """How long jobs waited, ran, and took altogether."""

    wait: Sketch
    run: Sketch
    total: Sketch

    @classmethod
    def none(cls) -> JobTimes:
        return cls(Sketch(), Sketch(), Sketch())

    def merge(self, other: JobTimes) -> None:
        self.wait.merge(other.wait)
        self.run.merge(other.run)
        self.total.merge(other.total)

    @property
    def observed(self) -> int:
        """How many attempts were measured."""
        return self.run.count

    def encoded(self) -> bytes:
        return _encode([self.wait.encoded(), self.run.encoded(), self.total.encoded()])

    @classmethod
    def decoded(cls, blob: bytes) -> JobTimes:
        """A blob that something other than holdfast wrote counts as no times: it must not stop the
        books."""
        try:
            wait, run, total = _decode(blob)
            return cls(Sketch.decoded(wait), Sketch.decoded(run), Sketch.decoded(total))
        except ValueError:
            return cls.none()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[list[int]]).decode


class Measure(msgspec.Struct, frozen=True):
    """All times of one task in one queue that a source (a worker) has measured within a minute, so
    far. Of two measures of the same things the one with the greater `number` is true."""

    minute: datetime
    source: str
    queue: str
    task: str
    number: int
    times: JobTimes

    @property
    def key(self) -> tuple[datetime, str, str, str]:
        return self.minute, self.source, self.queue, self.task


Counts = dict[What, int]


class Point(msgspec.Struct, frozen=True):
    """What happened in one step. `counts` are exact: they come from the books. `times` are those
    that workers measured. A queue or a task of `EVERY` means all of them."""

    at: datetime
    queue: str
    task: str
    counts: Counts
    times: JobTimes


class PairTimes(msgspec.Struct, frozen=True):
    """All times of one task in one queue that were ever measured."""

    queue: str
    task: str
    times: JobTimes


def named(pair: Pair, known: Collection[Pair]) -> Pair:
    """The name under which a pair is kept beside the known ones: its own while there is room."""
    if pair in known or len(known) < MOST_PAIRS:
        return pair
    others = pair[0], OTHERS
    return others if others in known or len(known) < 2 * MOST_PAIRS else (OTHERS, OTHERS)
