"""Who may take back the jobs of a lapsed worker, when, and what those jobs pay. Pure.

A lapsed lease means that the worker died, or that the store did not hear it:
the store was away, a user's transaction held it up, its clock was moved. The
reclaiming worker cannot ask the lapsed one, but it knows how it fared itself. If
it served without a break while the other lapsed, the store was there, and the
other is dead. If its own service began after the lapse, it waits half a
lease first: a live worker repeats a failed beat every tenth of its lease, each
for at most a third, so by then it has been heard.

Of a dead worker's jobs those pay that may have killed it. A job that had not
begun pays nothing. Where jobs are among them that were running when a worker
died before, only such a suspect pays: the one claimed first, since a worker
begins no second one beside it, unless the first has run for long. A job that may
run once pays in any case, once it had begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

from holdfast.errors import Unreadable
from holdfast.job.ends import End, Reclaimed, WorkerLost
from holdfast.job.ids import JobId
from holdfast.job.policy import decode_policy
from holdfast.job.record import Live
from holdfast.store.contract.records import WorkerInfo

PATIENCE = 0.5
"""The share of a lease within which a live worker is heard again."""

FEW = 3
"""Fewer workers than this that lapse together tell nothing."""

SUSPECTED_FOR = 30.0
"""Seconds after which a suspect of one crash that still runs no longer keeps others of one crash
from beginning beside it: most are innocent, and long ones must not queue for hours."""

RETURNED_BEFORE = 2
"""A job that was spared once has been claimed and taken back: its fence is two ahead."""


class Ruling(Enum):
    WAIT = auto()  # the worker may still be heard
    CHARGE = auto()  # it died: what it ran pays an attempt and a crash
    SPARE = auto()  # it is gone, but the store was away too: nobody pays


def in_good_standing(reclaimer: WorkerInfo | None) -> bool:
    """Whether the store heard the reclaimer lately: else it is the store that may be deaf."""
    if reclaimer is None or not reclaimer.alive:
        return False
    assert reclaimer.read_at is not None
    assert reclaimer.heartbeat_at is not None
    return reclaimer.read_at - reclaimer.heartbeat_at <= _patience(reclaimer)


def rule(reclaimer: WorkerInfo, lapsed: WorkerInfo | None, fleet: Sequence[WorkerInfo]) -> Ruling:
    """What a reclaimer in good standing may do about a worker that lapsed, or is gone."""
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
    """How the jobs of one dead worker end, all of them judged together."""
    begun = [job for job in held if not job.ahead]
    suspects = [job for job in begun if job.crashes]
    blamed = {job.id for job in _blamed(suspects)} if suspects else {job.id for job in begun}
    blamed |= {job.id for job in begun if _may_run_once(job)}
    return {job.id: WorkerLost() if job.id in blamed else _spared(job) for job in held}


def _may_run_once(job: Live) -> bool:
    """Whether its user wants it begun once and not again, whoever is to blame for its end."""
    try:
        return decode_policy(job.policy).retry.max_attempts == 1
    except Unreadable:
        return False


def _blamed(suspects: Sequence[Live]) -> list[Live]:
    """Of those that may have begun, the ones with the most crashes."""
    first = min(_claimed_at(job) for job in suspects)
    apart = [_claimed_at(job) - first for job in suspects]
    begun = [
        job
        for job, later in zip(suspects, apart, strict=True)
        if not later or later > timedelta(seconds=SUSPECTED_FOR)
    ]
    most = max(job.crashes for job in begun)
    return [job for job in begun if job.crashes == most]


def _claimed_at(job: Live) -> datetime:
    assert job.claimed_at is not None
    return job.claimed_at


def _spared(job: Live) -> Reclaimed:
    if job.ahead:
        return Reclaimed("its worker died before the job had begun")
    # Spared twice it may be the one: let it run apart from the others that are suspected.
    suspected = job.crashes == 0 and job.times_taken - 1 - job.attempts >= RETURNED_BEFORE
    return Reclaimed("its worker died beside a job that is suspected", suspected)


def _lapsed_together(lapsed: WorkerInfo, fleet: Sequence[WorkerInfo]) -> bool:
    """Whether most of the fleet lapsed at about the same time."""
    lapse, patience = _end_of_lease(lapsed), _patience(lapsed)
    others = [worker for worker in fleet if not worker.alive]
    together = sum(abs(_end_of_lease(worker) - lapse) <= patience for worker in others)
    alive = sum(worker.alive for worker in fleet)
    return together >= FEW and together > alive


def _end_of_lease(worker: WorkerInfo) -> datetime:
    assert worker.read_at is not None
    assert worker.expires_in is not None
    return worker.read_at + timedelta(seconds=worker.expires_in)


def _patience(worker: WorkerInfo) -> timedelta:
    return timedelta(seconds=PATIENCE * worker.lease)
