"""What can stand between a job and its next attempt, and who can remove it.

Each reason is a fact read from the store, never a guess.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.fleet.reading import labels_of
from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.job.checks import PRIORITY_LIMIT
from holdfast.job.outcome import LEFT, NO_READER, has_started_in_time
from holdfast.job.policy import readable_part
from holdfast.job.record import Job
from holdfast.job.sealed import shown
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.queues import EVERY_QUEUE, Paused, QueueInfo
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

DEPLOY = "deploy a worker whose code takes"


class Who(StrEnum):
    """Who can remove an obstacle."""

    TIME = "time"
    WORKER = "a worker"
    OPERATOR = "an operator"
    DEVELOPER = "a developer"
    PEOPLE = "those who were asked"
    NOBODY = "nobody"


class Reason(msgspec.Struct, frozen=True):
    """One thing that keeps the job from running: a stable code, the fact, and its remedy.

    `advice` says in words what to do or what will happen. `action` is the verb that removes the
    obstacle, if there is such a verb.
    """

    code: str
    fact: str
    who: Who
    advice: str = ""
    action: Action | None = None


def about_deadline(job: Job, now: datetime) -> list[Reason]:
    if job.deadline_at is None or job.ended or job.deadline_at > now or has_started_in_time(job):
        return []
    start_only = readable_part(job.policy).start_only
    which = "the time by which it had to start" if start_only else "its deadline"
    fact = f"{which} passed {span_text(now, job.deadline_at)} ago: it will be expired"
    return [Reason("past-deadline", fact, Who.TIME, "a live worker expires it at its next sweep")]


def about_policy(job: Job) -> list[Reason]:
    if job.ended or job.unreadable is None:
        return []
    advice = "run a worker of the release that enqueued it, or cancel it"
    cancel = _on_job(Verb.CANCEL, job)
    return [Reason("unreadable", str(job.unreadable), Who.OPERATOR, advice, cancel)]


def _on_job(verb: Verb, job: Job, value: float | None = None) -> Action:
    return Action(Noun.JOBS, verb, job.id, value=value)


def about_ended(job: Job) -> Reason:
    why = f": {job.reason}" if job.reason else ""
    fact = f"it has ended as {job.state}{why}"
    if job.state is JobState.SUCCEEDED:
        return Reason("ended", fact, Who.NOBODY)
    again = _on_job(Verb.REQUEUE, job)
    if was_unread(job.reason):
        return Reason(
            "ended", fact, Who.DEVELOPER, f"{DEPLOY} its arguments, then run it again", again
        )
    return Reason("ended", fact, Who.OPERATOR, "run it again", again)


def was_unread(reason: str | None) -> bool:
    """Whether a job failed because its arguments fitted no live worker."""
    return NO_READER in shown(reason or "")


def about_scheduled(job: Job, now: datetime, workers: list[WorkerInfo]) -> list[Reason]:
    assert job.due_at is not None, "a scheduled job has a due time"
    why = job.reason or "it was enqueued for later"
    if job.due_at > now:
        fact = f"due in {span_text(job.due_at, now)} ({why})"
        if why.startswith(LEFT):  # no worker would read it any better at once
            return [Reason("not-due", fact, Who.TIME, "a worker looks at it again then")]
        at_once = _on_job(Verb.RESCHEDULE, job, 0)
        return [Reason("not-due", fact, Who.TIME, "run it now instead", at_once)]
    fact = f"due since {span_text(now, job.due_at)} but not yet promoted"
    if any(worker.alive for worker in workers):
        return [Reason("not-promoted", fact, Who.WORKER, "the next sweep promotes it")]
    fact = f"{fact}: no worker is alive"
    return [Reason("no-workers", fact, Who.OPERATOR, "start a worker", START_WORKER)]


def about_suspended(job: Job, now: datetime) -> list[Reason]:
    resume = _on_job(Verb.RESUME, job)
    if job.due_at is None:
        return [Reason("suspended", "it waits to be resumed", Who.OPERATOR, "resume it", resume)]
    left = span_text(job.due_at, now)
    if job.reason in (None, "suspended"):
        fact = f"it sleeps for another {left}"
    else:
        fact = f"{job.reason} until {job.due_at:%Y-%m-%d %H:%M:%S} UTC, for another {left}"
    return [Reason("suspended", fact, Who.TIME, "resume it now instead", resume)]


def about_running(job: Job, workers: list[WorkerInfo]) -> list[Reason]:
    worker = next((worker for worker in workers if worker.id == job.worker_id), None)
    if worker is None or not worker.alive:
        name = worker.name if worker else job.worker_id
        fact = f"its worker {name} is gone; the job is given to another"
        advice = "start a worker if none is alive"
        return [Reason("worker-lost", fact, Who.WORKER, advice, START_WORKER)]
    if job.cancel_requested_at is not None:
        fact = f"it runs on {worker.name} and was told to cancel"
        return [Reason("cancelling", fact, Who.WORKER, "the handler must react to the cancel")]
    return []


async def about_ready(store: Store, job: Job) -> list[Reason]:
    """What keeps a ready job from being claimed, and how many are ahead of it."""
    ahead, reasons = await asyncio.gather(store.jobs.ahead(job.id), obstacles(store, job))
    if ahead and job.ties & Tie.PERMITS:
        fact = f"{ahead} ready jobs of queue {job.queue!r} have their turns before it"
        reasons.append(Reason("not-its-turn", fact, Who.WORKER, *_way_ahead(job)))
    elif ahead:
        fact = f"{ahead} ready jobs are ahead of it in queue {job.queue!r}"
        reasons.append(Reason("in-line", fact, Who.WORKER, *_way_ahead(job)))
    return reasons or [Reason("next", "a worker claims it with its next claim", Who.WORKER)]


async def obstacles(store: Store, job: Job) -> list[Reason]:
    """What keeps every ready job of this queue and task from being claimed."""
    around = await _around(store, job)
    service = _about_service(job, around.workers, around.labels)
    room = service or _about_room(job, around.queue, around.workers)
    return [*_about_pauses(job, around.paused), *_about_queue(job, around.queue), *room]


async def closed_ways(store: Store, job: Job) -> list[Reason]:
    """What else keeps a job from being claimed that waits for a limit: it would still wait when the
    limit has room. Slots are no such thing: they come and go as limits do."""
    around = await _around(store, job)
    service = _about_service(job, around.workers, around.labels)
    return [*_about_pauses(job, around.paused), *_about_queue(job, around.queue), *service]


class _Around(NamedTuple):
    """What a ready job is claimed from, and by whom."""

    queue: QueueInfo | None
    workers: list[WorkerInfo]
    paused: Paused
    labels: frozenset[str]


async def _around(store: Store, job: Job) -> _Around:
    queues, workers, paused, labels = await asyncio.gather(
        store.queues.find([job.queue]),
        store.workers.find(),
        store.queues.paused(),
        labels_of(store, [job]),
    )
    return _Around(queues[0] if queues else None, workers, paused, labels[job.id])


def _about_pauses(job: Job, paused: Paused) -> list[Reason]:
    reasons = []
    if paused.everything:
        resume = Action(Noun.QUEUES, Verb.RESUME, EVERY_QUEUE)
        fact = "every queue is paused"
        reasons.append(Reason("all-paused", fact, Who.OPERATOR, "resume all queues", resume))
    if job.task in paused.tasks:
        resume = Action(Noun.TASKS, Verb.RESUME, job.task)
        fact = f"task {job.task!r} is paused"
        reasons.append(Reason("task-paused", fact, Who.OPERATOR, "resume the task", resume))
    return reasons


def _about_queue(job: Job, queue: QueueInfo | None) -> list[Reason]:
    reasons = []
    resume = Action(Noun.QUEUES, Verb.RESUME, job.queue)
    if queue is not None and queue.paused:
        fact = f"queue {job.queue!r} is paused"
        reasons.append(Reason("queue-paused", fact, Who.OPERATOR, "resume the queue", resume))
    if queue is not None and queue.cooling_for is not None:
        fact = f"queue {job.queue!r} cools down for {queue.cooling_for:.1f} s after a throttle"
        advice = "end the cool-down by resuming the queue"
        reasons.append(Reason("queue-cooling", fact, Who.TIME, advice, resume))
    return reasons


def _about_service(job: Job, workers: list[WorkerInfo], labels: frozenset[str]) -> list[Reason]:
    if not any(worker.alive for worker in workers):
        fact, advice = "no worker is alive", "start a worker"
        return [Reason("no-workers", fact, Who.OPERATOR, advice, START_WORKER)]
    of_queue = [worker for worker in workers if worker.available and worker.serves(job.queue)]
    if not of_queue:
        draining = any(one.alive and one.serves(job.queue) for one in workers)
        but = " but those that drain" if draining else ""
        fact = f"no live worker{but} serves queue {job.queue!r}"
        start = Action(Noun.WORKERS, Verb.START, job.queue)
        advice = "start a worker that serves it"
        return [Reason("queue-unserved", fact, Who.OPERATOR, advice, start)]
    if not any(job.task in worker.tasks for worker in of_queue):
        fact = f"no live worker runs it: none that serves {job.queue!r} knows task {job.task!r}"
        return [Reason("task-unknown", fact, Who.DEVELOPER, "deploy a worker with this task")]
    knowing = [worker for worker in of_queue if job.task in worker.tasks]
    if not any(worker.can_do(labels) for worker in knowing):
        needs = ", ".join(sorted(labels)) or "none"
        fact = f"no live worker that serves {job.queue!r} and knows the task has the labels {needs}"
        advice = "start a worker that has them"
        if any(labels <= set(worker.facts.labels) for worker in knowing):
            only = sorted({label for worker in knowing for label in worker.facts.only})
            fact = (
                f"the live workers that serve {job.queue!r} and know the task take only jobs that "
            )
            fact += f"require {', '.join(only)}; it requires {needs}"
            advice = "start a worker without only="
        value = ",".join(sorted(labels)) or None
        start = Action(Noun.WORKERS, Verb.START, job.queue, value=value)
        return [Reason("no-capable-worker", fact, Who.OPERATOR, advice, start)]
    if all(job.task in worker.facts.resting for worker in of_queue if job.task in worker.tasks):
        fact = f"the pool of task {job.task!r} rests: its children failed again and again"
        advice = "mend the program of the pool; the workers' logs have its last words"
        return [Reason("pool-rests", fact, Who.DEVELOPER, advice)]
    return []


def _about_room(job: Job, queue: QueueInfo | None, workers: list[WorkerInfo]) -> list[Reason]:
    able = [w for w in workers if w.available and w.serves(job.queue) and job.task in w.tasks]
    slots = sum(worker.usable_slots(job.queue) for worker in able)
    stuck = sum(worker.stuck_for(job.queue) for worker in able)
    running = queue.counts.get(JobState.RUNNING, 0) if queue is not None else 0
    if running < slots:
        return []
    lost = f"; {stuck} more are lost to stuck handlers" if stuck else ""
    fact = f"all {slots} slots for queue {job.queue!r} are busy{lost}"
    return [Reason("no-free-slot", fact, Who.WORKER, "add workers or slots")]


def _way_ahead(job: Job) -> tuple[str, Action | None]:
    """How to get ahead of the others, if there is a priority before the job's own."""
    if job.priority <= -PRIORITY_LIMIT:
        return "", None
    first = _on_job(Verb.REPRIORITISE, job, job.priority - 1)
    return "give it a lower priority number, and it is claimed first", first


def span_text(later: datetime, earlier: datetime) -> str:
    """How long it is from one moment to the other, 0 if they are the other way round."""
    return seconds_text(max(0.0, (later - earlier).total_seconds()))


def seconds_text(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"
