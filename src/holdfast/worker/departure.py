"""How a worker leaves: claiming ends everywhere at once, work is let finish, the rest goes back.

    stop claiming → hand back what has not started → wait for what runs, up to the grace
    → tell the rest to stop, wait a little → hand back what would not → write all ends
    → stop services and heartbeats → leave the store's list

Heartbeats go on until the last end is written, so nothing is reclaimed under a
worker that is only slow to leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from holdfast.events import Events
from holdfast.reconcile.service import Service
from holdfast.worker.attempt import Stop
from holdfast.worker.crew import Crew
from holdfast.worker.options import WorkerOptions

HURRY = 1.0
"""Seconds that each waiting step gets when there is no time: after a second signal."""


class Departure:
    """One orderly leaving of one crew. `hurry` may be set at any moment."""

    def __init__(
        self,
        crew: Crew,
        services: Sequence[Service],
        options: WorkerOptions,
        events: Events,
        hurry: asyncio.Event,
    ) -> None:
        self._crew = crew
        self._services = services
        self._options = options
        self._events = events
        self._hurry = hurry

    async def leave(self) -> None:
        self._stop_claiming()
        await self._first_of(self._crew.runner.quiet.wait(), self._options.grace)
        await self._end_claiming()
        await self._hand_back_the_rest()
        await self._write_ends()
        await self._stop_services()
        await self._close_pools()
        await self._crew.identity.end()

    def _stop_claiming(self) -> None:
        self._crew.leaving = True
        self._crew.fetcher.stop_soon()
        self._crew.runner.hand_back_waiting()

    async def _end_claiming(self) -> None:
        """A claim on its way is waited for, so that what it brings goes back unspent; a store
        that does not answer it cannot keep us here."""
        await self._crew.poller.stop()
        await self._first_of(self._crew.fetcher.stopped(), self._options.lease)
        await self._crew.fetcher.close(HURRY)

    async def _first_of(self, end: Coroutine[Any, Any, object], seconds: float) -> None:
        """Until this end, or time is up, or there is suddenly no time."""
        waits = [asyncio.create_task(end), asyncio.create_task(self._hurry.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _hand_back_the_rest(self) -> None:
        """Without spending an attempt: that the worker leaves is not the job's fault."""
        runner, patience = self._crew.runner, self._options.patience
        if not runner.running:
            return
        runner.stop_all(Stop.HANDBACK)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(HURRY, patience) if self._hurry.is_set() else patience):
                await runner.quiet.wait()
        stubborn = runner.abandon()
        if stubborn:
            self._events.error(
                "worker.handlers_did_not_stop",
                jobs=[f"{one.job.task} {one.job.id}" for one in stubborn],
                patience=patience,
            )

    async def _write_ends(self) -> None:
        await self._crew.strays.stop()
        await self._first_of(self._crew.finisher.settled(), self._options.lease)
        unwritten = await self._crew.finisher.close(HURRY)
        if unwritten:
            self._events.error("worker.ends_not_written", count=unwritten)

    async def _stop_services(self) -> None:
        stops = [service.stop() for service in self._services]
        for service, failure in zip(
            self._services, await asyncio.gather(*stops, return_exceptions=True), strict=True
        ):
            if isinstance(failure, Exception):
                self._events.error(
                    "worker.service_stop_failed", service=service.name, error=repr(failure)
                )

    async def _close_pools(self) -> None:
        crew = self._crew
        left = await crew.runner.close(HURRY)
        await crew.processes.close()
        busy = crew.threads.close()
        await crew.progress.aclose()
        if left or busy:
            self._events.error("worker.left_behind", coroutines=left, threads=busy)
