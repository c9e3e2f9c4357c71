"""Signals: what is sent to live jobs from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Sent, Signal, SignalLimits, SignalWait


class Signals(Protocol):
    """The signals of a job go with it: whoever removes the job removes them, and a requeue begins
    without them. A job that was sent one has the tie `STEPS`; no other job is asked for signals.

    A suspension and a signal never miss each other: if a job is suspended for a signal that is kept
    already, `Jobs.finish` makes it ready instead; if a signal comes for a suspended job that waits
    for it, `send` makes the job ready. `Steps.record` takes a signal in the step that writes down
    its value (`StepRecord.takes`)."""

    async def send(
        self, signals: Sequence[NewSignal], limits: SignalLimits, by: str | None = None
    ) -> list[Sent]:
        """Keep signals for live jobs, in this order, and make those ready that are suspended for
        them. Whether a signal is late is judged by what is recorded at that moment: a record that
        ends the step comes before the signal or after it, and whoever waits sees all signals that
        were kept before. A key that the job has had is a duplicate, also if it comes late."""
        ...

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[Signal]]:
        """The signals of these jobs in their order, with those that were taken. Jobs without
        signals are left out."""
        ...

    async def waits(self, limit: int, after: str | None = None) -> list[SignalWait]:
        """What suspended jobs wait for, by job and signal. `after` is the cursor of the last one
        of the page before (`wait_cursor`)."""
        ...

    async def wake(self, ids: Sequence[JobId]) -> list[JobId]:
        """Make those of these jobs ready that are suspended for a signal which is kept; answers
        these. There are none, unless a store has a defect."""
        ...


def wait_cursor(wait: SignalWait) -> str:
    """Where a page of waits ends."""
    return f"{wait.id} {wait.signal}"


async def overlooked(signals: Signals, waits: Sequence[SignalWait]) -> list[JobId]:
    """The jobs that wait for a signal which is kept."""
    if not waits:
        return []
    found = await signals.of(list(dict.fromkeys(wait.id for wait in waits)))
    kept = {(job, one.name) for job, some in found.items() for one in some if one.taken_by is None}
    return list(dict.fromkeys(wait.id for wait in waits if (wait.id, wait.signal) in kept))
