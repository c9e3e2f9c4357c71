"""How a worker leaves: claiming ends everywhere at once, work is let finish, the rest goes back.

    stop claiming → hand back what has not started → wait for what runs, up to the grace
    → tell the rest to stop, wait a little → hand back what would not → write all ends
    → stop services and heartbeats → leave the store's list

Heartbeats go on until the last end is written, so nothing is reclaimed under a
worker that is only slow to leave. Every step has an end, whatever the store does:
a lone signal is obeyed within the grace, the patience that stubborn handlers need,
and a few seconds; a second one within `HURRY`. What a step did not reach by then is
reported and left to whoever reclaims it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from holdfast.background.service import Service
from holdfast.events import Events
from holdfast.worker.attempt import Stop
from holdfast.worker.options import WorkerOptions
from holdfast.worker.pipeline import Pipeline

HURRY = 0.8
"""Seconds for all steps together when there is no time: after a second signal."""
LAST_CLAIM = 0.5
"""Seconds for the answer to a claim that was on its way."""
WRITING = 2.0
"""Seconds in which ends may be written when the grace is over."""
CLOSING = 1.0
"""Seconds for what is left: services, pools, the heartbeat."""
MOMENT = 0.1
"""Seconds that a step gets in any case: enough if nothing is in its way."""


class Departure:
    """One orderly leaving of one pipeline. `hurry` may be set at any moment."""

    def __init__(
        self,
        pipeline: Pipeline,
        services: Sequence[Service],
        options: WorkerOptions,
        events: Events,
        hurry: asyncio.Event,
    ) -> None:
        self._pipeline = pipeline
        self._services = services
        self._options = options
        self._events = events
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self._hurry_over: float | None = None

    async def leave(self) -> None:
        grace_ends = self._loop.time() + self._options.grace
        self._stop_claiming()
        # Beside the rest: what another replica does as well need not wait for our handlers.
        services = asyncio.create_task(self._stop_services())
        await self._unless_hurried(self._pipeline.runner.quiet.wait(), grace_ends)
        await self._end_claiming()
        await self._hand_back_the_rest()
        await self._write_ends(max(grace_ends, self._loop.time() + WRITING))
        closed = self._loop.time() + CLOSING
        await self._step("services", services, closed)
        await self._step("pools", self._close_pools(), closed)
        await self._step("heartbeat", self._pipeline.identity.end(), closed)

    def _stop_claiming(self) -> None:
        self._pipeline.runner.leaving = True
        self._pipeline.fetcher.stop_soon()
        self._pipeline.runner.hand_back_waiting()

    async def _end_claiming(self) -> None:
        """A claim on its way is waited for, so that what it brings goes back unspent; a store
        that does not answer it cannot keep us here."""
        await self._pipeline.poller.stop()
        fetcher = self._pipeline.fetcher
        await self._unless_hurried(fetcher.stopped(), self._loop.time() + LAST_CLAIM)
        await fetcher.close(MOMENT)

    async def _hand_back_the_rest(self) -> None:
        """Without spending an attempt: that the worker leaves is not the job's fault."""
        runner, patience = self._pipeline.runner, self._options.patience
        if not runner.running:
            return
        runner.stop_all(Stop.HANDBACK)
        # Half of a hurry is for writing that they went back.
        patience = min(patience, HURRY / 2) if self._hurry.is_set() else patience
        await self._reaches(runner.quiet.wait(), self._loop.time() + patience)
        stubborn = runner.abandon()
        if stubborn:
            self._events.error(
                "worker.handlers_did_not_stop",
                jobs=[f"{one.job.task} {one.job.id}" for one in stubborn],
                patience=patience,
            )

    async def _write_ends(self, by: float) -> None:
        await self._pipeline.lost_claims.stop()
        await self._reaches(self._pipeline.finisher.settled(), by)
        unwritten = await self._pipeline.finisher.close(MOMENT)
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
        pipeline = self._pipeline
        busy = pipeline.executor.close_threads()
        left = await pipeline.runner.close(CLOSING / 2)
        await pipeline.executor.close_processes()
        await pipeline.answering.aclose()
        if left or busy:
            self._events.error("worker.left_behind", coroutines=left, threads=busy)

    # Waiting --------------------------------------------------------------------------------

    async def _step(
        self, name: str, work: asyncio.Task[None] | Coroutine[Any, Any, None], by: float
    ) -> None:
        """Do it, for as long as there is time; what does not end is left behind, not waited for."""
        task = work if isinstance(work, asyncio.Task) else asyncio.create_task(work)
        await self._reaches(asyncio.wait((task,)), by)
        if not task.done():
            task.cancel()
            self._events.error("worker.step_not_ended", step=name)
        elif (failure := task.exception()) is not None:
            self._events.error("worker.step_failed", step=name, error=repr(failure))

    async def _reaches(self, end: Coroutine[Any, Any, object], by: float) -> None:
        """Until this end, or time is up; a hurry leaves it a part of its own short time."""
        task = asyncio.create_task(end)
        await self._unless_hurried(asyncio.wait((task,)), max(by, self._loop.time() + MOMENT))
        if not task.done() and self._hurry.is_set():
            left = min(by, self._hurry_ends()) - self._loop.time()
            await asyncio.wait((task,), timeout=max(MOMENT, left))
        task.cancel()

    async def _unless_hurried(self, end: Coroutine[Any, Any, object], by: float) -> None:
        """Until this end, or time is up, or there is suddenly no time."""
        waits = [asyncio.create_task(end), asyncio.create_task(self._hurry.wait())]
        left = max(0.0, by - self._loop.time())
        await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _hurry_ends(self) -> float:
        if self._hurry_over is None:
            self._hurry_over = self._loop.time() + HURRY
        return self._hurry_over
