"""How a worker leaves: it stops claiming, lets its handlers finish, and hands back the rest.

    stop claiming → hand back what has not started → wait for what runs, up to the grace
    → tell the rest to stop, wait a little → hand back what would not → write all ends
    → write measures → stop services and heartbeats → leave the store's list

Heartbeats go on until the last end is written, so no job is reclaimed from a worker that is only
slow to leave. Every step has a limit, whatever the store does: a first signal is obeyed within the
grace, the patience for stubborn handlers and a few seconds, a second one within `HURRY_SECONDS`.
What a step has not done by then is reported, and left to the reconciler of lapsed leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from holdfast.background.service import Service
from holdfast.worker.attempt import Stop
from holdfast.worker.pipeline import Pipeline

HURRY_SECONDS = 0.8
"""For all steps together, after a second signal."""
LAST_CLAIM_SECONDS = 0.5
"""For the answer to a claim that was on its way."""
WRITING_SECONDS = 2.0
"""For writing ends when the grace is over."""
MEASURES_SECONDS = 0.5
"""For writing down the last times of jobs: they are worth no more."""
CLOSING_SECONDS = 1.0
"""For what is left: services, pools, the heartbeat."""
LEAST_SECONDS = 0.1
"""That every step gets: enough if nothing is in its way."""


class Departure:
    """One orderly leaving of one pipeline. `hurry` may be set at any moment."""

    def __init__(
        self, pipeline: Pipeline, services: Sequence[Service], hurry: asyncio.Event
    ) -> None:
        self._pipeline = pipeline
        self._services = services
        self._options = pipeline.setup.options
        self._events = pipeline.setup.events
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self._hurry_over: float | None = None

    async def leave(self) -> None:
        grace_ends = self._loop.time() + self._options.grace
        self._stop_claiming()
        # Services stop beside the rest: another replica can do their work while handlers finish.
        services = asyncio.create_task(self._stop_services())
        # So are its shares passed on: what its handlers free is for the others.
        shares = asyncio.create_task(self._pipeline.shares.leave())
        await self._unless_hurried(self._pipeline.runner.quiet.wait(), grace_ends)
        await self._end_claiming(shares)
        await self._hand_back_the_rest()
        await self._write_ends(max(grace_ends, self._loop.time() + WRITING_SECONDS))
        closed = self._loop.time() + CLOSING_SECONDS
        measures = asyncio.create_task(self._pipeline.meter.close(MEASURES_SECONDS))
        await self._step("services", services, closed)
        await self._step("pools", self._close_pools(), closed)
        await self._step("measures", measures, closed)
        await self._step("heartbeat", self._pipeline.identity.end(), closed)

    def _stop_claiming(self) -> None:
        self._pipeline.runner.leaving = True
        self._pipeline.fetcher.stop_soon()
        self._pipeline.runner.hand_back_waiting()

    async def _end_claiming(self, shares: asyncio.Task[None]) -> None:
        """Wait for a claim that is on its way, so that its jobs go back unspent, but not for long:
        a store that does not answer cannot keep the worker."""
        await self._pipeline.poller.stop()
        fetcher, by = self._pipeline.fetcher, self._loop.time() + LAST_CLAIM_SECONDS
        await self._unless_hurried(asyncio.wait((shares,)), by)
        shares.cancel()
        await self._unless_hurried(fetcher.stopped(), by)
        await fetcher.close(LEAST_SECONDS)

    async def _hand_back_the_rest(self) -> None:
        """Hand back what still runs without spending an attempt: the jobs are not to blame."""
        runner, patience = self._pipeline.runner, self._options.patience
        if not runner.running:
            return
        runner.stop_all(Stop.HANDBACK)
        # The other half of the hurry is for writing that they went back.
        patience = min(patience, HURRY_SECONDS / 2) if self._hurry.is_set() else patience
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
        await self._pipeline.misfits.stop()
        await self._reaches(self._pipeline.finisher.settled(), by)
        unwritten = await self._pipeline.finisher.close(LEAST_SECONDS)
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
        left = await pipeline.runner.close(CLOSING_SECONDS / 2)
        await pipeline.executor.close_processes()
        await pipeline.answering.aclose()
        if left or busy:
            self._events.error("worker.left_behind", coroutines=left, threads=busy)

    # Waiting --------------------------------------------------------------------------------

    async def _step(
        self, name: str, work: asyncio.Task[None] | Coroutine[Any, Any, None], by: float
    ) -> None:
        """Do this work for as long as there is time. Work that does not end is left behind."""
        task = work if isinstance(work, asyncio.Task) else asyncio.create_task(work)
        await self._reaches(asyncio.wait((task,)), by)
        if not task.done():
            task.cancel()
            self._events.error("worker.step_not_ended", step=name)
        elif (failure := task.exception()) is not None:
            self._events.error("worker.step_failed", step=name, error=repr(failure))

    async def _reaches(self, end: Coroutine[Any, Any, object], by: float) -> None:
        """Wait for this end until `by`, and in a hurry no longer than the hurry lasts."""
        task = asyncio.create_task(end)
        await self._unless_hurried(
            asyncio.wait((task,)), max(by, self._loop.time() + LEAST_SECONDS)
        )
        if not task.done() and self._hurry.is_set():
            left = min(by, self._hurry_ends()) - self._loop.time()
            await asyncio.wait((task,), timeout=max(LEAST_SECONDS, left))
        task.cancel()

    async def _unless_hurried(self, end: Coroutine[Any, Any, object], by: float) -> None:
        """Wait for this end until `by`, or until there is a hurry."""
        waits = [asyncio.create_task(end), asyncio.create_task(self._hurry.wait())]
        left = max(0.0, by - self._loop.time())
        await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _hurry_ends(self) -> float:
        if self._hurry_over is None:
            self._hurry_over = self._loop.time() + HURRY_SECONDS
        return self._hurry_over
