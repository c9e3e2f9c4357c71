"""Inserting jobs with unique keys.

`insert_unique` takes the keys that are free and leaves the rest locked by this transaction. Then
`holders` shows, with a newer snapshot, which jobs hold those keys and where these jobs are. What
follows from that is decided here. A key that became free in between is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import StoreUnavailable
from holdfast.job.happening import DEBOUNCED
from holdfast.job.ids import JobId
from holdfast.job.policy import Retention
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import WAITING, JobState
from holdfast.job.ties import BEGUN, Tie
from holdfast.job.unique import Unique
from holdfast.store.postgres.batch import Batch, columns
from holdfast.store.postgres.body import array_literal
from holdfast.store.postgres.settling import orphan

PUSHABLE = frozenset({JobState.READY.value, JobState.SCHEDULED.value})
"""Where a holder can be made due at another time."""
REPLACEABLE = frozenset(state.value for state in WAITING)
"""Where a holder can be ended in favour of a newer job."""
BORN_IN = frozenset({JobState.READY, JobState.SCHEDULED, JobState.BLOCKED})
"""Where a new job can begin."""
ROUNDS_TOLERATED = 20
"""How often keys may change hands under one insert."""


async def insert_keyed(batch: Batch, jobs: Sequence[NewJob]) -> None:
    """Insert jobs of which some have unique keys, and several may have the same."""
    waiting = list(jobs)
    while waiting:
        distinct, rest = _one_of_each_key(waiting)
        await _DistinctKeys(batch, distinct).insert()
        waiting = _without_kept(distinct, rest, batch.answers)


class _DistinctKeys:
    """Jobs that share no key, until each of them has its answer."""

    def __init__(self, batch: Batch, jobs: Sequence[NewJob]) -> None:
        self._batch = batch
        self._waiting = {_name(job): job for job in jobs}
        self._replacing: set[JobId] = set()

    async def insert(self) -> None:
        for _ in range(ROUNDS_TOLERATED):
            await self._take_free_keys()
            if not self._waiting:
                return
            await self._settle_held_keys()
            if not self._waiting:
                return
        raise StoreUnavailable("unique keys kept changing hands; try again")

    async def _take_free_keys(self) -> None:
        """Insert the jobs whose keys are free; jobs without a key always are inserted."""
        batch, jobs = self._batch, list(self._waiting.values())
        keys = [job.unique and job.unique.key for job in jobs]
        masks = [job.unique and array_literal(sorted(job.unique.states)) for job in jobs]
        periods = [job.unique and job.unique.period for job in jobs]
        own = (keys, masks, batch.key_wait, periods)
        values = (batch.now, batch.channel, *columns(jobs, *own))
        was_there = {row[0]: row[2] for row in await batch.on.fetch("jobs/insert_unique", *values)}
        done = [job for job in jobs if job.id in was_there or job.unique is None]
        await batch.acknowledge(done, [job for job in done if was_there.get(job.id)])
        for job in done:
            if job.id in self._replacing and not was_there.get(job.id):
                batch.answers[job.id] = Inserted(job.id, "replaced")
            del self._waiting[_name(job)]

    async def _settle_held_keys(self) -> None:
        """Settle each key by where its holder is; a job whose holder let go stays waiting."""
        replaced: dict[str, NewJob] = {}
        pushed: dict[str, NewJob] = {}
        keys = [_unique(job).key for job in self._waiting.values()]
        found = await self._batch.on.fetch("keys/holders", self._batch.now, keys)
        for key, holder, state, ties, holds in found:
            job = self._waiting[_marked(key)]
            conflict = _unique(job).on_conflict
            if holder == job.id:
                self._settle(job, Inserted(job.id, "created"))
            elif not holds:
                continue
            elif conflict == "replace" and state in REPLACEABLE:
                replaced[holder] = job
            elif conflict == "debounce" and state in PUSHABLE and not ties & BEGUN:
                pushed[holder] = job
            else:
                self._settle(job, Inserted(JobId(holder), "existing"))
        if replaced:
            await self._replace(replaced)
        if pushed:
            await self._push(pushed)

    async def _replace(self, replaced: dict[str, NewJob]) -> None:
        """End the holders; their keys are free for the next round. A holder that started to run
        in between is met again there, and keeps its key."""
        holders = sorted(replaced)
        whys = [f"replaced by {replaced[holder].id}" for holder in holders]
        values = (self._batch.now, holders, whys, Retention().other)
        ended = await self._batch.on.fetch("jobs/replace", *values)
        for row in ended:
            self._replacing.add(replaced[row[0]].id)
        parents = [JobId(job) for job, ties in ended if ties & Tie.PARENT]
        await orphan(self._batch.on, self._batch.now, self._batch.channel, parents)

    async def _push(self, pushed: dict[str, NewJob]) -> None:
        """Give the holders the arguments of the new call and make them due at its time; a blocked
        call has no time, so now. A holder that has begun in between is not edited: it is met again
        in the next round."""
        args = [pushed[holder].args for holder in sorted(pushed)]
        now, channel = self._batch.now, self._batch.channel
        edits = (now, channel, sorted(pushed), args, None, None, DEBOUNCED)
        edited = await self._batch.on.fetch("jobs/edit", *edits)
        holders = sorted(row[0] for row in edited)
        calls = [pushed[holder] for holder in holders]
        max_waits = [_unique(call).max_wait for call in calls]
        run_at = [None if call.blocked else call.run_at for call in calls]
        delays = [0.0 if call.blocked else call.delay or 0.0 for call in calls]
        times = (holders, run_at, delays, max_waits)
        values = (now, channel, *times, None, DEBOUNCED)
        for row in await self._batch.on.fetch("jobs/reschedule", *values):
            self._settle(pushed[row[0]], Inserted(JobId(row[0]), "debounced"))

    def _settle(self, job: NewJob, answer: Inserted) -> None:
        self._batch.answers[job.id] = answer
        del self._waiting[_name(job)]


def _one_of_each_key(jobs: list[NewJob]) -> tuple[list[NewJob], list[NewJob]]:
    """The first job of every key, and the rest: one statement cannot meet a key twice."""
    first: dict[str, NewJob] = {}
    rest = [job for job in jobs if first.setdefault(_name(job), job) is not job]
    return list(first.values()), rest


def _without_kept(
    first: list[NewJob], rest: list[NewJob], answers: dict[JobId, Inserted]
) -> list[NewJob]:
    """If a later job in the batch has the same unique key and `on_conflict='keep'`, it gets the
    first job's answer without another query. Not if the first job may start in a state outside
    its own `unique.states`: then it does not hold the key."""
    settled = {
        job.unique.key: answers[job.id].id
        for job in first
        if job.unique is not None and job.unique.states >= BORN_IN
    }
    again = []
    for job in rest:
        unique = _unique(job)
        if unique.on_conflict == "keep" and unique.key in settled:
            answers[job.id] = Inserted(settled[unique.key], "existing")
        else:
            again.append(job)
    return again


def _unique(job: NewJob) -> Unique:
    assert job.unique is not None
    return job.unique


def _name(job: NewJob) -> str:
    """What two jobs of a batch may share; a job without a key shares nothing."""
    return f"id {job.id}" if job.unique is None else _marked(job.unique.key)


def _marked(key: str) -> str:
    """Keys are free text: marked, none can be mistaken for an id."""
    return f"key {key}"
