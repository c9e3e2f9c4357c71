"""What is said about limits: by `explain` of a job that waits for one, and by the doctor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.insights.reasons import Reason, Who, span_text
from holdfast.job.ids import WorkerId
from holdfast.job.passing import parted
from holdfast.job.record import Job
from holdfast.job.ties import Tie
from holdfast.limits.model import BucketInfo
from holdfast.store.contract.limits import BucketHolder, Recounted
from holdfast.store.contract.store import Store

CHECKED_BUCKETS = 1_000
SHOWN = 5


async def about_limits(store: Store, job: Job, now: datetime) -> list[Reason]:
    """The buckets that keep a ready job from beginning: none if all of them have room."""
    if not job.ties & Tie.PERMITS:
        return []
    buckets = parted((await store.limits.of([job.id])).get(job.id))
    names: Mapping[WorkerId, str] = {one.id: one.name for one in await store.workers.find()}
    reasons = []
    for bucket in await store.limits.get(buckets):
        if not bucket.retired and bucket.opens_in != 0.0:
            holders = await store.limits.holders(bucket.name, 1)
            reasons.append(_reason(bucket, holders, names, now))
    return reasons


def _reason(
    bucket: BucketInfo, holders: list[BucketHolder], names: Mapping[WorkerId, str], now: datetime
) -> Reason:
    shown, settings = _shown(bucket), bucket.settings
    if settings is None:
        fact = f"limit {bucket.limit!r} is not defined, and a job of an unknown limit never begins"
        advice = "deploy a worker of the app that defines it, or define it"
        define = Action(Noun.LIMITS, Verb.SET, bucket.limit)
        return Reason("limit-unknown", fact, Who.DEVELOPER, advice, define)
    if bucket.drained_for is not None:
        fact = f"{shown} is shut for another {bucket.drained_for:.1f} s after a throttle"
        advice = "open it now instead"
        return Reason("limit-drained", fact, Who.TIME, advice, _on(bucket, Verb.DRAIN, 0))
    fact = f"{shown}: {bucket.in_use} of {settings.most} run"
    if holders:
        first = holders[0]
        worker = names.get(first.worker_id, first.worker_id)
        since = span_text(now, first.claimed_at)
        fact += f"; the oldest holder is job {first.job_id} on {worker} for {since}"
    advice = "it begins when one of them ends; or allow more"
    return Reason("limit-full", fact, Who.WORKER, advice, _on(bucket, Verb.SET))


def _shown(bucket: BucketInfo) -> str:
    return f"limit {bucket.limit!r}" + (f" for {bucket.key!r}" if bucket.key else "")


def _on(bucket: BucketInfo, verb: Verb, value: float | None = None) -> Action:
    which = {"key": bucket.key} if bucket.key else {}
    return Action(Noun.LIMITS, verb, bucket.limit, which, value)


async def check_limits(store: Store) -> list[Diagnosis]:
    """Whether buckets count what their leases say, and every limit that jobs wait for is defined.
    The first of very many buckets are looked at."""
    recounted = await store.limits.recount(CHECKED_BUCKETS, mend=False)
    if recounted.wrong:  # counts and leases may have changed between two reads of a page
        recounted = await store.limits.recount(CHECKED_BUCKETS, mend=False)
    found = await store.limits.buckets(None, CHECKED_BUCKETS)
    unknown = sorted({one.limit for one in found if one.settings is None and one.waiting})
    return [*_about_counts(recounted), *_about_unknown(unknown)]


def _about_counts(recounted: Recounted) -> list[Diagnosis]:
    if not recounted.wrong:
        count = recounted.buckets
        said = f"{count:,} buckets of limits count what runs" if count else "no limit counts a job"
        return [Diagnosis("limits", OK, said)]
    shown = ", ".join(
        f"{one.bucket} counts {one.counted} and holds {one.held}" for one in recounted.wrong[:SHOWN]
    )
    saw = f"{len(recounted.wrong)} buckets differ from a recount: {shown}"
    advice = "start any worker of this store: it corrects them; report this as a bug"
    return [Diagnosis("limits", PROBLEM, saw, advice, (START_WORKER,))]


def _about_unknown(limits: list[str]) -> list[Diagnosis]:
    return [
        Diagnosis(
            "limits",
            WARNING,
            f"jobs wait for limit {name!r}, which is not defined",
            "deploy a worker of the app that defines it, or define it",
            (Action(Noun.LIMITS, Verb.SET, name),),
        )
        for name in limits
    ]
