"""Writes the ends of attempts: in batches, guarded by their fences, repeated over outages.

A flush starts as soon as there is something to write; ends that come during a flush share the
next one. No end is dropped while the worker lives. The store compares fences, so it is harmless
to write an end late, and it saves a second run of a job whose end is known. So the finisher tries
again after every error of the store but one: `RowRefused` is about a value of the end itself and
would come again for ever. Such an end is replaced by a plain failure that says so.

When the store has answered, `Listeners` hear of it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

import msgspec

from holdfast.errors import RowRefused, StoreRefuses, StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.outcome import UNWRITABLE, unwritable
from holdfast.job.state import ENDED, SUSPENDED, JobState
from holdfast.job.text import describe
from holdfast.job.ties import PERMITS
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from holdfast.worker.attempt import Attempt
from holdfast.worker.listeners import Listeners
from holdfast.worker.meter import Meter
from holdfast.worker.past_ends import PastEnds
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.sleeps import Sleeps
from holdfast.worker.taken_ends import TakenEnds

UNKNOWN_TRIES = 3
"""How often a batch that meets an unknown error is sent, before its rows are sent apart."""

HELD_SECONDS = 0.2
"""After so long an end is written again whose job an open transaction holds."""

FINISH = "finish"
"""The finisher's name in an outage that it notices."""


class Counters(msgspec.Struct):
    """What became of the ends handed in."""

    ended: int = 0  # accepted, and the job is over
    moved: int = 0  # accepted, and the job will run again
    handed_back: int = 0  # of those moved: given up unfinished, ready for another worker
    refused: int = 0
    dropped: int = 0


def _nobody() -> None:
    """Until somebody listens."""


Send = Callable[[Sequence[Transition]], Awaitable[list[Verdict]]]


class Finisher:
    """Collects ends and flushes them, one batch at a time.

    `on_room` is called after each flush: there may be room for more ends. `on_given_up` is
    called when an end could not be written at all, so that its job may look as if it still ran.
    `send` gives ends to the store. The fetcher puts another function in its place, which may bring
    the next node along (`HandOvers`).
    """

    def __init__(self, setup: WorkerSetup, meter: Meter) -> None:
        self._store = setup.store
        self._events = setup.events
        self._outage = setup.outage
        self.send: Send = self._finish
        self._batch = setup.options.batch
        self._most = setup.options.max_unwritten
        self.on_room: Callable[[], None] = _nobody
        self.on_given_up: Callable[[], None] = _nobody
        self._pending: list[Transition] = []
        self._flying: Sequence[Transition] = ()
        self.listeners = Listeners(meter, setup.events)
        self.taken = TakenEnds(setup.events)
        self.past = PastEnds()
        self._permits_of: dict[JobId, str] = {}
        self._held: dict[tuple[JobId, int], Transition] = {}
        self._sleeps = Sleeps()
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._flying_since = math.inf
        self._flush: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self.counters = Counters()

    def add(self, attempt: Attempt | None, transition: Transition) -> None:
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append(transition)
        if transition.to is SUSPENDED:
            self._sleeps.begin(transition)
        if attempt is not None and (attempt.weight or self.listeners.listening):
            self.listeners.keep(attempt, transition)
        if attempt is not None and transition.ties & PERMITS:
            self._permits_of[transition.id] = attempt.job.queue
        if self._flush is None:
            self._settled.clear()
            self._start_flush()

    @property
    def unwritten(self) -> int:
        return len(self._pending) + len(self._flying) + len(self._held)

    def permits_of(self, queue: str) -> int:
        """How many jobs of this queue have ended and hold permits of limits in the store until
        that is written."""
        return list(self._permits_of.values()).count(queue)

    @property
    def full(self) -> bool:
        """Too many ends wait to be written: claiming more would only add to them."""
        return self.unwritten >= self._most

    def is_behind(self, moment: float) -> bool:
        """Whether an end that was handed in before that moment of the monotonic clock may still
        be unwritten. Asked from the heartbeat's thread."""
        waits = bool(self._pending) and self._since <= moment
        return waits or self._flying_since <= moment

    def holds(self, job_id: JobId) -> bool:
        """Whether an end of this job is on its way."""
        ends = chain(self._pending, self._flying, self._held.values())
        return any(job_id == end.id for end in ends)

    def _holds(self, end: Transition) -> bool:
        return (end.id, end.fence) in self._held

    def kept(self) -> list[Transition]:
        """Ends that are not known to be written; another thread may ask for them."""
        return [*self._pending, *self._flying, *self._held.copy().values()]

    async def settled(self) -> None:
        """Wait until everything handed in so far has been written or refused."""
        await self._settled.wait()

    async def close(self, patience: float) -> int:
        """Write what is left, for at most `patience` seconds; returns how many were not."""
        try:
            async with asyncio.timeout(patience):
                await self.settled()
        except TimeoutError:
            if self._timer is not None:
                self._timer.cancel()
            if self._flush is not None:
                self._flush.cancel()
                await asyncio.gather(self._flush, return_exceptions=True)
        left = self.unwritten
        self.counters.dropped += left
        return left

    def _start_flush(self) -> None:
        self._flush = asyncio.create_task(self._flush_all(), name="holdfast-finisher")
        self._flush.add_done_callback(self._flush_ended)

    def _flush_ended(self, flush: asyncio.Task[None]) -> None:
        self._flush = None
        if self._pending and not flush.cancelled():
            self._start_flush()
        elif not self._held:
            self._settled.set()

    async def _flush_all(self) -> None:
        while self._pending:
            # First here and then gone there: another thread that asks must not miss an end.
            self._flying_since = self._since
            self._flying = batch = self._pending[: self._batch]
            del self._pending[: self._batch]
            try:
                await self._write(batch)
            except Exception as error:  # noqa: BLE001 - a defect of ours must not end all writing
                self._events.error("finisher.flush_failed", error=repr(error))
                self._give_up(batch)
            self._flying, self._flying_since = (), math.inf
            if self._permits_of:
                unwritten = {end.id for end in self.kept()}
                self._permits_of = {i: q for i, q in self._permits_of.items() if i in unwritten}
            self.on_room()

    async def _write(
        self, batch: Sequence[Transition], *, repeated: bool = False, tries: int = UNKNOWN_TRIES
    ) -> None:
        """Try until the store has answered; until then the ends are kept."""
        while True:
            try:
                given = self._sleeps.on_time(batch) if self._sleeps else batch
                verdicts = await self.send(given)
            except RowRefused as error:
                self._outage.over(FINISH)
                await self._without_the_row(batch, error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the ends are kept
                self._outage.failed(FINISH, error)
                repeated = True
                tries -= not isinstance(error, StoreUnavailable | StoreRefuses)
                if tries == 0:
                    await self._apart(batch, error)
                    return
                await self._outage.pause()
            else:
                self._outage.over(FINISH)
                self._count(batch, verdicts, repeated)
                if self._sleeps:
                    self._sleeps.forget(end for end in batch if not self._holds(end))
                return

    async def _finish(self, ends: Sequence[Transition]) -> list[Verdict]:
        return await self._store.jobs.finish(ends)

    async def _apart(self, batch: Sequence[Transition], error: Exception) -> None:
        """The error is unknown, and one row may be its cause: the other rows are written without
        it. That row goes behind all others and is tried again: it may be good all the same."""
        if len(batch) > 1:
            for half in _halves(batch):
                await self._write(half, repeated=True, tries=1)
            return
        [end] = batch
        self._events.error("job.end_kept", job_id=end.id, to=end.to, error=describe(error))
        self._since = self._flying_since  # the oldest of all that wait now
        self._pending += batch

    async def _without_the_row(self, batch: Sequence[Transition], error: Exception) -> None:
        """The store cannot take this batch: halve it until the row at fault is alone."""
        if len(batch) > 1:
            for half in _halves(batch):
                await self._write(half, repeated=True)
            return
        [transition] = batch
        self._events.error(
            "job.end_unwritable", job_id=transition.id, to=transition.to, error=describe(error)
        )
        if transition.reason is not None and transition.reason.startswith(UNWRITABLE):
            self.counters.dropped += 1
            self.listeners.forget(transition)
            self._sleeps.forget(batch)
            self._give_up(batch)
            return
        await self._write([unwritable(transition, error)])

    def _count(
        self, batch: Sequence[Transition], verdicts: Sequence[Verdict], repeated: bool
    ) -> None:
        counters, ended = self.counters, 0
        if repeated:
            verdicts = [_own_is_accepted(end, it) for end, it in zip(batch, verdicts, strict=True)]
        if self.taken:
            batch, verdicts = self.taken.judge(batch, verdicts)
        for transition, verdict in zip(batch, verdicts, strict=True):
            if not verdict.accepted:
                if verdict.is_held_up(transition):
                    self._hold(transition)
                else:
                    self._refused(transition, verdict)
            elif transition.to in ENDED:
                ended += 1
            else:
                counters.moved += 1
                counters.handed_back += transition.to is JobState.READY
        counters.ended += ended
        self.past.keep(batch)
        self.listeners.tell(batch, verdicts)

    def _give_up(self, batch: Sequence[Transition]) -> None:
        for end in batch:
            if end.begun:
                self.past.give_up(end.id, end.fence)
        self.on_given_up()

    def _hold(self, transition: Transition) -> None:
        """Write this end again later. Its handler left the transaction open in which it had ended
        the job, or somebody else has locked the job for a moment."""
        if not self._held:
            self._timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self._write_held)
        self._held[transition.id, transition.fence] = transition

    def _write_held(self) -> None:
        if not self._pending:
            self._since = time.monotonic()
        self._pending += self._held.values()
        self._held = {}
        if self._flush is None:
            self._start_flush()

    def _refused(self, transition: Transition, verdict: Verdict) -> None:
        self.counters.refused += 1
        self._events.warning(
            "job.end_refused",
            job_id=transition.id,
            fence=transition.fence,
            wanted=transition.to,
            state=verdict.state,
            current_fence=verdict.fence,
        )


def _halves(batch: Sequence[Transition]) -> tuple[Sequence[Transition], Sequence[Transition]]:
    half = len(batch) // 2
    return batch[:half], batch[half:]


def _own_is_accepted(transition: Transition, verdict: Verdict) -> Verdict:
    own = verdict.is_repetition(transition)
    return Verdict(transition.id, accepted=True) if own else verdict
