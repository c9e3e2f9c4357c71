"""What is said about jobs that wait for signals: by `explain`, and by the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.flow.model import FlowId
from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.calls import about_call
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.insights.reasons import Reason, Who, span_text
from holdfast.insights.unproven import advice_text, fact_text, proving_keys, unproven
from holdfast.insights.votes import about_votes
from holdfast.job.call import called_flow
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.signal import SignalWait, one_signal
from holdfast.job.step import Step
from holdfast.job.text import counted
from holdfast.job.ties import Tie
from holdfast.job.vote import VoteName, read_vote_signal
from holdfast.store.contract.signals import overlooked
from holdfast.store.contract.store import Store

CHECKED_WAITS = 500
SHOWN = 5


async def about_signals(store: Store, job: Job, now: datetime) -> list[Reason]:
    """What a suspended job waits for: signals, and what it has called. Nothing if it waits for
    neither."""
    if not job.ties & Tie.STEPS:
        return []
    steps = (await store.steps.load([job.id])).get(job.id, [])
    newest = max((step.fence for step in steps), default=0)
    waits = [step for step in steps if step.awaits is not None and step.fence == newest]
    if not waits or newest != job.fence:
        return []
    signals = (await store.signals.of([job.id])).get(job.id, [])
    votes = about_votes(waits, steps, signals, await _signing_keys(store, job, waits), now)
    waits = [step for step in waits if read_vote_signal(step.awaits or "") is None]
    kept = [one.name for one in signals if one.taken_by is None]
    awaited = {step.awaits for step in waits}
    others = [one for one in kept if one not in awaited and read_vote_signal(one) is None]
    others = [one for one in others if called_flow(one) is None]
    # The waits for several signals at once say the same of each of them.
    of_each = {step.message or step.awaits: step for step in reversed(waits)}
    told = [await _about(store, job, step, now, others) for step in reversed(of_each.values())]
    return votes + told


async def _signing_keys(store: Store, job: Job, waits: Sequence[Step]) -> set[str]:
    """The ids of the keys by which workers of the job can prove votes, if it waits for votes."""
    if all(read_vote_signal(step.awaits or "") is None for step in waits):
        return set()
    return (await proving_keys(store, [job]))[job.id]


async def _about(
    store: Store, job: Job, wait: Step, now: datetime, others: Sequence[str]
) -> Reason:
    if (flow := called_flow(wait.awaits)) is not None:
        return await about_call(store, job, wait, FlowId(flow), now)
    return _reason(job, wait, now, others)


def _reason(job: Job, wait: Step, now: datetime, others: Sequence[str]) -> Reason:
    awaited = wait.message or one_signal(wait.awaits or "")
    fact = f"it waits for {awaited} since {span_text(now, wait.at)}"
    if others:
        names = ", ".join(map(repr, dict.fromkeys(others[:SHOWN])))
        fact += f" ({len(others)} other {'signals' if len(others) > 1 else 'signal'} kept: {names})"
    if wait.until is not None:
        fact += f"; {span_text(wait.until, now)} left, then the wait has timed out"
    send = Action(Noun.JOBS, Verb.SIGNAL, job.id, value=wait.awaits)
    advice = "whoever knows the answer sends it"
    return Reason("awaits-signal", fact, Who.OPERATOR, advice, send)


async def check_signals(store: Store) -> list[Diagnosis]:
    """Whether a job waits for what it was sent. A job that is on its way right now may have been
    woken since: it is asked for again."""
    waits = await store.signals.waits(CHECKED_WAITS)
    found = await overlooked(store.signals, waits)
    if found:
        again = [one for one in await store.signals.waits(CHECKED_WAITS) if one.id in set(found)]
        found = await overlooked(store.signals, again)
    if not found:
        if unproven_votes := await _check_votes(store, waits):
            return unproven_votes
        count = len({wait.id for wait in waits if called_flow(wait.signal) is None})
        waiting = counted(count, "job waits", "jobs wait")
        said = f"{waiting} for signals, and none has come" if count else "no job waits for a signal"
        return [Diagnosis("signals", OK, said)]
    waiting = counted(len(found), "job waits", "jobs wait")
    saw = f"{waiting} for a signal that was sent, {found[0]} is one"
    advice = "start any worker of this store: it wakes them within a minute; report this as a bug"
    return [Diagnosis("signals", PROBLEM, saw, advice, (START_WORKER,))]


async def _check_votes(store: Store, waits: Sequence[SignalWait]) -> list[Diagnosis]:
    """Whether jobs wait for votes that are there, and that no live worker of theirs can prove."""
    asked: dict[JobId, list[VoteName]] = {}
    for wait in waits:
        if (name := read_vote_signal(wait.signal)) is not None:
            asked.setdefault(wait.id, []).append(name)
    if not asked:
        return []
    keys = await proving_keys(store, await store.jobs.get(list(asked)))
    found = await store.steps.recall(list(keys))
    of_each = {job: unproven(asked[job], found[job], keys[job]) for job in found}
    jobs = [job for job, casts in of_each.items() if casts]
    if not jobs:
        return []
    casts = [cast for job in jobs for cast in of_each[job]]
    saw = f"{fact_text(casts)}; they are for {len(jobs):,} of the jobs that wait, {jobs[0]} is one"
    return [Diagnosis("signals", WARNING, saw, advice_text(casts))]
