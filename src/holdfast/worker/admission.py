"""Which of the jobs that a claim brought begin here, and what becomes of the others. Pure.

**Careful jobs.** A job that was claimed ahead of its slot pays nothing when its
worker dies, because it had not begun. It may have begun meanwhile, without a
word to the store. For most jobs that is one free attempt. It is not for a job
whose next attempt or crash is its last, nor for one that came back from a worker
before: it could kill one worker after another and never pay. These
never begin from the line: claimed ahead, they go back, and are claimed again when
a slot is free. So for them "claimed" means "begins now".

**Suspects.** A job that was running when a worker died may be why. Where two of
those run in one worker, the next death does not tell which it was. So a worker
holds one suspect at a time, and the others are put off for a moment. A suspect
of one crash that has run for a while is no longer waited for: most are
innocent, and long jobs must not queue for hours behind each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.handlers.registry import Mode
from holdfast.job.retry import UniformRandom
from holdfast.reconcile.ruling import SUSPECT_SECONDS
from holdfast.worker.attempt import Attempt

STAGGER = 0.1
"""Seconds between the suspects of one claim, when they are put off."""


@dataclass(slots=True)
class Admitted:
    """What is to be done with the attempts of one claim; `apart` is the suspect that begins once
    those put off are written: till then its worker's death would be charged to them too."""

    begin: list[Attempt] = field(default_factory=list)
    apart: Attempt | None = None
    hand_back: list[Attempt] = field(default_factory=list)
    put_off: list[tuple[Attempt, float]] = field(default_factory=list)
    careful: bool = False


def admit(
    attempts: Sequence[Attempt],
    running: Iterable[Attempt],
    now: float,
    uniform: UniformRandom = random.random,
) -> Admitted:
    admitted = Admitted()
    suspects = []
    for attempt in attempts:
        if not is_careful(attempt):
            admitted.begin.append(attempt)
            continue
        admitted.careful = True
        if attempt.job.ahead:
            admitted.hand_back.append(attempt)
        elif is_suspect(attempt):
            suspects.append(attempt)
        else:
            admitted.begin.append(attempt)
    if suspects:
        _choose(admitted, suspects, [one for one in running if is_suspect(one)], now, uniform)
    return admitted


def is_careful(attempt: Attempt) -> bool:
    """Whether it matters to this job that "claimed" means "begins now"."""
    job, policy = attempt.job, attempt.policy
    return (
        job.crashes > 0
        or job.times_taken - 1 > job.attempts
        or job.attempts + 1 >= policy.retry.max_attempts
        or policy.max_crashes <= 1
    )


def is_suspect(attempt: Attempt) -> bool:
    """Whether it may take its worker along. What runs in a child takes that child only."""
    return attempt.job.crashes > 0 and attempt.handler.mode is not Mode.PROCESS


def _choose(
    admitted: Admitted,
    suspects: Sequence[Attempt],
    held: Sequence[Attempt],
    now: float,
    uniform: UniformRandom,
) -> None:
    for suspect in suspects:
        if admitted.apart is None and all(_bears(one, suspect, now) for one in held):
            admitted.apart = suspect
        else:
            wait = STAGGER * (len(admitted.put_off) + 1 + uniform())
            admitted.put_off.append((suspect, wait))


def _bears(held: Attempt, suspect: Attempt, now: float) -> bool:
    """Whether a suspect that runs already may have this one beside it."""
    long_enough = held.begun and now - held.since > SUSPECT_SECONDS
    return long_enough and held.job.crashes == suspect.job.crashes == 1
