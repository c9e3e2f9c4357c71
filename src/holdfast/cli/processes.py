"""Several worker processes under one parent, which starts a child again when it dies.

Each child is a full worker with an id and a lease of its own; the parent runs no jobs and holds no
connection. A child that retires gets its successor at once and may take its time. On SIGHUP the
children are replaced one by one: the next one is started, and when it claims jobs the old one
leaves. If the next one does not get so far, because the new code is broken, the old one stays.

A child that an operator drained gets no successor, however its process ended: whoever drains a
worker wants fewer of them, and another one in its place would claim the same jobs. When all
children were drained, the parent ends with exit code 0.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Coroutine, Iterable
from typing import Any

from holdfast.background.backoff import Backoff
from holdfast.cli.member import Member
from holdfast.cli.successor import Terminal
from holdfast.worker.os_signals import told_by_signals

logger = logging.getLogger("holdfast")

FIRST_RESTART_SECONDS = 0.2
LONGEST_RESTART_SECONDS = 30.0
STEADY_SECONDS = 30.0
"""A child that ran for so long had started well: its death counts as the first one again."""
WRONG_CALL = 2
"""The exit code of a child that was called wrongly: starting it again would not help."""
HANDOVER_SECONDS = 3.0
"""How long running jobs may go on after code changed; then they are handed back."""


class Place:
    """One of the numbered places of a group, and the child that works there now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.child: Member | None = None
        self.was_started = False
        self.wish: asyncio.Future[bool] | None = None
        self.wished = asyncio.Event()

    def put(self, child: Member) -> None:
        self.was_started = self.is_started
        self.child = child

    @property
    def is_started(self) -> bool:
        return self.was_started or (self.child is not None and bool(self.child.health["started"]))

    def ask_for_another(self) -> asyncio.Future[bool]:
        """Answers whether another child works here by then."""
        self.wish = asyncio.get_running_loop().create_future()
        self.wished.set()
        return self.wish

    def grant(self, done: bool) -> None:
        self.wished.clear()
        if self.wish is not None and not self.wish.done():
            self.wish.set_result(done)


class ProcessGroup:
    """Keeps `count` children alive until told to stop."""

    def __init__(
        self,
        arguments: list[str],
        count: int,
        *,
        name: str | None = None,
        until_done: bool = False,
        restart: bool = True,
    ) -> None:
        self._command = [sys.executable, "-m", "holdfast", *arguments]
        self._places = [Place(number) for number in range(1, count + 1)]
        self._name = name
        self._until_done = until_done
        self._restart = restart
        self._terminal = Terminal()
        self._children: set[Member] = set()  # also those that leave and have a successor
        self._rolling: asyncio.Task[None] | None = None
        self._roll_again = False
        self._stopping = asyncio.Event()
        self._renewed = asyncio.Event()
        self._signals = 0
        self._code = 0
        self.restarts = 0

    async def run(self, beside: Coroutine[Any, Any, None] | None = None) -> int:
        """Run until told to stop, with `beside` running next to the children. Returns the exit
        code: not 0 if the children were called wrongly."""
        companion = None if beside is None else asyncio.create_task(beside)
        with told_by_signals(self._on_signal):
            try:
                await asyncio.gather(*map(self._keep, self._places))
                while self._children:
                    await asyncio.wait([child.done for child in self._children])
            finally:
                for task in filter(None, (companion, self._rolling)):
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
        return self._code

    def health(self) -> dict[str, object]:
        """The health of all as one; any thread may ask. A place whose child is being started again
        is not ready, but no reason to end the whole group."""
        known = {p.number: p.child.health for p in self._places if p.child is not None}
        stopping, rolls = self._stopping.is_set(), self._rolling is not None
        ready = len(known) == len(self._places) and all(one["ready"] for one in known.values())
        return {
            "live": all(one["live"] for one in known.values()),
            "ready": ready and not stopping,
            "started": all(place.is_started for place in self._places),
            "leaving": "stop" if stopping else "reload" if rolls else "",
            "processes": known,
        }

    # Keeping a place filled -----------------------------------------------------------------

    async def _keep(self, place: Place) -> None:
        backoff = Backoff(first=FIRST_RESTART_SECONDS, cap=LONGEST_RESTART_SECONDS)
        try:
            while not self._stopping.is_set():
                self._renewed.clear()
                place.put(await self._start(place.number))
                child = await self._until_it_leaves(place)
                if child.retiring.is_set() and not self._stopping.is_set():
                    logger.info("worker process %s retires: another is started", place.number)
                elif await self._is_over(place, child, backoff):
                    return
        finally:
            place.child = None
            place.grant(False)

    async def _until_it_leaves(self, place: Place) -> Member:
        """Wait until the place needs another child; returns the last one there. A wish for another
        is granted meanwhile."""
        while True:
            child = place.child
            assert child is not None
            await _first_of(child.gone, child.retiring, place.wished)
            if child.gone.is_set() or child.retiring.is_set():
                return child
            place.grant(await self._replace(place, child))

    async def _replace(self, place: Place, old: Member) -> bool:
        """Start the next child. When it claims jobs, it takes the place, and the old one leaves.
        If it does not come so far, the old one works on."""
        new = await self._start(place.number)
        await _first_of(new.ready, new.gone, self._stopping)
        if self._stopping.is_set() or not new.ready.is_set():
            return False
        place.put(new)
        old.tell(signal.SIGTERM)
        await old.gone.wait()
        return True

    async def _start(self, number: int) -> Member:
        named = ["--name", f"{self._name}-{number}"] if self._name else []
        child = await Member.start([*self._command, *named])
        self._children.add(child)
        child.done.add_done_callback(lambda _: self._children.discard(child))
        if self._stopping.is_set():
            child.tell(signal.SIGTERM)
        return child

    async def _is_over(self, place: Place, child: Member, backoff: Backoff) -> bool:
        """Whether nobody shall work in the place of this child, which is gone."""
        await child.gone.wait()
        code = await child.done
        if child.drained and not self._stopping.is_set():
            logger.info("worker process %s was drained: none takes its place", place.number)
            self._places.remove(place)
            return True
        if self._stopping.is_set() or (code == 0 and self._until_done):
            return True
        if code == WRONG_CALL and self._restart:
            self._code = code
            self._stop(signal.SIGTERM)
            return True
        if time.monotonic() - child.started_at > STEADY_SECONDS:
            backoff.reset()
        await self._before_restart(place.number, code, backoff.next())
        return False

    async def _before_restart(self, number: int, code: int, wait: float) -> None:
        if self._renewed.is_set():
            return
        if not self._restart:
            logger.warning("worker process %s ended (%s); waiting for a change", number, _how(code))
            await _first_of(self._renewed, self._stopping)
            return
        logger.warning(
            "worker process %s ended (%s); starting again in %.1f s", number, _how(code), wait
        )
        self.restarts += 1
        await _first_of(self._stopping, timeout=wait)

    # Replacing all --------------------------------------------------------------------------

    async def renew(self) -> None:
        """Stop every child and let it be started again, with the code as it is now. Children that
        still run jobs after the handover get a second SIGTERM, which makes them hurry."""
        self._renewed.set()
        before = list(self._children)
        _tell(before, signal.SIGTERM)
        if before:
            waits = [child.done for child in before]
            await asyncio.wait(waits, timeout=HANDOVER_SECONDS)
            _tell(before, signal.SIGTERM)
            await asyncio.wait(waits)

    async def _roll(self) -> None:
        """Replace the children one by one, and again if that was asked for meanwhile."""
        while self._roll_again and not self._stopping.is_set():
            self._roll_again = False
            for place in tuple(self._places):
                if place.child is None or await place.ask_for_another():
                    continue
                if not self._stopping.is_set():
                    logger.error(
                        "not reloaded: the new worker process %s did not come to claim jobs, so "
                        "the old ones stay",
                        place.number,
                    )
                break
            else:
                logger.info("reloaded: all worker processes are new")
        self._rolling = None

    # Signals --------------------------------------------------------------------------------

    def _on_signal(self, number: signal.Signals) -> None:
        if number is not signal.SIGHUP or self._terminal.is_lost:
            self._stop(number)
        elif not self._stopping.is_set():
            logger.info("SIGHUP: replacing the worker processes one by one")
            self._roll_again = True
            if self._rolling is None:
                self._rolling = asyncio.create_task(self._roll())

    def _stop(self, number: signal.Signals) -> None:
        """Pass a signal on as SIGTERM. The second SIGTERM makes a child hurry; in place of the
        third, children are killed."""
        self._signals += 1
        self._stopping.set()
        logger.info("%s: stopping the worker processes (%s)", number.name, len(self._children))
        _tell(self._children, signal.SIGTERM if self._signals < 3 else signal.SIGKILL)


def _tell(children: Iterable[Member], number: signal.Signals) -> None:
    for child in children:
        child.tell(number)


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


async def _first_of(*events: asyncio.Event, timeout: float | None = None) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in waits:
            waiting.cancel()
