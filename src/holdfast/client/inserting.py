"""From a job in memory to a job in the store: shared round trips, short outages, held keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

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
        self._plain: Batcher[NewJob, Inserted] = Batcher(self._insert_each)
        self._keyed: Batcher[NewJob, Inserted] = Batcher(self._insert_each)

    async def aclose(self) -> None:
        await self._plain.aclose()
        await self._keyed.aclose()

    def insert(self, job: NewJob) -> Coroutine[Any, Any, Inserted]:
        """Insert one job; concurrent calls share a round trip."""
        if job.unique is None:
            return self._plain.submit(job)
        return _while_held(partial(self._keyed.submit, job))

    async def insert_many(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Insert all of them; raises `PartlyInserted` if the store took some and refused others."""
        return await _while_held(lambda: self._insert(jobs))

    async def _insert_each(self, jobs: Sequence[NewJob]) -> Sequence[Inserted | HoldfastError]:
        """One answer for each job of a shared round trip. A job that the store took is answered
        as inserted although a neighbour was refused. If another transaction holds a key, only
        the callers with that key are answered `KeyHeld`; the other jobs are inserted without
        them."""
        try:
            answers = await self._insert(jobs)
        except PartlyInserted as error:
            pairs = zip(jobs, error.answers, strict=True)
            return [error.reason if one is None else refusal(job, one) or one for job, one in pairs]
        except KeyHeld as held:
            free = [job for job in jobs if _key(job) not in held.keys]
            others = iter(await self._insert_each(free) if free else ())
            return [
                KeyHeld([_key(job)], held.patience) if _key(job) in held.keys else next(others)
                for job in jobs
            ]
        for answer in answers:
            if answer.how == "taken":
                return [refusal(job, one) or one for job, one in zip(jobs, answers, strict=True)]
        return answers

    def _insert(self, jobs: Sequence[NewJob]) -> Awaitable[list[Inserted]]:
        """Repeat the insert over a short outage. The ids were made here, so a repeat never adds
        a job twice."""
        return _patiently(lambda: self._jobs.insert(jobs), ENQUEUE_PATIENCE)


def refusal(job: NewJob, answer: Inserted) -> IdTaken | None:
    """The error for the caller of this job if its id belongs to another call, or None."""
    return IdTaken(job.id, job.task) if answer.how == "taken" else None


def stands(job: NewJob, answer: Inserted) -> Inserted:
    """The same answer, unless it is a refusal."""
    if (error := refusal(job, answer)) is not None:
        raise error
    return answer


def _key(job: NewJob) -> str:
    return job.unique.key if job.unique is not None else ""


async def _patiently(call: Callable[[], Awaitable[T]], patience: float) -> T:
    """Repeat a call over an outage of at most `patience` seconds, with growing waits."""
    loop = asyncio.get_running_loop()
    until, backoff = loop.time() + patience, None
    while True:
        try:
            return await call()
        except StoreUnavailable:
            backoff = backoff or Backoff(first=0.05, cap=2.0)
            wait = backoff.next()
            if loop.time() + wait > until:
                raise
            await asyncio.sleep(jittered(wait))


async def _while_held(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call while an open transaction holds its unique key, as long as the store wants."""
    loop = asyncio.get_running_loop()
    began, backoff = loop.time(), None
    while True:
        try:
            return await call()
        except KeyHeld as held:
            backoff = backoff or Backoff(first=0.05, cap=0.5)
            wait = backoff.next()
            if loop.time() + wait > began + held.patience:
                raise
            await asyncio.sleep(jittered(wait))
