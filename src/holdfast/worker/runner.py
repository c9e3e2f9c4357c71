"""Runs admitted attempts, each queue's in a lane of its own, and ends every attempt once.

A handler that is told to stop may go on: a plain function cannot be stopped, and a coroutine can
swallow its cancellation. When its time is over, its attempt is ended all the same: a plain
function's at once, a coroutine's after the patience. The handler is then *stuck* and keeps its
slot until it returns, so that no more handlers run than there are slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from itertools import groupby
from operator import attrgetter

from holdfast.job.ends import End, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.worker.attempt import NEVER, Attempt, Stop
from holdfast.worker.executor import Executor, settle
from holdfast.worker.finisher import Finisher
from holdfast.worker.lane import Lane
from holdfast.worker.permits import Permits
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.stuck import OnExhausted, StuckHandlers
from holdfast.worker.timeouts import Timeouts

UNFINISHED = HandedBack()
STEPS_TOLD = 20
"""Unused steps that are named in the log. `jobs steps` shows all."""

_ends_by, _queue = attrgetter("ends_by"), attrgetter("job.queue")


def _nobody(attempt: Attempt, transition: Transition) -> None:
    """Until somebody wants to hear of failures."""


class Runner:
    """Holds every attempt of this worker from its admission to its end.

    `leaving` says that nothing may begin here any more. `discarded` counts attempts that were
    not this worker's any more when they ended, so that nothing was written. `on_failure` is called
    with each attempt that an error ended.
    """

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        executor: Executor,
        finisher: Finisher,
        on_exhausted: OnExhausted,
    ) -> None:
        self.on_failure: Callable[[Attempt, Transition], None] = _nobody
        self._patience = setup.options.patience
        self._events = setup.events
        self._permits = permits
        self._finisher = finisher
        self._loop = asyncio.get_running_loop()
        self._closed: dict[str, JobId | None] = {}
        self._executor = executor
        self._variables = copy_context()
        self._lanes = {queue: self._new_lane(size) for queue, size in permits.slots.items()}
        self.leaving = False
        self.discarded = 0
        self.running: dict[JobId, Attempt] = {}
        self.stuck = StuckHandlers(setup, permits, executor, on_exhausted)
        self.quiet = asyncio.Event()
        self.quiet.set()
        self._timeouts = Timeouts(self.running.values(), self._stop_overdue)

    def _new_lane(self, size: int) -> Lane:
        return Lane(size, self._variables, self._executor, self)

    def resize(self, queue: str, slots: int) -> None:
        """Give this queue so many slots. Nothing that runs is cancelled. With 0 slots, what has
        not started goes back."""
        lane = self._lanes.get(queue)
        if lane is None:
            self._lanes[queue] = self._new_lane(slots)
            return
        if lane.size == 0:
            self._closed.pop(queue, None)
        lane.resize(slots)
        if slots == 0:
            self.close_queue(queue)

    def forget(self, queue: str) -> None:
        """Drop the slots of a queue that has no attempt here."""
        self._closed.pop(queue, None)
        if (lane := self._lanes.pop(queue, None)) is not None:
            lane.close()

    # Beginning ------------------------------------------------------------------------------

    def dispatch(self, attempts: Sequence[Attempt]) -> None:
        """Give attempts to their lanes, in this order."""
        self.running.update({attempt.job.id: attempt for attempt in attempts})
        soonest = min(map(_ends_by, attempts), default=NEVER)
        if soonest != NEVER:
            self._timeouts.watch(soonest)
        for queue, some in groupby(attempts, _queue):
            self.quiet.clear()
            self._lanes[queue].put(some)

    def hold(self, attempt: Attempt) -> None:
        """Count this attempt as running although it will be dispatched later."""
        self.running[attempt.job.id] = attempt
        self.quiet.clear()

    def holds(self, job_id: JobId) -> bool:
        """Whether an attempt of this job runs here, or its end is not written yet."""
        return job_id in self.running or self._finisher.holds(job_id)

    # Queues that give nothing -----------------------------------------------------------------

    def close_queue(self, queue: str, until_written: JobId | None = None) -> None:
        """Begin nothing of this queue: it was paused, or the end of the job `until_written` will
        make it cool down. What was claimed before goes back."""
        self._closed[queue] = until_written
        self.hand_back_waiting(queue)

    @property
    def closes_any(self) -> bool:
        """Whether any queue is closed; mostly none is, and nothing more need be asked."""
        return bool(self._closed)

    def is_closed(self, queue: str) -> bool:
        return queue in self._closed

    def opens(self, queue: str) -> bool:
        """Whether the queue may be claimed from. A closed queue opens again when the end that
        closed it is written: from then on the store itself gives nothing while the queue is
        paused or cools down."""
        if not self._closed:
            return True
        written = self._closed.get(queue)
        if written is not None and self._finisher.holds(written):
            return False
        self._closed.pop(queue, None)
        return True

    # Stopping -------------------------------------------------------------------------------

    def stop(self, attempt: Attempt, why: Stop) -> None:
        """Tell the handler to stop. If the attempt must end now and the handler goes on, end the
        attempt without it. An attempt that still waits for its slot ends without a start."""
        attempt.tell_to_stop(why)
        if not why.is_final:
            return
        if attempt.begun and attempt.is_deaf:
            self._give_up(attempt)
        else:
            self._loop.call_later(self._patience, self._give_up, attempt)

    def stop_all(self, why: Stop) -> None:
        for attempt in tuple(self.running.values()):
            self.stop(attempt, why)

    def _stop_overdue(self, attempt: Attempt) -> None:
        self.stop(attempt, attempt.overdue_by())

    def _give_up(self, attempt: Attempt) -> None:
        if attempt.ended or attempt.task is None:
            return
        self.stuck.add(attempt)
        self.end(attempt, settle(attempt, HandedBack()))

    def hand_back_waiting(self, queue: str | None = None) -> None:
        """Hand back what has not started yet, of one queue or of all. It loses nothing by
        running later or elsewhere."""
        for name, lane in self._lanes.items():
            if queue in (None, name):
                self.hand_back(lane.take_waiting())

    def hand_back(self, attempts: Iterable[Attempt], end: End = UNFINISHED) -> None:
        for attempt in attempts:
            self.end(attempt, settle(attempt, end))

    def abandon(self) -> list[Attempt]:
        """Hand back attempts whose handlers would not stop, and return them. What their handlers
        do later is not written."""
        stubborn = list(self.running.values())
        for attempt in stubborn:
            self.end(attempt, settle(attempt, HandedBack()))
            attempt.tell_to_stop(Stop.LOST)
        return stubborn

    async def close(self, patience: float) -> int:
        """End the slots; returns how many still run a handler that does not stop."""
        self._timeouts.stop()
        for lane in self._lanes.values():
            lane.close()
        slots = [slot for lane in self._lanes.values() for slot in lane.slots]
        if not slots:
            return 0
        _, left = await asyncio.wait(slots, timeout=patience)
        return len(left)

    # Ending ---------------------------------------------------------------------------------

    def end(self, attempt: Attempt, transition: Transition | None) -> None:
        """Free the slot and have the transition written: once for each attempt. The slot is free
        when the handler ends, not when that is written. A stuck handler keeps its slot."""
        if attempt.ended:
            self._returned_late(attempt)
            return
        attempt.ended = True
        job = attempt.job
        if self.running.get(job.id) is attempt:  # a lost job may have been claimed here anew
            del self.running[job.id]
        if not attempt.stuck:
            self._permits.ended(job.queue, attempt.begun)
        if transition is None:
            self._discard(attempt)
        else:
            if attempt.taken is not None:
                self._finisher.taken.expect(attempt.taken)
            self._finisher.add(attempt, transition)
            if transition.cool is not None:
                self.close_queue(job.queue, job.id)
            if transition.error is not None or attempt.journal is not None:
                self._report(attempt, transition)
        if attempt.error is not None and attempt.observed is None:
            attempt.error = None  # its frames hold the attempt: neither would be freed
        if not self.running:
            self.quiet.set()

    def _discard(self, attempt: Attempt) -> None:
        self.discarded += 1
        if attempt.begun:
            self._finisher.past.give_up(attempt.job.id, attempt.job.fence)

    def _report(self, attempt: Attempt, transition: Transition) -> None:
        """Tell of what is unusual about the end. A job that succeeds without steps that it had
        recorded was most often changed by a deploy."""
        if transition.error is not None and attempt.taken is None:
            self.on_failure(attempt, transition)
        journal, job = attempt.journal, attempt.job
        if journal is None or transition.to is not JobState.SUCCEEDED:
            return
        if unused := journal.unused:
            said = {"steps": unused[:STEPS_TOLD], "count": len(unused)}
            self._events.warning(
                "job.steps_unused", job_id=job.id, task=job.task, queue=job.queue, **said
            )

    def _returned_late(self, attempt: Attempt) -> None:
        """A handler returned whose attempt was ended before. If it was stuck, its slot is free
        now."""
        if not attempt.stuck:
            return
        self.stuck.remove(attempt)
        if not self.leaving:  # a leaving worker ends slots whose handlers may still go on
            self.stuck.report_returned(attempt)
            self._permits.ended(attempt.job.queue)
