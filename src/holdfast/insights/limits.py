"""What is said about limits: by `explain` of a job that waits for one, and by the doctor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.insights.reasons import Reason, Who, seconds_text, span_text
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import Passed, costs_in, is_total, parents_in, total_name
from holdfast.job.record import Job
from holdfast.job.text import counted
from holdfast.job.ties import Tie
from holdfast.limits.model import BucketInfo, Budget, Concurrency, Rate, Settings
from holdfast.store.contract.limits import BucketHolder, BucketWaiter, Recounted
from holdfast.store.contract.store import Store

CHECKED_BUCKETS = 1_000
SHOWN = 5
NOTHING_PASSED = Passed(None)


async def about_limits(store: Store, job: Job, now: datetime) -> list[Reason]:
    """What keeps a ready job from beginning: buckets without room; or, where it would have room,
    the first job of its line, which has none."""
    limited = bool(job.ties & Tie.PERMITS)
    costs = await _costs(store, job.id, job.queue, limited=limited)
    if not costs:
        return []
    names: Mapping[WorkerId, str] = {one.id: one.name for one in await store.workers.find()}
    reasons = await _about_buckets(store, costs, names, now)
    if limited and all(reason.code == "not-its-turn" for reason in reasons):
        first = (await store.limits.before([job.id])).get(job.id)
        if first is not None:
            costs = await _costs(store, first, job.queue, limited=True)
            before = await _about_buckets(store, costs, names, now)
            reasons = [_behind(first, one) for one in before] or reasons
    return reasons


async def _costs(store: Store, job: JobId, queue: str, *, limited: bool) -> dict[str, int]:
    """What a job costs, by bucket; in the total of its queue it counts as one."""
    passed = NOTHING_PASSED
    if limited:
        passed = (await store.limits.of([job])).get(job, NOTHING_PASSED)
    costs = costs_in(*passed)
    queues = await store.queues.find([queue])
    if queues and queues[0].settings.max_running is not None:
        costs[total_name(queue)] = 1
    return costs


async def _about_buckets(
    store: Store, costs: Mapping[str, int], names: Mapping[WorkerId, str], now: datetime
) -> list[Reason]:
    """The buckets that have no room for a job that costs so much."""
    reasons = []
    for bucket in await store.limits.get(list(costs)):
        cost = costs[bucket.name]
        if not _holds_up(bucket, costs):
            continue
        if bucket.free >= cost:
            waiters = await store.limits.waiters(bucket.name, 1)
            reasons.append(_waits_for_others(bucket, cost, waiters))
        else:
            holders = await store.limits.holders(bucket.name, 1)
            reasons.append(_reason(bucket, cost, holders, names, now))
    return reasons


def _behind(first: JobId, reason: Reason) -> Reason:
    """Of a job that is not the first of its line: why the first one waits. A first job that can
    never pass leaves its line at the next claim."""
    if reason.code == "cost-too-big":
        fact = (
            f"job {first} is before it in its line, and the next claim sets it aside: {reason.fact}"
        )
        return Reason("not-first", fact, Who.WORKER)
    fact = f"job {first} is before it in its line and waits ({reason.code}): {reason.fact}"
    advice = f"{reason.advice or 'it begins after that job'}; or cancel that job, or move it"
    return Reason("not-first", fact, reason.who, advice, reason.action)


def _waits_for_others(bucket: BucketInfo, cost: int, waiters: list[BucketWaiter]) -> Reason:
    """There is room, but who came first needs more than that, and nobody goes before him."""
    fact = f"{_shown(bucket)}: {bucket.free:,} is free and it needs {cost:,}, "
    if not waiters:
        return Reason("not-its-turn", fact + "but others came first", Who.WORKER)
    first = waiters[0]
    fact += f"but job {first.job_id} of queue {first.queue!r} came first and needs {first.needs:,}"
    cancel = Action(Noun.JOBS, Verb.CANCEL, first.job_id)
    return Reason(
        "not-its-turn", fact, Who.WORKER, "it begins after that job; or cancel it", cancel
    )


def _holds_up(bucket: BucketInfo, costs: Mapping[str, int]) -> bool:
    """A bucket that leads to another holds nothing up unless it is shut or has settings of its
    own."""
    leads = bucket.override is None and bucket.name in parents_in(list(costs))
    passes_on = leads and bucket.drained_for is None
    return not (bucket.retired or passes_on) and bucket.room < costs[bucket.name]


def _reason(
    bucket: BucketInfo,
    cost: int,
    holders: list[BucketHolder],
    names: Mapping[WorkerId, str],
    now: datetime,
) -> Reason:
    shown, settings = _shown(bucket), bucket.settings
    if settings is None:
        fact = f"limit {bucket.limit!r} is not defined, and a job of an unknown limit never begins"
        advice = "deploy a worker of the app that defines it, or define it"
        return Reason("limit-unknown", fact, Who.DEVELOPER, advice, _define(bucket.limit))
    if bucket.drained_for is not None:
        fact = f"{shown} is shut for another {bucket.drained_for:.1f} s"
        advice = "open it now instead"
        return Reason("limit-drained", fact, Who.TIME, advice, _on(bucket, Verb.DRAIN, 0))
    if cost > max(1, bucket.largest):
        fact = f"it costs {cost:,} of {shown}, which never lets more than {bucket.largest:,} pass"
        advice = "allow more, or cancel it; the others of its line go on without it"
        return Reason("cost-too-big", fact, Who.OPERATOR, advice, _more(bucket, settings))
    match settings:
        case Concurrency():
            reason = _full(bucket, settings, shown, holders, names, now)
            return _queue_full(bucket, reason) if is_total(bucket.name) else reason
        case Rate():
            return _empty(bucket, settings, shown, cost)
        case Budget():
            return _all_spent(bucket, settings, shown, cost)
    assert_never(settings)


def _full(
    bucket: BucketInfo,
    settings: Concurrency,
    shown: str,
    holders: list[BucketHolder],
    names: Mapping[WorkerId, str],
    now: datetime,
) -> Reason:
    fact = f"{shown}: {bucket.in_use:,} of {settings.most:,} run"
    if holders:
        first = holders[0]
        worker = names.get(first.worker_id, first.worker_id)
        since = span_text(now, first.claimed_at)
        fact += f"; the oldest holder is job {first.job_id} on {worker} for {since}"
    who, advice = Who.WORKER, "it begins when one of them ends; or allow more"
    if settings.most == 0:
        who, advice = Who.OPERATOR, "allow more"
    return Reason("limit-full", fact, who, advice, _more(bucket, settings))


def _queue_full(bucket: BucketInfo, reason: Reason) -> Reason:
    tune = Action(Noun.QUEUES, Verb.TUNE, bucket.key, value="max_running")
    return Reason("queue-full", reason.fact, reason.who, reason.advice, tune)


def _empty(bucket: BucketInfo, settings: Rate, shown: str, cost: int) -> Reason:
    fact = f"{shown} lets {settings.most:,} begin per {settings.per:g} s, and "
    fact += f"{bucket.room:,} are left" if bucket.room else "none is left"
    fact += f"; it needs {cost:,}" if cost > 1 else ""
    who, advice = Who.OPERATOR, "allow more"
    if bucket.opens_in is not None:
        fact += f"; opens in {bucket.opens_in:.1f} s"
        who, advice = Who.TIME, "or allow more"
    return Reason("rate-empty", fact, who, advice, _more(bucket, settings))


def _all_spent(bucket: BucketInfo, settings: Budget, shown: str, cost: int) -> Reason:
    hard = settings.hard + bucket.added
    fact = f"{shown}: {_used(bucket):,} of {hard:,} spent or reserved; it needs {cost:,}"
    who, advice = Who.OPERATOR, "let more be spent"
    if bucket.resets_in is not None and settings.hard:
        fact += f"; it begins anew in {seconds_text(bucket.resets_in)}"
        who, advice = Who.TIME, "or let more be spent now"
    return Reason("budget-spent", fact, who, advice, _on(bucket, Verb.TOP_UP))


def _used(bucket: BucketInfo) -> int:
    return bucket.spent + bucket.added + bucket.in_use


def _more(bucket: BucketInfo, settings: Settings) -> Action:
    """An amount for one key would open a limit that lets nothing pass for that key alone."""
    amount = "hard" if isinstance(settings, Budget) else "most"
    if bucket.override is None and not settings.largest:
        return Action(Noun.LIMITS, Verb.SET, bucket.limit, value=amount)
    return _on(bucket, Verb.SET, amount)


def _shown(bucket: BucketInfo) -> str:
    if is_total(bucket.name):
        return f"queue {bucket.key!r}, in all workers together"
    return f"limit {bucket.limit!r}" + (f" for {bucket.key!r}" if bucket.key else "")


def _on(bucket: BucketInfo, verb: Verb, value: str | float | None = None) -> Action:
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
    stuck = [one for one in found if one.stuck]
    return [
        *_about_counts(recounted),
        *_about_unknown(unknown),
        *[await _about_stuck(store, one) for one in stuck[:SHOWN]],
        *_about_budgets(found),
    ]


async def _about_stuck(store: Store, bucket: BucketInfo) -> Diagnosis:
    """Jobs that cost more than their limit ever lets pass."""
    fact = f"jobs cost more than {_shown(bucket)} ever lets pass"
    actions: tuple[Action, ...] = ()
    if bucket.settings is not None:
        fact += f", {bucket.largest:,}"
        actions = (_more(bucket, bucket.settings),)
    for first in await store.limits.waiters(bucket.name, 1, never=True):
        fact += f": job {first.job_id} needs {first.needs:,}"
        fact += f", and so do others, in {bucket.stuck:,} lines" if bucket.stuck > 1 else ""
        actions += (Action(Noun.JOBS, Verb.CANCEL, first.job_id),)
    return Diagnosis("limits", WARNING, fact, "allow more, or cancel them", actions)


def _about_counts(recounted: Recounted) -> list[Diagnosis]:
    if not recounted.wrong:
        count = recounted.buckets
        counting = counted(count, "bucket of limits counts", "buckets of limits count")
        said = f"{counting} what runs" if count else "no limit counts a job"
        return [Diagnosis("limits", OK, said)]
    shown = ", ".join(
        f"{one.bucket} counts {one.counted} and holds {one.held}" for one in recounted.wrong[:SHOWN]
    )
    differing = counted(len(recounted.wrong), "bucket differs", "buckets differ")
    saw = f"{differing} from a recount: {shown}"
    advice = "start any worker of this store: it corrects them; report this as a bug"
    return [Diagnosis("limits", PROBLEM, saw, advice, (START_WORKER,))]


def _define(limit: str) -> Action:
    return Action(Noun.LIMITS, Verb.SET, limit, {"create": "yes"})


def _about_unknown(limits: list[str]) -> list[Diagnosis]:
    return [
        Diagnosis(
            "limits",
            WARNING,
            f"jobs wait for limit {name!r}, which is not defined",
            "deploy a worker of the app that defines it, or define it",
            (_define(name),),
        )
        for name in limits
    ]


def _about_budgets(found: list[BucketInfo]) -> list[Diagnosis]:
    """The first budgets that have reached their soft amount."""
    return [_about_budget(one) for one in found if one.soft_reached][:SHOWN]


def _about_budget(bucket: BucketInfo) -> Diagnosis:
    fact = f"{_shown(bucket)}: {_used(bucket):,} spent or reserved: its soft amount"
    if bucket.added:
        fact += f", with {bucket.added:,} that were added"
    advice = "let more be spent, before jobs wait"
    if bucket.waiting:
        fact += ", and jobs wait for more"
        advice = "let more be spent"
    return Diagnosis("limits", WARNING, fact, advice, (_on(bucket, Verb.TOP_UP),))
