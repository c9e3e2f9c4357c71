"""Keeps sleeps on time: what passes until a suspension is written counts to its sleep.

A store counts a sleep from the write. Where the write waits behind others, or for the end of an
outage, the job would wake that much too late, and a thousand jobs that sleep until one moment would
wake one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.transition import Transition

LATE_SECONDS = 0.1
"""A sleep that is written so much later, or more, is shortened by that. Less harms nobody."""

_replace = msgspec.structs.replace


class Sleeps:
    """Since when the suspensions wait that are not written yet."""

    def __init__(self) -> None:
        self._since: dict[tuple[JobId, int], float] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def begin(self, move: Transition) -> None:
        """The handler was left just now. Without a time there is nothing to count."""
        if move.delay is not None:
            self._since[move.id, move.fence] = time.monotonic()

    def on_time(self, batch: Sequence[Transition]) -> Sequence[Transition]:
        """The same moves, to be written now."""
        now = time.monotonic()
        return [_shortened(one, now - self._since.get((one.id, one.fence), now)) for one in batch]

    def forget(self, written: Iterable[Transition]) -> None:
        for move in written:
            self._since.pop((move.id, move.fence), None)


def _shortened(move: Transition, passed: float) -> Transition:
    if move.delay is None or passed < LATE_SECONDS:
        return move
    steps = tuple(
        one if one.seconds is None else _replace(one, seconds=max(0.0, one.seconds - passed))
        for one in move.steps
    )
    return _replace(move, delay=max(0.0, move.delay - passed), steps=steps)
