"""The doctor's checks of workers and of the queues that they serve. They ask nothing of a store, so
that whoever shows the workers can also show what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.insights.workforce import Workforce
from holdfast.job.state import LIVE, JobState
from holdfast.job.text import counted
from holdfast.store.contract.health import Severity
from holdfast.store.contract.queues import EVERY_QUEUE, Paused, QueueInfo
from holdfast.store.contract.workers import WorkerInfo

OVERDUE_SECONDS = 60.0
"""After so long a reconciler has plainly not done its work."""
LAGGING_SECONDS = 300.0
ROLLOUT_SECONDS = 900.0
"""For so long workers of several releases are no surprise: somebody replaces them one by one."""


def alarms(workforce: Workforce, paused: Paused) -> list[Diagnosis]:
    """What is wrong with workers and queues, the worst first."""
    found = (
        *check_workers(workforce),
        *check_queues(workforce),
        *check_pauses(paused, workforce),
    )
    wrong = [each for each in found if each.severity is not Severity.OK]
    return sorted(wrong, key=lambda each: each.severity is not Severity.PROBLEM)


def check_workers(workforce: Workforce) -> Iterator[Diagnosis]:
    alive = workforce.alive
    if alive:
        slots = sum(worker.all_slots for worker in alive)
        draining = len(alive) - len(workforce.available)
        beside = f", {draining} of them draining" if draining else ""
        yield Diagnosis("workers", OK, f"{len(alive)} alive{beside}, {counted(slots, 'slot')}")
    else:
        yield _no_worker(workforce)
    for worker in workforce.workers:
        if not worker.alive:
            yield _lapsed(worker, is_soon_swept=bool(alive))
        elif worker.facts.stuck:
            yield _stuck(worker)
    if len(workforce.versions) > 1:
        yield _version_mix(workforce)


def _no_worker(workforce: Workforce) -> Diagnosis:
    live = sum(queue.counts.get(state, 0) for queue in workforce.queues for state in LIVE)
    if live:
        return Diagnosis(
            "workers",
            PROBLEM,
            f"no worker is alive while {counted(live, 'job waits', 'jobs wait')}",
            "start a worker",
            (START_WORKER,),
        )
    return Diagnosis("workers", OK, "no worker is alive, and nothing waits for one")


def _lapsed(worker: WorkerInfo, *, is_soon_swept: bool) -> Diagnosis:
    """Only a live worker takes over what a lapsed one holds."""
    since = -(worker.expires_in or 0.0)
    saw = f"worker {worker.name} lapsed {since:.0f} s ago"
    if worker.running:
        saw += f" and still holds {worker.running} running"
    if since < OVERDUE_SECONDS and is_soon_swept:
        return Diagnosis(
            "workers", WARNING, saw, "a live worker takes its jobs over within seconds"
        )
    severity = PROBLEM if worker.running and since >= OVERDUE_SECONDS else WARNING
    advice = "start a worker: it takes the jobs over and removes this one from the list"
    return Diagnosis("workers", severity, saw, advice, (START_WORKER,))


def _stuck(worker: WorkerInfo) -> Diagnosis:
    lost = ", ".join(
        f"{stuck} of {worker.slots_for(queue)} slots of queue {queue!r}"
        for queue, stuck in sorted(worker.facts.stuck.items())
    )
    saw = f"worker {worker.name} has lost {lost} to handlers that went on after their time"
    advice = (
        "look for job.handler_stuck in its log and restart it; let coroutines end when they are "
        "cancelled, and run plain functions that may hang with process=True"
    )
    return Diagnosis("workers", WARNING, saw, advice)


def _version_mix(workforce: Workforce) -> Diagnosis:
    mix = ", ".join(f"{len(some)} run {version}" for version, some in workforce.versions.items())
    started = [one.started_at for one in workforce.alive if one.started_at is not None]
    newest = min((workforce.now - moment).total_seconds() for moment in started)
    if newest < ROLLOUT_SECONDS:
        return Diagnosis("workers", OK, f"workers of several releases: {mix}")
    saw = f"workers of several releases, and none is new: {mix}"
    advice = "replace the old ones: a job of a newer release may wait for a worker that can read it"
    return Diagnosis("workers", WARNING, saw, advice)


def check_queues(workforce: Workforce) -> Iterator[Diagnosis]:
    found = [finding for queue in workforce.queues for finding in _about_queue(queue, workforce)]
    queues = counted(len(workforce.queues), "queue")
    yield from found or [Diagnosis("queues", OK, f"{queues}, none held up")]


def _about_queue(queue: QueueInfo, workforce: Workforce) -> Iterator[Diagnosis]:
    ready = queue.counts.get(JobState.READY, 0)
    if not ready:
        return
    name = queue.name
    waiting = f"{counted(ready, 'job is', 'jobs are')} ready in queue {name!r}"
    if queue.paused:
        resume = Action(Noun.QUEUES, Verb.RESUME, name)
        saw = f"{waiting}, which is paused"
        yield Diagnosis("queues", WARNING, saw, "resume it if the pause is over", (resume,))
    if workforce.alive and not workforce.serving(name):
        actions = (
            Action(Noun.WORKERS, Verb.START, name),
            Action(Noun.JOBS, Verb.MOVE, which={"queue": name}, value="default"),
        )
        advice = "start a worker that serves it, or move the jobs to a queue that is served"
        saw = f"{waiting} but no live worker serves it"
        yield Diagnosis("queues", PROBLEM, saw, advice, actions)
    elif workforce.alive and not queue.paused and (queue.oldest_ready_age or 0) > LAGGING_SECONDS:
        saw = f"queue {name!r} lags: its oldest ready job has waited {queue.oldest_ready_age:.0f} s"
        yield Diagnosis("queues", WARNING, saw, "add workers or slots, or look for slow tasks")


def check_pauses(paused: Paused, workforce: Workforce) -> Iterator[Diagnosis]:
    """Jobs that wait because all queues are paused, or their task is."""
    if paused.everything:
        ready = sum(queue.counts.get(JobState.READY, 0) for queue in workforce.queues)
        saw = f"every queue is paused, while {counted(ready, 'job is', 'jobs are')} ready"
        resume = Action(Noun.QUEUES, Verb.RESUME, EVERY_QUEUE)
        yield Diagnosis("queues", WARNING, saw, "resume them if the pause is over", (resume,))
    for task in paused.tasks:
        resume = Action(Noun.TASKS, Verb.RESUME, task)
        saw = f"task {task!r} is paused"
        yield Diagnosis("tasks", WARNING, saw, "resume it if the pause is over", (resume,))
