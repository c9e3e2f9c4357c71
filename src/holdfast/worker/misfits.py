"""What becomes of jobs whose arguments do not fit the functions of this worker.

While old and new code run side by side, such a job is most often one of the other release. So this
worker gives it up for a moment, without an attempt, and another worker may claim it. The job waits
a second at most while a live worker runs other code than the workers that tried, and up to ten
seconds while there is none. It fails only when no live worker could read it for `unreadable_for`
seconds.

Of several workers the same one may be the fastest each time. So a worker that gets a job again
which another live worker may read leaves the whole task to others for a moment, and for longer if
that does not help.

Thousands of such jobs must not keep a worker busy: those that it leaves become due one after the
other, so many a second.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.errors import BadArguments
from holdfast.fleet.reading import KIND, Note, labels_of, may_read, noted, notes
from holdfast.job.ends import DoesNotFit, End, PutOff, Raised
from holdfast.job.ids import JobId
from holdfast.job.outcome import LEFT, NO_READER
from holdfast.job.record import Claimed
from holdfast.job.redaction import Redactor
from holdfast.job.retry import exception_names
from holdfast.job.text import describe
from holdfast.job.what import What
from holdfast.store.contract.shelf import Put
from holdfast.store.contract.workers import WorkerInfo
from holdfast.worker.attempt import Attempt
from holdfast.worker.identity import Identity
from holdfast.worker.permits import Places
from holdfast.worker.setup import WorkerSetup

A_READER_LIVES = (0.25, 0.5)
NO_READER_LIVES = (1.0, 10.0)
"""Seconds that a job waits, first and at most. The wait doubles with each worker that left it."""
A_SECOND = 50
"""So many of the jobs that this worker has left become due in a second."""
LONGEST_SECONDS = 60.0
"""A job does not wait longer, however many others wait."""
LEFT_TO_OTHERS = (1.0, 8.0)
"""Seconds for which a worker leaves a task to others, first and at most. They double."""
FLEET_SECONDS = 1.0
"""For so long a worker believes the list of workers: a large one takes a while to read."""
LEAVES_NOTE = frozenset({What.PUT_OFF, What.HANDED_BACK})
"""What happens to a job that no worker reads."""
REMEMBERED = 100_000
"""Jobs that this worker knows to have left before."""


class _Asked(NamedTuple):
    attempt: Attempt
    problem: str
    is_known: bool
    answer: asyncio.Future[End]


class Misfits:
    """Decides how attempts end whose arguments do not fit: those that come together by the same
    questions to the store. `repeated` counts how often this worker has left a job that it had left
    before."""

    def __init__(
        self,
        setup: WorkerSetup,
        identity: Identity,
        places: Places,
        wake: Callable[[], None],
    ) -> None:
        self._setup = setup
        self._store = setup.store
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self._asked: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None
        self._left: set[JobId] = set()
        self._next = 0.0
        self._places = places
        self._wake = wake
        self._fleet: list[WorkerInfo] = []
        self._fleet_until = 0.0
        self._pauses: dict[str, tuple[float, float]] = {}
        self.repeated = 0

    async def judge(self, attempt: Attempt, misfit: DoesNotFit) -> End:
        is_known = attempt.job.id in self._left
        if not is_known:
            self._remember(attempt, misfit.problem)
        answer: asyncio.Future[End] = self._loop.create_future()
        self._asked.append(_Asked(attempt, misfit.problem, is_known, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._judge_all(), name="holdfast-misfits")
        end = await answer
        if is_known and isinstance(end, PutOff):
            self.repeated += 1
        return end

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _remember(self, attempt: Attempt, problem: str) -> None:
        job = attempt.job
        if len(self._left) >= REMEMBERED:
            self._left.clear()
        self._left.add(job.id)
        hidden = Redactor(attempt.handler.rules, job.args, job.headers).text(problem)
        self._setup.events.warning("job.left", job_id=job.id, queue=job.queue, error=hidden)

    async def _judge_all(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                for one, end in zip(asked, await self._ends(asked), strict=True):
                    if not one.answer.done():
                        one.answer.set_result(end)
        finally:
            self._task = None

    async def _ends(self, asked: Sequence[_Asked]) -> list[End]:
        """If the store does not answer, the jobs are left all the same: no time is counted."""
        try:
            return await self._judged(asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, the jobs lose nothing
            self._setup.events.warning(
                "worker.misfits_not_noted", jobs=len(asked), error=describe(error)
            )
            return [self._left_for(NO_READER_LIVES[1], one.problem) for one in asked]

    async def _judged(self, asked: Sequence[_Asked]) -> list[End]:
        jobs = [one.attempt.job for one in asked]
        now = await self._store.now()
        known = await self._known(jobs)
        workers = await self._others()
        labels = await labels_of(self._store, jobs)
        ends, puts = list[End](), list[Put]()
        for one, job in zip(asked, jobs, strict=True):
            note = self._noted(job, known.get(job.id), now)
            is_hopeful = bool(may_read(job, workers, labels[job.id], note.tried))
            if is_hopeful:
                note = msgspec.structs.replace(note, since=now)
                if one.is_known:
                    self._leave_to_others(job.task)
            if note.fails_at <= now:
                ends.append(_unread(note, one.problem))
            else:
                puts.append(note.to_put(job.id))
                ends.append(self._left_for(_wait(note, now, is_hopeful), one.problem))
        if puts:
            await self._store.shelf.put(KIND, puts)
        return ends

    async def _known(self, jobs: Sequence[Claimed]) -> dict[JobId, Note]:
        """The notes of these jobs. A note counts no more if something else has happened to its job
        since: a worker has run it, or an operator has changed it or runs it again."""
        known = await notes(self._store, [job.id for job in jobs])
        lives = await self._store.jobs.life(list(known)) if known else []
        for one in lives:
            note = known.get(one.job_id)
            if note is not None and one.what not in LEAVES_NOTE and one.at > note.since:
                del known[one.job_id]
        return known

    def _leave_to_others(self, task: str) -> None:
        if task in self._places.left_to_others:
            return
        now, (first, most) = self._loop.time(), LEFT_TO_OTHERS
        before, ended = self._pauses.get(task, (0.0, 0.0))
        pause = min(2 * before, most) if before and now - ended < most else first
        chosen = pause * random.uniform(0.75, 1.25)
        self._pauses[task] = pause, now + chosen
        self._places.left_to_others.add(task)
        self._loop.call_later(chosen, self._claim_again, task)

    def _claim_again(self, task: str) -> None:
        self._places.left_to_others.discard(task)
        self._wake()

    async def _others(self) -> list[WorkerInfo]:
        if self._loop.time() >= self._fleet_until:
            self._fleet = await self._store.workers.find()
            self._fleet_until = self._loop.time() + FLEET_SECONDS
        return [worker for worker in self._fleet if worker.id != self._identity.id]

    def _noted(self, job: Claimed, before: Note | None, now: datetime) -> Note:
        setup, options = self._setup, self._setup.options
        return noted(before, job.fence, setup.code, options.name, options.unreadable_for, now)

    def _left_for(self, seconds: float, problem: str) -> PutOff:
        now = self._loop.time()
        self._next = max(self._next, now) + 1 / A_SECOND
        wait = min(max(seconds, self._next - now), LONGEST_SECONDS)
        return PutOff(wait, f"{LEFT}: {problem}")


def _wait(note: Note, now: datetime, is_hopeful: bool) -> float:
    """Until its time is over at most: a worker must then claim the job to end it."""
    first, most = A_READER_LIVES if is_hopeful else NO_READER_LIVES
    left = (note.fails_at - now).total_seconds()
    return min(first * 2.0 ** min(note.times - 1, 20), most, max(first, left))


def _unread(note: Note, problem: str) -> Raised:
    tried = f"for {note.limit:g} s {NO_READER}, tried by {note.workers}"
    message = f"{problem}; {tried}"
    return Raised(BadArguments.__name__, message, names=exception_names(BadArguments), final=True)
