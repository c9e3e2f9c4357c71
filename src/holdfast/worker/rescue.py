"""Saves the jobs of a worker whose event loop does not turn.

All of this happens in the heartbeat's thread, with the heartbeat's store. Ends that wait to be
written are written. The attempt whose task blocks the loop is charged as if it had killed its
worker, because it did. Every other attempt is handed back and loses nothing. Then the worker
leaves the store's list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from holdfast.errors import RowRefused
from holdfast.events import Events
from holdfast.handlers.registry import Mode
from holdfast.job.ends import HandedBack, WorkerLost
from holdfast.job.ids import WorkerId
from holdfast.job.text import describe
from holdfast.job.transition import Transition
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt, Stop, with_spent
from holdfast.worker.executor import decided
from holdfast.worker.finisher import Finisher
from holdfast.worker.lane import SLOT
from holdfast.worker.runner import Runner
from holdfast.worker.watchdog import Frozen

FROZEN_SECONDS = 5.0
"""Seconds for all writes. A store that does not answer in time sees the worker's lease lapse."""
LATE_SECONDS = 1.5
"""The same when the worker was told to leave, and its time is over."""

OpenedStore = Callable[[], Awaitable[Store]]
"""Answers with the heartbeat's store; its connection is made now, if no beat has made it yet."""


class Rescue:
    """Made on the worker's loop, used from the heartbeat's thread. `then` is called there last."""

    def __init__(
        self, runner: Runner, finisher: Finisher, events: Events, then: Callable[[Frozen], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._runner = runner
        self._finisher = finisher
        self._events = events
        self._then = then

    async def save(self, opened: OpenedStore, worker: WorkerId, frozen: Frozen) -> None:
        held = list(self._runner.running.copy().values())
        blamed = [] if frozen.leaving else culprits(self._loop, held)
        self._report(worker, frozen, blamed)
        for attempt in held:
            # Threads see this, and if the loop turns again, no end of these is written.
            attempt.stop = Stop.LOST
        moves = [_move(one, frozen if one in blamed else None) for one in held]
        for attempt, move in zip(held, moves, strict=True):
            if move.error is not None:
                self._runner.on_failure(attempt, move)
        try:
            async with asyncio.timeout(LATE_SECONDS if frozen.leaving else FROZEN_SECONDS):
                store = await opened()
                await self._write(store, [*self._finisher.kept(), *moves])
                await store.workers.deregister(worker)
        except Exception as error:  # noqa: BLE001 - what could not be written lapses with the lease
            self._events.error("worker.rescue_failed", error=describe(error))
        self._then(frozen)

    async def _write(self, store: Store, moves: Sequence[Transition]) -> None:
        """If the store refuses a row, halve the batch until that row is alone: the others must be
        written."""
        if not moves:
            return
        try:
            await store.jobs.finish(moves)
        except RowRefused as error:
            if len(moves) == 1:
                self._events.error("job.end_unwritable", job_id=moves[0].id, error=describe(error))
                return
            half = len(moves) // 2
            await self._write(store, moves[:half])
            await self._write(store, moves[half:])

    def _report(self, worker: WorkerId, frozen: Frozen, blamed: Iterable[Attempt]) -> None:
        self._events.error(
            "worker.loop_frozen",
            worker=worker,
            seconds=round(frozen.seconds, 3),
            blamed=[f"{one.job.task} {one.job.id}" for one in blamed],
            leaving=frozen.leaving,
            stack=frozen.stack,
        )


def culprits(loop: asyncio.AbstractEventLoop, held: Sequence[Attempt]) -> list[Attempt]:
    """The attempt that blocks the loop: the loop runs its task, or a task that its handler
    started. Before Python 3.12 nothing tells who started a task; there, every attempt whose
    handler runs on the loop is blamed."""
    current = asyncio.current_task(loop)
    context = getattr(current, "get_context", None)  # since Python 3.12
    if context is not None:
        return [one for one in held if one.task is not None and one.task is context().get(SLOT)]
    found = [one for one in held if one.task is not None and one.task is current]
    return found or [one for one in held if one.begun and one.handler.mode is Mode.LOOP]


def _move(attempt: Attempt, frozen: Frozen | None) -> Transition:
    end = HandedBack(attempt.begun) if frozen is None else WorkerLost(_how(frozen))
    return with_spent(attempt, decided(attempt, end))


def _how(frozen: Frozen) -> str:
    """The text names the last place of the stack: there the loop stands."""
    place = [line.strip() for line in frozen.stack.splitlines() if line.strip().startswith("File")]
    where = f" at {place[-1]}" if place else ""
    return f"worker lost: the handler kept its event loop for {frozen.seconds:.1f} s{where}"
