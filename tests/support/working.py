"""A small way to run handlers on a real store: register, enqueue, work, look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from holdfast.events import Event, Events
from holdfast.handlers.registry import Handler, Registry
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Job, NewJob
from holdfast.job.retry import Retry
from holdfast.store.contract.store import Store
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.support.waiting import wait_until

QUICK = Policy(retry=Retry(max_attempts=3, base=0, jitter=0))
ONCE = Policy(retry=Retry.never())


class Shop:
    """One store, some handlers, the workers that run them, and all they reported."""

    def __init__(self, store: Store, *functions: Callable[..., Any], **processes: Any) -> None:
        self.store = store
        self.registry = Registry()
        self.seen: list[Event] = []
        self.events = Events(self.seen.append)
        for function in functions:
            self.registry.add(Handler.of(function.__name__, function))
        for name, function in processes.items():
            self.registry.add(Handler.of(name, function, process=True))

    async def enqueue(
        self,
        function: Callable[..., Any] | str,
        *args: Any,
        queue: str = "default",
        policy: Policy = QUICK,
        **fields: Any,
    ) -> JobId:
        name = function if isinstance(function, str) else function.__name__
        text = self.registry[name].signature.encode(args, {})
        return await self.insert(name, text, queue=queue, policy=policy, **fields)

    async def insert(
        self,
        task: str,
        text: str,
        *,
        queue: str = "default",
        policy: Policy = QUICK,
        delay: float | None = None,
        deadline_at: datetime | None = None,
        deadline_in: float | None = None,
    ) -> JobId:
        job = NewJob(
            new_job_id(),
            task,
            queue,
            text,
            encode_policy(policy),
            delay=delay,
            deadline_at=deadline_at,
            deadline_in=deadline_in,
        )
        [inserted] = await self.store.jobs.insert([job])
        return inserted.id

    def new_worker(self, queues: dict[str, int] | None = None, **options: Any) -> Worker:
        options.setdefault("patience", 2.0)
        chosen = WorkerOptions(queues or {"default": 4}, **options)
        return Worker(self.store, self.registry, chosen, self.events)

    @asynccontextmanager
    async def worker(
        self, queues: dict[str, int] | None = None, **options: Any
    ) -> AsyncIterator[Worker]:
        async with self.new_worker(queues, **options) as worker:
            yield worker

    async def drain(self, **options: Any) -> int:
        async with self.worker(**options) as worker:
            return await worker.drain()

    async def get(self, job_id: JobId) -> Job:
        [job] = await self.store.jobs.get([job_id])
        return job

    async def until(self, job_id: JobId, holds: Callable[[Job], bool], within: float = 10.0) -> Job:
        """For what happens at the store without a word to us."""
        job = await self.get(job_id)

        async def look() -> bool:
            nonlocal job
            job = await self.get(job_id)
            return holds(job)

        await wait_until(look, within, f"job {job_id} as expected, last seen {job.state}")
        return job

    def reported(self, name: str) -> list[Event]:
        return [event for event in self.seen if event.name == name]
