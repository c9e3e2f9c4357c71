"""Who hears of the ends of attempts when the store has answered them: listeners, and the meter.

The attempt of an end that is on its way is kept for them until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import attrgetter

from holdfast.events import Events
from holdfast.job.ids import JobId
from holdfast.job.text import describe
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from holdfast.worker.attempt import Attempt
from holdfast.worker.meter import Meter

Listener = Callable[[Attempt | None, Transition, Verdict], None]
"""Told of each end when the store has answered, on the worker's loop. It must not wait. There is no
attempt for a job that never became one here: this program could not read it, the answer to its
claim was lost, or nobody listened yet when it ended."""

_id = attrgetter("id")


class Listeners:
    """Tells listeners of every end, and the meter of each accepted end of an attempt that is
    measured. Neither may harm the ends, or each other."""

    def __init__(self, meter: Meter, events: Events) -> None:
        self.meter = meter
        self._events = events
        self.listening: tuple[Listener, ...] = ()
        self._attempts: dict[tuple[JobId, int], Attempt] = {}
        self._measured: dict[JobId, tuple[int, Attempt]] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """Tell this listener of every end from now on; returns how to stop that."""
        self.listening += (listener,)
        return partial(self._remove, listener)

    def _remove(self, listener: Listener) -> None:
        self.listening = tuple(one for one in self.listening if one != listener)
        if not self.listening:
            self._attempts.clear()

    def keep(self, attempt: Attempt, transition: Transition) -> None:
        """This end of the attempt is on its way."""
        if attempt.weight and attempt.begun:
            self._measured[transition.id] = (transition.fence, attempt)
        if self.listening:
            self._attempts[transition.id, transition.fence] = attempt

    def forget(self, transition: Transition) -> None:
        """This end will never be answered."""
        self._attempts.pop((transition.id, transition.fence), None)
        self._measured.pop(transition.id, None)

    def tell(self, batch: Sequence[Transition], verdicts: Sequence[Verdict]) -> None:
        """The store has answered. Whoever hears of an end that is only held up hears of it when it
        is written."""
        if self._measured:
            self._measure(batch, verdicts)
        if self.listening:
            for transition, verdict in zip(batch, verdicts, strict=True):
                if not verdict.is_held_up(transition):
                    self._tell(transition, verdict)

    def _measure(self, batch: Sequence[Transition], verdicts: Sequence[Verdict]) -> None:
        now, measured = time.monotonic(), self._measured
        try:
            places = dict(zip(map(_id, batch), count(), strict=False))
            for job_id in places.keys() & measured.keys():  # mostly far fewer than ends
                transition, verdict = batch[places[job_id]], verdicts[places[job_id]]
                fence, attempt = measured[job_id]
                if fence != transition.fence:
                    continue
                if verdict.accepted:
                    self.meter.observe(attempt, transition, now)
                if not verdict.is_held_up(transition):
                    del measured[job_id]
        except Exception as error:  # noqa: BLE001 - a meter may harm neither ends nor listeners
            self._events.error("telemetry.not_measured", error=describe(error))

    def _tell(self, transition: Transition, verdict: Verdict) -> None:
        attempt = self._attempts.pop((transition.id, transition.fence), None)
        for listener in self.listening:
            try:
                listener(attempt, transition, verdict)
            except Exception as error:  # noqa: BLE001 - a listener may harm neither ends nor others
                self._events.error(
                    "finisher.listener_failed", job_id=transition.id, error=describe(error)
                )
