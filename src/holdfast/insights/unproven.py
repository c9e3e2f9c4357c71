"""Votes that the store has and that do not count, because no live worker of their job can
prove them.

The worker that looked has asked their people again, so the job waits on although everybody may have
answered. The people are not named here: who reads of a flow or of the whole store may not be shown
what a single job hides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from holdfast.fleet.reading import able, labels_of
from holdfast.insights.reasons import Reason, Who, span_text
from holdfast.insights.votes import unknown_key
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.signal import Recalled
from holdfast.job.text import counted
from holdfast.job.ties import Tie
from holdfast.job.vote import CastVote, VoteName, cast_votes, read_ballot, read_vote_signal
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo


async def proving_keys(
    store: Store, jobs: Sequence[Job], workers: Sequence[WorkerInfo] | None = None
) -> dict[JobId, set[str]]:
    """The ids of the keys by which the live workers that can run each of these jobs prove votes.
    `workers` spares a look at the store."""
    known = await store.workers.find() if workers is None else workers
    labels = await labels_of(store, jobs)
    return {
        job.id: {
            key for worker in able(job, known, labels[job.id]) for key in worker.facts.signing_keys
        }
        for job in jobs
    }


def unproven(awaited: Iterable[VoteName], found: Recalled, keys: Collection[str]) -> list[CastVote]:
    """The last votes of the people whom a job waits for, without those that can be proven by
    these `keys`."""
    asked = {(name.wait, name.who): name.n for name in awaited}
    casts = sorted(cast_votes(found.steps, found.signals), key=lambda cast: cast.name.n)
    last = {(cast.name.wait, cast.name.who): cast for cast in casts}
    return [
        last[person]
        for person, n in asked.items()
        if person in last and _is_unproven(last[person], n, keys)
    ]


def _is_unproven(cast: CastVote, awaited: int, keys: Collection[str]) -> bool:
    if read_ballot(cast.text) is None:
        return awaited > cast.name.n
    return unknown_key(cast, awaited, keys) is not None


def fact_text(casts: Sequence[CastVote]) -> str:
    """How many votes do not count, and why."""
    kids, unreadable = _kids(casts), any(read_ballot(cast.text) is None for cast in casts)
    whys = [f"signed with a key that no worker of the job has: {', '.join(kids)}"] if kids else []
    whys += ["without a proof that a worker can read"] if unreadable else []
    return f"{counted(len(casts), 'vote does', 'votes do')} not count: {', or '.join(whys)}"


def advice_text(casts: Sequence[CastVote]) -> str:
    again = "let those people answer again"
    kids = ", ".join(_kids(casts))
    return f"give the workers the signing key {kids}, or {again}" if kids else again


def _kids(casts: Sequence[CastVote]) -> list[str]:
    """The ids of the keys by which votes are signed that no live worker can prove."""
    ballots = [read_ballot(cast.text) for cast in casts]
    return sorted({ballot.kid for ballot in ballots if ballot is not None})


async def about_unproven(
    store: Store, job: Job, workers: Sequence[WorkerInfo], now: datetime
) -> list[Reason]:
    """Why a suspended job waits for votes that are there. Nothing if it does not."""
    if not job.ties & Tie.STEPS or not (found := (await store.steps.recall([job.id])).get(job.id)):
        return []
    asked = [
        (name, step)
        for step in found.steps
        if step.fence == job.fence and (name := read_vote_signal(step.awaits or "")) is not None
    ]
    if not asked:
        return []
    keys = (await proving_keys(store, [job], workers))[job.id]
    casts = unproven([name for name, _ in asked], found, keys)
    if not casts:
        return []
    _, first = asked[0]
    fact = f"it waits for {first.message} since {span_text(now, first.at)}; {fact_text(casts)}"
    return [Reason("votes-unproven", fact, Who.OPERATOR, advice_text(casts))]
