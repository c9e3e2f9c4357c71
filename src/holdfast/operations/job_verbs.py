"""The verbs of operators on jobs: which states each applies to, and how it changes jobs.

`Client.apply` uses such a row on one job, `Client.apply_all` on every job of a filter, with a dry
run that only counts; an operation uses it page by page.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from holdfast.background.cancelling import cancel_jobs
from holdfast.insights.actions import Verb
from holdfast.job import checks
from holdfast.job.checks import check_name, check_priority
from holdfast.job.state import ENDED, LIVE, WAITING, JobState
from holdfast.operations.rows import JobVerb, Parameter


def _queue(value: object) -> object:
    check_name("queue", value)
    return value


def _priority(value: object) -> object:
    check_priority(value)
    return value


def _due(value: object) -> float | datetime:
    if isinstance(value, datetime):
        return checks.moment("at", value)
    return checks.wait("delay", value)


CANCEL = JobVerb(
    verb=Verb.CANCEL,
    about="Cancel live jobs: waiting ones end now, running ones are told to.",
    done="cancelled",
    fits="a live job",
    states=LIVE,
    change=lambda jobs, ids, _, by: cancel_jobs(jobs, ids, by=by),
    refuses=False,
    undo=Verb.REQUEUE,
    applied=lambda job, _: job is not None and job.state is JobState.CANCELLED,
    marked=lambda job, _: job.cancel_requested_at is not None,
    was=lambda job: job.state.value,
)
REQUEUE = JobVerb(
    verb=Verb.REQUEUE,
    about="Run ended jobs again, with all their attempts.",
    done="requeued",
    fits="an ended job",
    states=ENDED,
    change=lambda jobs, ids, _, by: jobs.requeue(ids, by),
    by_default=frozenset({JobState.FAILED}),
    undo=Verb.CANCEL,
    applied=lambda job, _: job is not None,
)
RESUME = JobVerb(
    verb=Verb.RESUME,
    about="Let suspended jobs go on now.",
    done="resumed",
    fits="a suspended job",
    states=frozenset({JobState.SUSPENDED}),
    change=lambda jobs, ids, _, by: jobs.resume(ids, by),
    applied=lambda job, _: job is not None,
)
RESCHEDULE = JobVerb(
    verb=Verb.RESCHEDULE,
    about="Make scheduled or ready jobs due after a delay, or at a time.",
    done="rescheduled",
    fits="a ready or scheduled job",
    states=frozenset({JobState.READY, JobState.SCHEDULED}),
    change=lambda jobs, ids, due, by: jobs.reschedule(ids, due, by),
    by_default=frozenset({JobState.SCHEDULED}),
    arguments=(Parameter("due", "Seconds from now, or an aware datetime.", float, _due),),
    undo=Verb.RESCHEDULE,
    applied=lambda job, _: job is not None and job.state in (JobState.READY, JobState.SCHEDULED),
    marked=lambda job, due: job.due_at is not None and job.due_at == due,
    was=lambda job: None if job.due_at is None else job.due_at.isoformat(),
)
DELETE = JobVerb(
    verb=Verb.DELETE,
    about="Remove ended jobs with their history.",
    done="deleted",
    fits="an ended job",
    states=ENDED,
    change=lambda jobs, ids, _, by: jobs.delete(ids),
    danger=True,
    applied=lambda job, _: job is None,
)
MOVE = JobVerb(
    verb=Verb.MOVE,
    about="Put waiting jobs in another queue.",
    done="moved",
    fits="a waiting job",
    states=WAITING,
    change=lambda jobs, ids, queue, by: jobs.move(ids, queue, by),
    arguments=(Parameter("queue", "The queue to put them in.", str, _queue),),
    undo=Verb.MOVE,
    applied=lambda job, queue: job is not None and job.queue == queue,
    marked=lambda job, queue: job.queue == queue,
    was=lambda job: job.queue,
)
REPRIORITISE = JobVerb(
    verb=Verb.REPRIORITISE,
    about="Give waiting jobs another priority.",
    done="reprioritised",
    fits="a waiting job",
    states=WAITING,
    change=lambda jobs, ids, priority, by: jobs.reprioritise(ids, priority, by),
    arguments=(Parameter("priority", "The new priority: lower runs first.", int, _priority),),
    undo=Verb.REPRIORITISE,
    applied=lambda job, priority: job is not None and job.priority == priority,
    marked=lambda job, priority: job.priority == priority,
    was=lambda job: job.priority,
)

JOB_VERBS: Mapping[Verb, JobVerb] = {
    row.verb: row for row in (REQUEUE, CANCEL, RESUME, RESCHEDULE, DELETE, MOVE, REPRIORITISE)
}
