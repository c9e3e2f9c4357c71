"""What becomes of a plan that is to fire while its predecessor in the scope is not done. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from holdfast.job.ids import JobId
from holdfast.schedule.model import Decision, Overlap


@dataclass(frozen=True, slots=True)
class Start:
    """Whether the plan starts a job, and which predecessors are cancelled with it."""

    decision: Decision
    reason: str = ""
    cancel: tuple[JobId, ...] = ()


FIRE = Start(Decision.FIRED)


def start(overlap: Overlap, unfinished: Sequence[JobId], waiting: bool = False) -> Start:
    """`unfinished` are the live jobs of the scope, `waiting` whether a plan waits behind them."""
    if overlap is Overlap.ALLOW or not (unfinished or waiting):
        return FIRE
    running = f"job {unfinished[0]} has not ended" if unfinished else "a plan already waits"
    match overlap:
        case Overlap.SKIP:
            return Start(Decision.SKIPPED, f"overlap: {running}")
        case Overlap.QUEUE_ONE if waiting:
            return Start(Decision.SKIPPED, "overlap: one plan already waits")
        case Overlap.QUEUE_ONE:
            return Start(Decision.WAITING, f"overlap: {running}")
        case Overlap.REPLACE:
            return Start(Decision.FIRED, cancel=tuple(unfinished))
    assert_never(overlap)
