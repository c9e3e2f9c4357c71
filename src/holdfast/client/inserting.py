"""From a job in memory to a job in the store: shared round trips, short outages, held keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from holdfast.background.backoff import Backoff, jittered
from holdfast.enqueue.batcher import Batcher
from holdfast.errors import HoldfastError, IdTaken, KeyHeld, PartlyInserted, StoreUnavailable
from holdfast.job.record import Inserted, NewJob

if TYPE_CHECKING:
    from holdfast.store.contract.jobs import Jobs

T = TypeVar("T")
ENQUEUE_PATIENCE = 10.0
"""Seconds of an outage that an enqueue waits out before it raises."""


class Inserter:
    """Inserts jobs for any number of concurrent callers.

    Jobs with a unique key have a batcher of their own. An insert may have to wait for a key that
    an open transaction holds, and jobs without a key must not wait with it.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._plain: Batcher[NewJob, Inserted | HoldfastError] = Batcher(self._insert_each)
        self._keyed: Batcher[NewJob, Inserted | HoldfastError] = Batcher(self._insert_each)

    async def aclose(self) -> None:
        await self._plain.aclose()
        await self._keyed.aclose()

    async def insert(self, job: NewJob) -> Inserted:
        """Insert one job; concurrent calls share a round trip."""
        if job.unique is None:
            return stands(job, await self._plain.submit(job))
        return await _while_held(lambda: self._insert_keyed(job))

    async def insert_many(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Insert all of them; raises `PartlyInserted` if the store took some and refused others."""
        return await _while_held(lambda: self._insert(jobs))

    async def _insert_keyed(self, job: NewJob) -> Inserted:
        return stands(job, await self._keyed.submit(job))

    async def _insert_each(self, jobs: Sequence[NewJob]) -> Sequence[Inserted | HoldfastError]:
        """One answer for each job of a shared round trip. A job that the store took is answered
        as inserted although a neighbour was refused. If another transaction holds a key, only
        the callers with that key are answered `KeyHeld`; the other jobs are inserted without
        them."""
        try:
            return await self._insert(jobs)
        except PartlyInserted as error:
            return [answer or error.reason for answer in error.answers]
        except KeyHeld as held:
            free = [job for job in jobs if _key(job) not in held.keys]
            answers = iter(await self._insert_each(free) if free else ())
            return [held if _key(job) in held.keys else next(answers) for job in jobs]

    def _insert(self, jobs: Sequence[NewJob]) -> Awaitable[list[Inserted]]:
        """Repeat the insert over a short outage. The ids were made here, so a repeat never adds
        a job twice."""
        return _patiently(lambda: self._jobs.insert(jobs), ENQUEUE_PATIENCE)


def stands(job: NewJob, answer: Inserted | HoldfastError) -> Inserted:
    """The answer of a shared round trip, for the caller of this one job: a refusal of the job is
    raised, and a held key is named as the key of this job."""
    if isinstance(answer, Inserted):
        if answer.how == "taken":
            raise IdTaken(job.id, job.task)
        return answer
    if isinstance(answer, KeyHeld):
        raise KeyHeld([_key(job)], answer.patience)
    raise answer


def _key(job: NewJob) -> str:
    return job.unique.key if job.unique is not None else ""


async def _patiently(call: Callable[[], Awaitable[T]], patience: float) -> T:
    """Repeat a call over an outage of at most `patience` seconds, with growing waits."""
    loop = asyncio.get_running_loop()
    until, backoff = loop.time() + patience, Backoff(first=0.05, cap=2.0)
    while True:
        try:
            return await call()
        except StoreUnavailable:
            wait = backoff.next()
            if loop.time() + wait > until:
                raise
            await asyncio.sleep(jittered(wait))


async def _while_held(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call while an open transaction holds its unique key, as long as the store wants."""
    loop = asyncio.get_running_loop()
    began, backoff = loop.time(), Backoff(first=0.05, cap=0.5)
    while True:
        try:
            return await call()
        except KeyHeld as held:
            wait = backoff.next()
            if loop.time() + wait > began + held.patience:
                raise
            await asyncio.sleep(jittered(wait))
