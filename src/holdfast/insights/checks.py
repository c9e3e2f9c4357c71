"""The doctor's checks of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from datetime import datetime, timedelta

import msgspec

from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.insights.worker_checks import OVERDUE_SECONDS
from holdfast.insights.workforce import Workforce
from holdfast.job.outcome import LEFT, has_started_in_time
from holdfast.job.record import Job
from holdfast.job.state import LIVE, JobState
from holdfast.job.text import counted
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store

LONG_AGO = f"by more than {OVERDUE_SECONDS:.0f} s"
CHECKED_JOBS = 1_000
"""The most jobs that one check reads."""


async def check_tasks(store: Store, workforce: Workforce) -> list[Diagnosis]:
    """Ready jobs that nobody claims because no live worker of their queue knows their task."""
    if not workforce.alive:
        return []  # `check_workers` says so
    found = []
    for queue in workforce.queues:
        serving = workforce.serving(queue.name)
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


async def check_running(store: Store, workforce: Workforce) -> list[Diagnosis]:
    """Running jobs whose worker is gone, and attempts that outlived their time."""
    orphans = await store.jobs.lapsed_leases(CHECKED_JOBS)
    overdue = await store.jobs.overdue_attempts(CHECKED_JOBS, slack=OVERDUE_SECONDS)
    found = []
    if orphans:
        belonging = _counted(orphans, "running job belongs", "running jobs belong")
        saw = f"{belonging} to a worker that is gone"
        found.append(
            Diagnosis("running", WARNING, saw, "live workers reclaim them within seconds")
            if workforce.alive
            else Diagnosis("running", PROBLEM, saw, "start a worker", (START_WORKER,))
        )
    if overdue:
        late = _counted(overdue, "attempt is past its", "attempts are past their")
        saw = f"{late} timeout {LONG_AGO}"
        advice = (
            "live workers end them; if they stay, look for errors of attempt_timeout in their logs"
        )
        found.append(Diagnosis("running", PROBLEM, saw, advice))
    return found or [Diagnosis("running", OK, "no orphaned and no overdue attempts")]


async def check_waiting(store: Store, workforce: Workforce) -> list[Diagnosis]:
    """Scheduled jobs that should have been promoted, deadlines that should have been kept."""
    found = []
    late = [
        job for job in await _old_scheduled(store, workforce.now) if _overdue(job, workforce.now)
    ]
    if late:
        due = _counted(late, "scheduled job is", "scheduled jobs are")
        saw = f"{due} due {LONG_AGO}"
        found.append(_not_mended(saw, "promotion", workforce))
    broken = await _broken_deadlines(store, workforce.now)
    if broken:
        past = _counted(broken, "live job is past its", "live jobs are past their")
        saw = f"{past} deadline {LONG_AGO}"
        found.append(_not_mended(saw, "deadline", workforce))
    return found or [Diagnosis("waiting", OK, "no overdue scheduled jobs or deadlines")]


def _not_mended(saw: str, reconciler: str, workforce: Workforce) -> Diagnosis:
    if not workforce.alive:
        return Diagnosis("waiting", PROBLEM, saw, "start a worker", (START_WORKER,))
    advice = f"look for errors of {reconciler} in the workers' logs"
    return Diagnosis("waiting", PROBLEM, saw, advice)


async def check_policies(store: Store) -> list[Diagnosis]:
    """Live jobs that this version cannot read, or that a worker gave back because it could not.
    Only the newest jobs are read: a release that older workers cannot read is a new one."""
    page = await store.jobs.page(JobFilter(states=LIVE), CHECKED_JOBS)
    found = [(job, problem) for job in page.jobs if (problem := _unread(job))]
    if not found:
        return [Diagnosis("policies", OK, _well(len(page.jobs)))]
    shown = "; ".join(f"{job.id}: {problem}" for job, problem in found[:3])
    examined = f"{counted(len(page.jobs), 'job')} examined"
    saw = f"{_at_least(found)} of {examined} cannot be read: {shown}"
    advice = "run workers of the release that enqueued them, or cancel them"
    return [Diagnosis("policies", WARNING, saw, advice)]


def _well(jobs: int) -> str:
    if not jobs:
        return "no live jobs"
    return counted(jobs, "job examined can be read", "jobs examined can all be read")


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


def _counted(found: Sized, thing: str, things: str) -> str:
    return f"{_at_least(found)} {thing if len(found) == 1 else things}"


def _at_least(found: Sized) -> str:
    number = len(found)
    return f"{number:,} or more" if number >= CHECKED_JOBS else f"{number:,}"
