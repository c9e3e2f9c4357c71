"""Stores that misbehave in one way, and reconcilers to run on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import msgspec

from holdfast.background.reconciler import Reconciler
from holdfast.events import Event, Events
from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.job.transition import Transition
from holdfast.reconcile import ReconcileOptions
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.records import Promoted, Verdict
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

R = TypeVar("R", bound=Reconciler)


def made(kind: type[R], store: Store, seen: list[Event] | None = None, **options: Any) -> R:
    """A reconciler by itself, its events collected in `seen`."""
    events = Events() if seen is None else Events(seen.append)
    return kind(store, events, ReconcileOptions(**options))


class PoisonedJobs:
    """Refuses with an error every batch that holds a poisoned job; the rest is the store's."""

    def __init__(self, jobs: Jobs, poison: Sequence[JobId]) -> None:
        self._jobs = jobs
        self.poison = set(poison)
        self.tried: list[JobId] = []

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._jobs, verb)

    async def finish(self, moves: Sequence[Transition]) -> list[Verdict]:
        self._choke_on(moves)
        return await self._jobs.finish(moves)

    async def reclaim(
        self, moves: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        self._choke_on(moves)
        return await self._jobs.reclaim(moves, by)

    async def promote_due(self, limit: int) -> Promoted:
        if self.poison & set(await self._jobs.due(limit)):
            raise ValueError("cannot promote")
        return await self._jobs.promote_due(limit)

    async def promote(self, ids: Sequence[JobId]) -> int:
        poisoned = sorted(self.poison & set(ids))
        if poisoned:
            self.tried.extend(poisoned)
            raise ValueError(f"cannot promote {poisoned[0]}")
        return await self._jobs.promote(ids)

    def _choke_on(self, moves: Sequence[Transition]) -> None:
        poisoned = sorted({move.id for move in moves} & self.poison)
        if poisoned:
            self.tried.extend(poisoned)
            raise ValueError(f"cannot write {poisoned[0]}")


class UnreadableJobs:
    """Shows some lost jobs with a policy that cannot be read any more."""

    def __init__(self, jobs: Jobs, unreadable: JobId) -> None:
        self._jobs = jobs
        self._unreadable = unreadable

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._jobs, verb)

    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        found = await self._jobs.lapsed_leases(limit, after)
        return [
            msgspec.structs.replace(job, policy="{") if job.id == self._unreadable else job
            for job in found
        ]


class CountingCalls:
    """Counts the calls of each verb of one noun: each is one statement when idle."""

    def __init__(self, noun: object, calls: Counter[str]) -> None:
        self._noun = noun
        self._calls = calls

    def __getattr__(self, verb: str) -> Any:
        self._calls[verb] += 1
        return getattr(self._noun, verb)


def with_jobs(store: Store, jobs: object) -> Store:
    return cast(
        Store,
        SimpleNamespace(
            jobs=jobs,
            workers=store.workers,
            wakeups=store.wakeups,
            flows=store.flows,
            now=store.now,
        ),
    )


def counting(store: Store, calls: Counter[str]) -> Store:
    jobs, workers = CountingCalls(store.jobs, calls), CountingCalls(store.workers, calls)
    return cast(Store, SimpleNamespace(jobs=jobs, workers=workers, wakeups=store.wakeups))
