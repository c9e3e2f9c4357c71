"""Jobs whose arguments do not fit the workers that claimed them, and which workers may read them.

While old and new code run side by side, a worker may claim a job of the other release. It finds out
when it decodes the arguments, and leaves the job for another worker. It puts a *note* of that on
the shelf of the store: since when no live worker can read the job, and which code has tried. A
worker says with its facts which code it runs. So a worker that leaves a job can tell whether a live
worker runs other code, which may read the job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.passing import labels_in
from holdfast.job.ties import PERMITS
from holdfast.store.contract.shelf import Document, Put
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

KIND = "unread"
MOST_TRIED = 50
"""Kinds of code that a note remembers."""
CODE_SHOWN = 8
"""So many letters of a digest are shown."""


class OfQueue(Protocol):
    """What of a job says which workers may claim it."""

    @property
    def id(self) -> JobId: ...
    @property
    def task(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def ties(self) -> int: ...


class Note(msgspec.Struct, frozen=True):
    """That workers could not read the arguments of a job.

    `since`: since when no live worker could, by the store's clock. While a live worker may read the
    job, that is the time of the last claim. `fence` is that of the last worker that claimed the job
    and left it, and `times` is how many did. `limit`: after so many seconds the job fails. `tried`
    names one worker of each code that could not read the job.
    """

    since: datetime
    fence: int
    times: int
    limit: float
    tried: dict[str, str]

    @property
    def fails_at(self) -> datetime:
        return self.since + timedelta(seconds=self.limit)

    @property
    def workers(self) -> str:
        """The workers that tried, for people."""
        return ", ".join(named(name, code) for code, name in self.tried.items())

    def to_put(self, job: JobId) -> Put:
        """A note that no worker has renewed for as long as its limit says nothing any more."""
        text = msgspec.json.encode(self).decode()
        return Put(key=job, value=text, expires_in=2 * self.limit + 60.0)


def named(worker: str, code: str | None) -> str:
    """A worker with the beginning of the digest of its code: both sides of a deploy often have
    workers of the same name."""
    return repr(worker) if code is None else f"{worker!r} (code {code[:CODE_SHOWN]})"


_decode = msgspec.json.Decoder(Note).decode


async def notes(store: Store, jobs: Collection[JobId]) -> dict[JobId, Note]:
    """What is noted of these jobs, by their ids."""
    return read(await store.shelf.get(KIND, jobs))


async def some_notes(store: Store, limit: int) -> dict[JobId, Note]:
    """What is noted of any jobs, of so many at most."""
    return read(await store.shelf.find(KIND, limit))


def read(documents: Iterable[Document]) -> dict[JobId, Note]:
    """A note that this release cannot read is left out: the next worker that leaves the job writes
    another one."""
    found = {}
    for document in documents:
        try:
            found[JobId(document.key)] = _decode(document.value)
        except msgspec.DecodeError:
            continue
    return found


def noted(before: Note | None, fence: int, code: str, worker: str, limit: float,
          now: datetime) -> Note:  # fmt: skip
    """The note when a worker with this code has left the job."""
    tried = {} if before is None else before.tried
    if code not in tried and len(tried) < MOST_TRIED:
        tried = {**tried, code: worker}
    since, times = (now, 0) if before is None else (before.since, before.times)
    return Note(since, fence, times + 1, limit, tried)


def able(job: OfQueue, workers: Iterable[WorkerInfo], labels: Iterable[str]) -> list[WorkerInfo]:
    """The live workers that could claim the job, which requires these labels."""
    return [
        worker
        for worker in workers
        if worker.available
        and job.task in worker.tasks
        and worker.serves(job.queue)
        and worker.can_do(labels)
    ]


def may_read(
    job: OfQueue, workers: Iterable[WorkerInfo], labels: Iterable[str], tried: Collection[str]
) -> list[WorkerInfo]:
    """The live workers that could claim the job and run other code than those that tried. A worker
    that has not said yet which code it runs may be one."""
    return [one for one in able(job, workers, labels) if one.facts.code not in tried]


async def labels_of(store: Store, jobs: Sequence[OfQueue]) -> dict[JobId, frozenset[str]]:
    """The labels that a worker must have to run each of these jobs."""
    asked = [job.id for job in jobs if job.ties & PERMITS]
    passed = await store.limits.of(asked) if asked else {}
    return {
        job.id: labels_in(found.buckets if (found := passed.get(job.id)) else None) for job in jobs
    }
