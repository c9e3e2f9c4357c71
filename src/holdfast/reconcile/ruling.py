"""The ruling on a worker whose lease lapsed: is it dead, and which of its jobs pay for it. Pure.

A lapsed lease means that the worker died, or that the store did not hear it: the store was away, a
user's transaction blocked it, its clock was moved. The reclaiming worker cannot ask the lapsed one,
but it knows its own history. If the store heard the reclaimer without a break while the other
lapsed, the store was there, and the other worker is dead. If the reclaimer's own service began
after the lapse, it waits half a lease first. A live worker repeats a failed heartbeat every tenth
of its lease, and each try takes at most a third of it, so within that time the store hears it.

The jobs that may have killed the worker pay an attempt and a crash. A job that had not begun pays
nothing. A job that was running when an earlier worker died is a suspect. If there are suspects,
only they pay, and of these the one that was claimed first: a worker begins no second suspect beside
it, unless the first has run for long. A job that may run only once pays in any case once it had
begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

from holdfast.errors import Unreadable
from holdfast.job.ends import End, Reclaimed, WorkerLost
from holdfast.job.ids import JobId
from holdfast.job.policy import decode_policy
from holdfast.job.record import Live, times_taken
from holdfast.store.contract.workers import WorkerInfo

HEARD_AGAIN_SHARE = 0.5
"""The share of a lease within which the store hears a live worker again."""

LAPSED_TOGETHER = 3
"""If fewer workers than this lapse at the same time, that says nothing about the store."""

SUSPECT_SECONDS = 30.0
"""A suspect of one crash that has run for longer than this no longer keeps other suspects of one
crash from beginning beside it: most are innocent, and long jobs must not queue for hours."""

SPARED_FENCE_STEPS = 2
"""A job that was spared before was claimed and taken back without an attempt: its fence counted two
steps for that."""


class Ruling(Enum):
    """What happens to the jobs of a lapsed worker."""

    WAIT = auto()  # the store may still hear the worker
    CHARGE = auto()  # the worker died: the jobs to blame pay an attempt and a crash
    SPARE = auto()  # the worker is gone, but the store was away too: no job pays


def in_good_standing(reclaimer: WorkerInfo | None) -> bool:
    """Whether the store heard the reclaimer lately. If not, the store may not hear anybody."""
    if reclaimer is None or not reclaimer.alive:
        return False
    assert reclaimer.read_at is not None
    assert reclaimer.heartbeat_at is not None
    return reclaimer.read_at - reclaimer.heartbeat_at <= _patience(reclaimer)


def rule(reclaimer: WorkerInfo, lapsed: WorkerInfo | None, fleet: Sequence[WorkerInfo]) -> Ruling:
    """What a reclaimer in good standing may do about a worker that lapsed, or whose row is gone
    (None)."""
    if lapsed is None:
        return Ruling.CHARGE
    assert reclaimer.alive_since is not None
    assert reclaimer.read_at is not None
    lapse = _end_of_lease(lapsed)
    if reclaimer.alive_since > lapse:
        if reclaimer.read_at < reclaimer.alive_since + _patience(lapsed):
            return Ruling.WAIT
        follows_outage = reclaimer.alive_since != reclaimer.started_at
        return Ruling.SPARE if follows_outage else Ruling.CHARGE
    if _lapsed_together(lapsed, fleet) and reclaimer.read_at < lapse + _patience(lapsed):
        return Ruling.WAIT
    return Ruling.CHARGE


def ends_of(held: Sequence[Live]) -> dict[JobId, End]:
    """How each job of one dead worker ends. All jobs are judged together."""
    begun = [job for job in held if not job.ahead]
    suspects = [job for job in begun if job.crashes]
    blamed = {job.id for job in _blamed(suspects)} if suspects else {job.id for job in begun}
    blamed |= {job.id for job in begun if _may_run_once(job)}
    return {job.id: WorkerLost() if job.id in blamed else _spared(job) for job in held}


def _may_run_once(job: Live) -> bool:
    """Whether the user allows only one attempt, whichever job killed the worker."""
    try:
        return decode_policy(job.policy).retry.max_attempts == 1
    except Unreadable:
        return False


def _blamed(suspects: Sequence[Live]) -> list[Live]:
    """Of the suspects that may have begun, those with the most crashes."""
    first = min(_claimed_at(job) for job in suspects)
    apart = [_claimed_at(job) - first for job in suspects]
    begun = [
        job
        for job, later in zip(suspects, apart, strict=True)
        if not later or later > timedelta(seconds=SUSPECT_SECONDS)
    ]
    most = max(job.crashes for job in begun)
    return [job for job in begun if job.crashes == most]


def _claimed_at(job: Live) -> datetime:
    assert job.claimed_at is not None
    return job.claimed_at


def _spared(job: Live) -> Reclaimed:
    if job.ahead:
        return Reclaimed("its worker died before the job had begun")
    # A job that is spared for the second time may be to blame: it becomes a suspect, and runs apart
    # from the others.
    suspected = job.crashes == 0 and times_taken(job.fence) - 1 - job.attempts >= SPARED_FENCE_STEPS
    return Reclaimed("its worker died beside a job that is suspected", suspected)


def _lapsed_together(lapsed: WorkerInfo, fleet: Sequence[WorkerInfo]) -> bool:
    """Whether most of the fleet lapsed at about the same time."""
    lapse, patience = _end_of_lease(lapsed), _patience(lapsed)
    others = [worker for worker in fleet if not worker.alive]
    together = sum(abs(_end_of_lease(worker) - lapse) <= patience for worker in others)
    alive = sum(worker.alive for worker in fleet)
    return together >= LAPSED_TOGETHER and together > alive


def _end_of_lease(worker: WorkerInfo) -> datetime:
    assert worker.read_at is not None
    assert worker.expires_in is not None
    return worker.read_at + timedelta(seconds=worker.expires_in)


def _patience(worker: WorkerInfo) -> timedelta:
    return timedelta(seconds=HEARD_AGAIN_SHARE * worker.lease)
