"""A filter as tests of what a job's keys hold. Most filters are decided by the narrow record, so
that bodies are read only of jobs that passed it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.job.record import Job
from holdfast.job.state import ENDED, LIVE, UNTIMED, JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.matching import BodyTest
from holdfast.store.valkey.layout import Body, Record
from holdfast.store.valkey.moments import to_micros
from holdfast.store.valkey.rows import STATES


class Filtering:
    """The tests of one filter without patterns."""

    def __init__(self, which: JobFilter) -> None:
        self.which = which
        self.text = (which.error_text or "").casefold()
        self._body = BodyTest.of(which)
        self._states = which.states_possible
        self._created = _span(which.created_after, which.created_before)
        self._finished = _span(which.finished_after, which.finished_before)

    @property
    def needs_body(self) -> bool:
        return self._body is not None

    @property
    def narrows(self) -> bool:
        """Whether the sources hold jobs that the filter does not mean."""
        which, wanted = self.which, self._states & LIVE
        is_exact = wanted == LIVE or wanted <= UNTIMED | {JobState.RUNNING}
        others = msgspec.structs.replace(which, ids=(), states=frozenset())
        return bool(which.ids and which.states) or not is_exact or others != JobFilter()

    @property
    def sources(self) -> tuple[list[str], bool]:
        """The sets that hold every job in question, and whether the sets of what workers hold
        belong to them. Of the live states only running and those without a clock have sets that
        list ids."""
        if self.which.fingerprint is not None:
            return [f"dead:{self.which.fingerprint}"] if self._states else [], False
        names = [f"ended:{state}" for state in sorted(self._states & ENDED)]
        wanted = self._states & LIVE
        if not wanted <= UNTIMED | {JobState.RUNNING}:
            return [*names, "live"], False
        names += [f"untimed:{state}" for state in sorted(wanted & UNTIMED)]
        return names, JobState.RUNNING in wanted

    def fits_record(self, row: Record) -> bool:
        which = self.which
        return (
            STATES[row.state] in self._states
            and (not which.queues or row.queue in which.queues)
            and (not which.tasks or row.task in which.tasks)
            and (which.worker is None or row.worker == which.worker)
            and (which.fingerprint is None or row.fingerprint == which.fingerprint)
            and (which.priority is None or row.priority == which.priority)
            and (which.priority_over is None or row.priority > which.priority_over)
            and (which.priority_under is None or row.priority < which.priority_under)
            and (which.attempts_over is None or row.attempts > which.attempts_over)
            and (self._created is None or row.created_at in self._created)
            and (self._finished is None or row.at in self._finished)
        )

    def fits_body(self, body: Body) -> bool:
        return self._body is None or self._body.fits(body.tags, body.args, body.headers)

    def fits_errors(self, job: Job) -> bool:
        reason = job.reason if job.ended else None
        texts = [reason or "", *(error.message for error in job.errors)]
        return not self.text or any(self.text in one.casefold() for one in texts)


def _span(after: datetime | None, before: datetime | None) -> range | None:
    """The microseconds between two moments; None where neither is named."""
    if after is None and before is None:
        return None
    start = 0 if after is None else to_micros(after)
    return range(start, 2**62 if before is None else to_micros(before))
