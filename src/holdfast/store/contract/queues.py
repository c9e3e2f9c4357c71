"""Queues and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.job.state import JobState

RETAINED_BY: Mapping[JobState, str] = {
    JobState.SUCCEEDED: "retain_succeeded",
    JobState.FAILED: "retain_failed",
    JobState.CANCELLED: "retain_other",
    JobState.EXPIRED: "retain_other",
    JobState.SKIPPED: "retain_other",
}
"""The setting of a queue that says how long a job is kept, by how the job ended."""


class QueueSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator may tune on a live queue. None leaves it to the job's own policy.
    `max_running`: so many of its jobs run at once in all workers together; None for no total.
    `aging`: so many seconds of waiting count as much as one step of priority, so that no job waits
    for ever behind jobs of lower numbers; None for strict priorities."""

    throttle_base: float = 1.0
    throttle_cap: float = 300.0
    retain_succeeded: float | None = None
    retain_failed: float | None = None
    retain_other: float | None = None
    max_running: int | None = None
    aging: float | None = None

    def keep_for(self, state: JobState) -> float | None:
        """Seconds that a job is kept which ended like this."""
        kept: float | None = getattr(self, RETAINED_BY[state])
        return kept

    def to_json(self) -> str:
        """What differs from the defaults: a store keeps it as one text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> QueueSettings:
        """A setting that this version does not know is left alone."""
        return msgspec.json.decode(text, type=cls)


EVERY_QUEUE = "*"
"""Stands for all queues, also for those to come. No queue and no task can have such a name."""


def jobs_of(task: str) -> str:
    """Stands for the jobs of one task, in whichever queue they are, where queues are named."""
    return EVERY_QUEUE + task


class Paused(msgspec.Struct, frozen=True):
    """What is paused beyond single queues: all of them, and tasks by name."""

    everything: bool = False
    tasks: tuple[str, ...] = ()

    @classmethod
    def named(cls, names: Iterable[str]) -> Paused:
        """From the names that stand for all queues, or for the jobs of a task."""
        found = set(names)
        tasks = sorted(name.removeprefix(EVERY_QUEUE) for name in found - {EVERY_QUEUE})
        return cls(EVERY_QUEUE in found, tuple(tasks))


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue as it stands. `oldest_ready_age` (seconds) is its lag. `counts` are its jobs
    by state, also those that have ended: they come from the tallies."""

    name: str
    paused: bool
    cooling_for: float | None
    throttles: int
    settings: QueueSettings
    counts: dict[JobState, int]
    oldest_ready_age: float | None


class Queues(Protocol):
    """Queues: named lines with settings of their own."""

    async def ensure(self, queues: Mapping[str, QueueSettings]) -> None:
        """Add queues that are absent; never overwrites what an operator tuned."""
        ...

    async def pause(self, names: Sequence[str]) -> None:
        """Stop claims from these queues (made if absent); running jobs go on. Workers hear of
        it (PAUSED) and give back what they claimed and have not begun.

        The name `EVERY_QUEUE` stops claims from all queues, also from those to come, and
        `jobs_of(task)` those of one task's jobs. A queue that is paused itself stays so when
        they are resumed."""
        ...

    async def paused(self) -> Paused:
        """What is paused beyond single queues."""
        ...

    async def resume(self, names: Sequence[str]) -> None:
        """Allow claims again, end any cool-down, and wake the workers."""
        ...

    async def tune(self, name: str, settings: QueueSettings) -> None:
        """Replace the settings of a queue (made if absent). A new total counts the jobs that run
        already, and stops none of them."""
        ...

    async def waiting(self) -> Sequence[str]:
        """The names of the queues that have a ready job, in order. It is asked for all day long
        by workers that serve whatever queues there are, so it costs by queues, not by jobs."""
        ...

    async def find(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        """Every queue that is known or has jobs, by name; or only those named. `EVERY_QUEUE`
        and `jobs_of(task)` are no queues, and never listed."""
        ...
