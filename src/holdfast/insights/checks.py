"""The doctor's checks of workers, queues and jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.job.outcome import LEFT, has_started_in_time
from holdfast.job.record import Job
from holdfast.job.state import LIVE, JobState
from holdfast.store.contract.records import EVERY_QUEUE, JobFilter, QueueInfo, WorkerInfo
from holdfast.store.contract.store import Store

OVERDUE_SECONDS = 60.0
"""After so long a reconciler has plainly not done its work."""
LONG_AGO = f"by more than {OVERDUE_SECONDS:.0f} s"
LAGGING_SECONDS = 300.0
CHECKED_JOBS = 1_000
"""The most jobs that one check reads."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What several checks need, read once."""

    now: datetime
    queues: list[QueueInfo]
    workers: list[WorkerInfo]

    @property
    def alive(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.alive]


def check_workers(facts: Facts) -> Iterator[Diagnosis]:
    if facts.alive:
        slots = sum(worker.usable_slots(q) for worker in facts.alive for q in worker.queues)
        yield Diagnosis("workers", OK, f"{len(facts.alive)} alive, {slots} slots")
    else:
        yield _no_worker(facts)
    for worker in facts.workers:
        if not worker.alive:
            yield _lapsed(worker)
        elif worker.stuck:
            yield _stuck(worker)


def _no_worker(facts: Facts) -> Diagnosis:
    live = sum(sum(queue.counts.values()) for queue in facts.queues)
    if live:
        return Diagnosis(
            "workers",
            PROBLEM,
            f"no worker is alive while {live:,} {'job waits' if live == 1 else 'jobs wait'}",
            "start a worker",
            (START_WORKER,),
        )
    return Diagnosis("workers", OK, "no worker is alive, and nothing waits for one")


def _lapsed(worker: WorkerInfo) -> Diagnosis:
    since = -(worker.expires_in or 0.0)
    saw = f"worker {worker.name} lapsed {since:.0f} s ago"
    if worker.running:
        saw += f" and still holds {worker.running} running"
    if since < OVERDUE_SECONDS:
        return Diagnosis(
            "workers", WARNING, saw, "a live worker takes its jobs over within seconds"
        )
    severity = PROBLEM if worker.running else WARNING
    advice = "start a worker: it takes the jobs over and removes this one from the list"
    return Diagnosis("workers", severity, saw, advice, (START_WORKER,))


def _stuck(worker: WorkerInfo) -> Diagnosis:
    lost = ", ".join(
        f"{stuck} of {worker.slots_for(queue)} slots of queue {queue!r}"
        for queue, stuck in sorted(worker.stuck.items())
    )
    saw = f"worker {worker.name} has lost {lost} to handlers that went on after their time"
    advice = (
        "look for job.handler_stuck in its log and restart it; let coroutines end when they are "
        "cancelled, and run plain functions that may hang with process=True"
    )
    return Diagnosis("workers", WARNING, saw, advice)


def check_queues(facts: Facts) -> Iterator[Diagnosis]:
    found = [finding for queue in facts.queues for finding in _about_queue(queue, facts)]
    yield from found or [Diagnosis("queues", OK, f"{len(facts.queues)} queues, none held up")]


def _about_queue(queue: QueueInfo, facts: Facts) -> Iterator[Diagnosis]:
    ready = queue.counts.get(JobState.READY, 0)
    if not ready:
        return
    are = "job is" if ready == 1 else "jobs are"
    name, waiting = queue.name, f"{ready:,} {are} ready in queue {queue.name!r}"
    if queue.paused:
        resume = Action(Noun.QUEUES, Verb.RESUME, name)
        saw = f"{waiting}, which is paused"
        yield Diagnosis("queues", WARNING, saw, "resume it if the pause is over", (resume,))
    if facts.alive and not any(worker.serves(name) for worker in facts.alive):
        actions = (
            Action(Noun.WORKERS, Verb.START, name),
            Action(Noun.JOBS, Verb.MOVE, which={"queue": name}, value="default"),
        )
        advice = "start a worker that serves it, or move the jobs to a queue that is served"
        saw = f"{waiting} but no live worker serves it"
        yield Diagnosis("queues", PROBLEM, saw, advice, actions)
    elif facts.alive and not queue.paused and (queue.oldest_ready_age or 0.0) > LAGGING_SECONDS:
        saw = f"queue {name!r} lags: its oldest ready job has waited {queue.oldest_ready_age:.0f} s"
        yield Diagnosis("queues", WARNING, saw, "add workers or slots, or look for slow tasks")


async def check_pauses(store: Store, facts: Facts) -> list[Diagnosis]:
    """Jobs that wait because all queues are paused, or their task is."""
    paused, found = await store.queues.paused(), []
    if paused.everything:
        ready = sum(queue.counts.get(JobState.READY, 0) for queue in facts.queues)
        saw = f"every queue is paused, while {ready:,} jobs are ready"
        resume = Action(Noun.QUEUES, Verb.RESUME, EVERY_QUEUE)
        found.append(
            Diagnosis("queues", WARNING, saw, "resume them if the pause is over", (resume,))
        )
    for task in paused.tasks:
        resume = Action(Noun.TASKS, Verb.RESUME, task)
        saw = f"task {task!r} is paused"
        found.append(Diagnosis("tasks", WARNING, saw, "resume it if the pause is over", (resume,)))
    return found


async def check_tasks(store: Store, facts: Facts) -> list[Diagnosis]:
    """Ready jobs that nobody claims because no live worker of their queue knows their task."""
    if not facts.alive:
        return []  # `check_workers` says so
    found = []
    for queue in facts.queues:
        serving = [worker for worker in facts.alive if worker.serves(queue.name)]
        if serving and queue.counts.get(JobState.READY):
            known = {task for worker in serving for task in worker.tasks}
            found += await _unknown_tasks(store, queue.name, known)
    return found or [Diagnosis("tasks", OK, "every ready job's task is known to a live worker")]


async def _unknown_tasks(store: Store, queue: str, known: set[str]) -> list[Diagnosis]:
    ready = JobFilter(states=frozenset({JobState.READY}), queues=(queue,))
    of_known = msgspec.structs.replace(ready, tasks=tuple(sorted(known)))
    total = sum((await store.jobs.count(ready)).values())
    if not total or (known and total <= sum((await store.jobs.count(of_known)).values())):
        return []
    page = await store.jobs.page(ready, CHECKED_JOBS)
    unknown = Counter(job.task for job in page.jobs if job.task not in known)
    return [
        Diagnosis(
            "tasks",
            PROBLEM,
            f"{number:,} ready jobs of task {task!r} in queue {queue!r}: no live worker knows it",
            "deploy a worker whose app has this task, or cancel the jobs",
            (Action(Noun.JOBS, Verb.CANCEL, which={"task": task}),),
        )
        for task, number in unknown.most_common()
    ]


async def check_running(store: Store, facts: Facts) -> list[Diagnosis]:
    """Running jobs whose worker is gone, and attempts that outlived their time."""
    orphans = await store.jobs.lapsed_leases(CHECKED_JOBS)
    overdue = await store.jobs.overdue_attempts(CHECKED_JOBS, slack=OVERDUE_SECONDS)
    found = []
    if orphans:
        saw = f"{_at_least(orphans)} running jobs belong to a worker that is gone"
        found.append(
            Diagnosis("running", WARNING, saw, "live workers reclaim them within seconds")
            if facts.alive
            else Diagnosis("running", PROBLEM, saw, "start a worker", (START_WORKER,))
        )
    if overdue:
        saw = f"{_at_least(overdue)} attempts are past their timeout {LONG_AGO}"
        advice = (
            "live workers end them; if they stay, look for errors of attempt_timeout in their logs"
        )
        found.append(Diagnosis("running", PROBLEM, saw, advice))
    return found or [Diagnosis("running", OK, "no orphaned and no overdue attempts")]


async def check_waiting(store: Store, facts: Facts) -> list[Diagnosis]:
    """Scheduled jobs that should have been promoted, deadlines that should have been kept."""
    found = []
    late = [job for job in await _old_scheduled(store, facts.now) if _overdue(job, facts.now)]
    if late:
        saw = f"{_at_least(late)} scheduled jobs are due {LONG_AGO}"
        found.append(_not_mended(saw, "promotion", facts))
    broken = await _broken_deadlines(store, facts.now)
    if broken:
        saw = f"{_at_least(broken)} live jobs are past their deadline {LONG_AGO}"
        found.append(_not_mended(saw, "deadline", facts))
    return found or [Diagnosis("waiting", OK, "no overdue scheduled jobs or deadlines")]


def _not_mended(saw: str, reconciler: str, facts: Facts) -> Diagnosis:
    if not facts.alive:
        return Diagnosis("waiting", PROBLEM, saw, "start a worker", (START_WORKER,))
    advice = f"look for errors of {reconciler} in the workers' logs"
    return Diagnosis("waiting", PROBLEM, saw, advice)


async def check_policies(store: Store) -> list[Diagnosis]:
    """Live jobs that this version cannot read, or that a worker gave back because it could not.
    Only the newest jobs are read: a release that older workers cannot read is a new one."""
    page = await store.jobs.page(JobFilter(states=LIVE), CHECKED_JOBS)
    found = [(job, problem) for job in page.jobs if (problem := _unread(job))]
    if not found:
        return [Diagnosis("policies", OK, f"all of {len(page.jobs):,} jobs examined can be read")]
    shown = "; ".join(f"{job.id}: {problem}" for job, problem in found[:3])
    saw = f"{_at_least(found)} of {len(page.jobs):,} jobs examined cannot be read: {shown}"
    advice = "run workers of the release that enqueued them, or cancel them"
    return [Diagnosis("policies", WARNING, saw, advice)]


def _unread(job: Job) -> str | None:
    if job.unreadable is not None:
        return str(job.unreadable)
    was_left = job.state is JobState.SCHEDULED and (job.reason or "").startswith(LEFT)
    return job.reason if was_left else None


async def _broken_deadlines(store: Store, now: datetime) -> list[Job]:
    past = await store.jobs.past_deadline(CHECKED_JOBS)
    jobs = await store.jobs.get([live.id for live in past if not has_started_in_time(live)])
    return [
        job for job in jobs if job.deadline_at and _passed(job.deadline_at, now) > OVERDUE_SECONDS
    ]


async def _old_scheduled(store: Store, now: datetime) -> list[Job]:
    """Scheduled and suspended jobs that are old enough to be overdue. If promotion stands still,
    all of them stay, so the newest thousand are enough to see it."""
    which = JobFilter(
        states=frozenset({JobState.SCHEDULED, JobState.SUSPENDED}),
        created_before=now - timedelta(seconds=OVERDUE_SECONDS),
    )
    found, cursor = list[Job](), None
    while len(found) < CHECKED_JOBS:
        page = await store.jobs.page(which, CHECKED_JOBS - len(found), cursor)
        found += page.jobs
        if (cursor := page.next_cursor) is None:
            break
    return found


def _overdue(job: Job, now: datetime) -> bool:
    return job.due_at is not None and _passed(job.due_at, now) > OVERDUE_SECONDS


def _passed(moment: datetime, now: datetime) -> float:
    return (now - moment).total_seconds()


def _at_least(found: Sized) -> str:
    number = len(found)
    return f"{number:,} or more" if number >= CHECKED_JOBS else f"{number:,}"
