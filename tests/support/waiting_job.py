"""One job whose handler each test writes, on a store in memory with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import App, Retry
from holdfast.handle import JobHandle
from holdfast.job.record import Job
from holdfast.testing import Harness

AGAIN = Retry(max_attempts=5, base=1, jitter=0)


class Bench:
    """An app with one job."""

    def __init__(self, **settings: Any) -> None:
        self.app = App("sqlite://", max_payload=2_000, **settings)
        self.harness = Harness(self.app)
        self.handle: JobHandle[Any]

    async def begin(self, handler: Callable[..., Any], **options: Any) -> JobHandle[Any]:
        self.handle = await self.app.task(retry=AGAIN, **options)(handler).enqueue()
        await self.drain()
        return self.handle

    async def drain(self) -> None:
        await self.harness.drain(raises=False)

    async def pass_time(self, **time: float) -> None:
        """Let so much time pass, and run what is due then."""
        await self.harness.advance(**time)
        await self.drain()

    async def job(self) -> Job:
        return await self.handle.get()

    async def explained(self) -> list[str]:
        return [one.fact for one in (await self.app.client.explain(self.handle.id)).reasons]
