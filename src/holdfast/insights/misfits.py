"""Why a job waits whose arguments do not fit the workers that claimed it, and when it will fail."""

from __future__ import annotations

from datetime import datetime

from holdfast.fleet.reading import Note, labels_of, may_read, named, notes
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.reasons import Reason, Who, span_text
from holdfast.job.outcome import LEFT
from holdfast.job.record import Job
from holdfast.job.sealed import shown
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store


async def about_misfit(store: Store, job: Job, now: datetime) -> list[Reason]:
    """What is noted of this ready or scheduled job, if a worker has left it and nothing has
    happened to it since."""
    note = (await notes(store, [job.id])).get(job.id)
    if note is None or note.fence != job.fence:
        return []
    if job.state is JobState.SCHEDULED and not (job.reason or "").startswith(LEFT):
        return []
    workers, labels = await store.workers.find(), (await labels_of(store, [job]))[job.id]
    others = may_read(job, workers, labels, note.tried)
    problem = shown(job.reason or "").removeprefix(LEFT)
    if others:
        names = ", ".join(sorted(named(one.name, one.facts.code) for one in others)[:3])
        fact = f"its arguments do not fit the workers that tried ({note.workers}){problem}"
        advice = f"a live worker with other code may read them: {names}"
        return [Reason("arguments-misfit", fact, Who.WORKER, advice)]
    tried = f"tried: {note.workers}; {_fails(note, now)}"
    fact = f"no live worker can read its arguments{problem}; {tried}"
    advice = (
        "deploy a worker whose code takes them; if they come from a slip, fix it and enqueue the "
        "work again; to give it up before it fails"
    )
    cancel = Action(Noun.JOBS, Verb.CANCEL, job.id)
    return [Reason("arguments-misfit", fact, Who.DEVELOPER, advice, cancel)]


def _fails(note: Note, now: datetime) -> str:
    if note.fails_at <= now:
        return "the next worker that claims the job lets it fail"
    return f"it fails in {span_text(note.fails_at, now)}"
