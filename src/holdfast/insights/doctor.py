"""The examination behind `holdfast doctor`: every check says what it saw and what to do.

It changes nothing. A reconciler mends what it finds within seconds, so a check speaks
up about what should long have been mended, or what no reconciler can mend: a
queue that nobody serves, a task that nobody knows, a clock that is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from holdfast.clock import utcnow
from holdfast.errors import StoreError, StoreUnavailable
from holdfast.insights.schedule_checks import check_schedules
from holdfast.job.outcome import LEFT
from holdfast.job.record import Job
from holdfast.job.state import LIVE, JobState
from holdfast.store.contract.records import Finding, JobFilter, QueueInfo, Severity, WorkerInfo
from holdfast.store.contract.store import Store

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM

OVERDUE = 60.0  # seconds after which a reconciler has plainly not done its work
LAGGING = 300.0
SKEW_NOTED, SKEW_WRONG = 2.0, 30.0
LOOKED_AT = 1_000
START_WORKER = "start a worker: holdfast worker app:app"


@dataclass(frozen=True, slots=True)
class Facts:
    """What several checks share, read once."""

    now: datetime
    queues: list[QueueInfo]
    workers: list[WorkerInfo]

    @property
    def alive(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.alive]


async def examine(store: Store) -> list[Finding]:
    """Open the store, look at everything, close it. What keeps it from opening is a finding."""
    try:
        await store.open()
    except StoreUnavailable as error:
        return [Finding("store", PROBLEM, str(error), "check the URL, the server and the network")]
    except StoreError as error:
        # Errors about the schema end in what to do, after the last colon.
        saw, _, advice = str(error).rpartition(": ")
        return [Finding("schema", PROBLEM, saw or advice, advice if saw else "")]
    try:
        return await _examine(store)
    except StoreUnavailable as error:
        return [
            Finding("store", PROBLEM, f"it went away while being examined: {error}", "try again")
        ]
    finally:
        await store.close()


async def _examine(store: Store) -> list[Finding]:
    clock = await check_clock(store)
    facts = Facts(await store.now(), await store.queues.list(), await store.workers.list())
    own = await store.health.check()
    if not any(finding.check == "durability" for finding in own):
        own.append(Finding("durability", OK, store.durability))
    return [
        Finding("store", OK, f"a {store.kind} store, and it answers"),
        *own,
        clock,
        *check_workers(facts),
        *check_queues(facts),
        *await check_tasks(store, facts),
        *await check_running(store, facts),
        *await check_waiting(store, facts),
        *await check_policies(store),
        *await check_schedules(store, facts.workers, facts.now),
    ]


async def check_clock(store: Store) -> Finding:
    """The store's clock decides; ours only matters for times that programs compute."""
    before = utcnow()
    theirs = await store.now()
    after = utcnow()
    doubt = (after - before).total_seconds() / 2
    skew = (theirs - before).total_seconds() - doubt
    side = "ahead of" if skew > 0 else "behind"
    saw = f"the store's clock is {abs(skew):.1f} s {side} this machine's"
    advice = "run NTP on both: run_at and deadlines computed here mean another moment there"
    if abs(skew) - doubt < SKEW_NOTED:
        return Finding("clock", OK, "this machine and the store agree on the time")
    severity = WARNING if abs(skew) - doubt < SKEW_WRONG else PROBLEM
    return Finding("clock", severity, saw, advice)


def check_workers(facts: Facts) -> Iterator[Finding]:
    if facts.alive:
        slots = sum(worker.usable_slots(q) for worker in facts.alive for q in worker.queues)
        yield Finding("workers", OK, f"{len(facts.alive)} alive, {slots} slots")
    else:
        yield _no_worker(facts)
    for worker in facts.workers:
        if not worker.alive:
            yield _lapsed(worker)
        elif worker.stuck:
            yield _stuck(worker)


def _no_worker(facts: Facts) -> Finding:
    live = sum(sum(queue.counts.values()) for queue in facts.queues)
    if live:
        return Finding(
            "workers",
            PROBLEM,
            f"no worker is alive while {live:,} {'job waits' if live == 1 else 'jobs wait'}",
            START_WORKER,
        )
    return Finding("workers", OK, "no worker is alive, and nothing waits for one")


def _lapsed(worker: WorkerInfo) -> Finding:
    since = -(worker.expires_in or 0.0)
    saw = f"worker {worker.name} lapsed {since:.0f} s ago"
    if worker.running:
        saw += f" and still holds {worker.running} running"
    if since < OVERDUE:
        return Finding("workers", WARNING, saw, "a live worker takes its jobs over within seconds")
    severity = PROBLEM if worker.running else WARNING
    return Finding("workers", severity, saw, f"{START_WORKER}; a live one takes over and sweeps it")


def _stuck(worker: WorkerInfo) -> Finding:
    lost = ", ".join(
        f"{stuck} of {worker.queues.get(queue, 0)} slots of queue {queue!r}"
        for queue, stuck in sorted(worker.stuck.items())
    )
    saw = f"worker {worker.name} has lost {lost} to handlers that went on after their time"
    advice = (
        "look for job.handler_stuck in its log and restart it; let coroutines end when they are "
        "cancelled, and run plain functions that may hang with process=True"
    )
    return Finding("workers", WARNING, saw, advice)


def check_queues(facts: Facts) -> Iterator[Finding]:
    found = [finding for queue in facts.queues for finding in _about_queue(queue, facts)]
    yield from found or [Finding("queues", OK, f"{len(facts.queues)} queues, none held up")]


def _about_queue(queue: QueueInfo, facts: Facts) -> Iterator[Finding]:
    ready = queue.counts.get(JobState.READY, 0)
    if not ready:
        return
    are = "job is" if ready == 1 else "jobs are"
    name, waiting = queue.name, f"{ready:,} {are} ready in queue {queue.name!r}"
    if queue.paused:
        advice = f"if that is over: holdfast queues resume {name}"
        yield Finding("queues", WARNING, f"{waiting}, which is paused", advice)
    if facts.alive and not any(name in worker.queues for worker in facts.alive):
        advice = (
            f"start a worker with --queues {name}, or move them to a queue that is served: "
            f"holdfast jobs move --all --queue {name} --to default"
        )
        yield Finding("queues", PROBLEM, f"{waiting} but no live worker serves it", advice)
    elif facts.alive and not queue.paused and (queue.oldest_ready_age or 0.0) > LAGGING:
        saw = f"queue {name!r} lags: its oldest ready job has waited {queue.oldest_ready_age:.0f} s"
        yield Finding("queues", WARNING, saw, "add workers or slots, or look for slow tasks")


async def check_tasks(store: Store, facts: Facts) -> list[Finding]:
    """Ready jobs that stay because no live worker of their queue knows their task."""
    if not facts.alive:
        return []  # that is the finding, and it is said elsewhere
    found = []
    for queue in facts.queues:
        serving = [worker for worker in facts.alive if queue.name in worker.queues]
        if serving and queue.counts.get(JobState.READY):
            known = {task for worker in serving for task in worker.tasks}
            found += await _unknown_tasks(store, queue.name, known)
    return found or [Finding("tasks", OK, "every ready job's task is known to a live worker")]


async def _unknown_tasks(store: Store, queue: str, known: set[str]) -> list[Finding]:
    ready = JobFilter(states=frozenset({JobState.READY}), queues=(queue,))
    of_known = msgspec.structs.replace(ready, tasks=tuple(sorted(known)))
    total = sum((await store.jobs.count(ready)).values())
    if not total or (known and total <= sum((await store.jobs.count(of_known)).values())):
        return []
    page = await store.jobs.page(ready, LOOKED_AT)
    unknown = Counter(job.task for job in page.jobs if job.task not in known)
    return [
        Finding(
            "tasks",
            PROBLEM,
            f"{number:,} ready jobs of task {task!r} in queue {queue!r}: no live worker knows it",
            "deploy a worker whose app has this task, or cancel them: "
            f"holdfast jobs cancel --all --task {task}",
        )
        for task, number in unknown.most_common()
    ]


async def check_running(store: Store, facts: Facts) -> list[Finding]:
    """Running jobs whose worker is gone, and attempts that outlived their time."""
    orphans = await store.jobs.lapsed_leases(LOOKED_AT)
    overdue = await store.jobs.overdue_attempts(LOOKED_AT, slack=OVERDUE)
    found = []
    if orphans:
        saw = f"{_at_least(orphans)} running jobs belong to a worker that is gone"
        severity = WARNING if facts.alive else PROBLEM
        advice = (
            "live workers reclaim them within seconds; look again" if facts.alive else START_WORKER
        )
        found.append(Finding("running", severity, saw, advice))
    if overdue:
        saw = f"{_at_least(overdue)} attempts are past their timeout by more than {OVERDUE:.0f} s"
        advice = (
            "live workers end them; if they stay, look for errors of attempt_timeout in their logs"
        )
        found.append(Finding("running", PROBLEM, saw, advice))
    return found or [Finding("running", OK, "no orphaned and no overdue attempts")]


async def check_waiting(store: Store, facts: Facts) -> list[Finding]:
    """Scheduled jobs that should have been promoted, deadlines that should have been kept."""
    found = []
    late = [job for job in await _old_scheduled(store, facts.now) if _overdue(job, facts.now)]
    advice = START_WORKER if not facts.alive else "look for errors of {} in the workers' logs"
    if late:
        saw = f"{_at_least(late)} scheduled jobs are due by more than {OVERDUE:.0f} s"
        found.append(Finding("waiting", PROBLEM, saw, advice.format("promotion")))
    broken = await _broken_deadlines(store, facts.now)
    if broken:
        saw = f"{_at_least(broken)} live jobs are past their deadline by more than {OVERDUE:.0f} s"
        found.append(Finding("waiting", PROBLEM, saw, advice.format("deadline")))
    return found or [Finding("waiting", OK, "no overdue scheduled jobs or deadlines")]


async def check_policies(store: Store) -> list[Finding]:
    """Live jobs that this version cannot read, or that a worker left for that reason; among the
    newest, since a release that others cannot read yet is a new one."""
    page = await store.jobs.page(JobFilter(states=LIVE), LOOKED_AT)
    found = [(job, problem) for job in page.jobs if (problem := _unread(job))]
    if not found:
        return [Finding("policies", OK, f"every job of {len(page.jobs):,} looked at can be read")]
    shown = "; ".join(f"{job.id}: {problem}" for job, problem in found[:3])
    saw = f"{_at_least(found)} of {len(page.jobs):,} jobs looked at cannot be read: {shown}"
    advice = "run workers of the release that enqueued them, or cancel them"
    return [Finding("policies", WARNING, saw, advice)]


def _unread(job: Job) -> str | None:
    if job.unreadable is not None:
        return str(job.unreadable)
    was_left = job.state is JobState.SCHEDULED and (job.reason or "").startswith(LEFT)
    return job.reason if was_left else None


async def _broken_deadlines(store: Store, now: datetime) -> list[Job]:
    past = await store.jobs.past_deadline(LOOKED_AT)
    jobs = await store.jobs.get([live.id for live in past])
    return [job for job in jobs if job.deadline_at and _passed(job.deadline_at, now) > OVERDUE]


async def _old_scheduled(store: Store, now: datetime) -> tuple[Job, ...]:
    """Those old enough to be overdue. A promotion that stands still leaves all of them, so the
    newest thousand are enough to see it."""
    which = JobFilter(
        states=frozenset({JobState.SCHEDULED, JobState.SUSPENDED}),
        created_before=now - timedelta(seconds=OVERDUE),
    )
    return (await store.jobs.page(which, LOOKED_AT)).jobs


def _overdue(job: Job, now: datetime) -> bool:
    return job.due_at is not None and _passed(job.due_at, now) > OVERDUE


def _passed(moment: datetime, now: datetime) -> float:
    return (now - moment).total_seconds()


def _at_least(found: Sized) -> str:
    number = len(found)
    return f"{number:,} or more" if number >= LOOKED_AT else f"{number:,}"
