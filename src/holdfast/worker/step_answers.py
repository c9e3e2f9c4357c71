"""Answers what handlers ask about their steps. Records of many attempts share one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import assert_never

from holdfast.enqueue.batcher import Batcher
from holdfast.errors import RowRefused
from holdfast.job.ids import JobId
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    FindStep,
    KeepStep,
    LeaveHandler,
    RecordRefused,
    RequestRefused,
    SignalsTaken,
    StepFound,
    StepKept,
    TakeSignals,
    Wait,
)
from holdfast.job.sealed import is_sealed, read_envelope, why_closed
from holdfast.job.signal import Recalled, Signal
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from holdfast.steps import calls  # noqa: F401 - or the first step of a worker would wait for it
from holdfast.worker.attempt import Attempt
from holdfast.worker.journal import Journal, TooMuch
from holdfast.worker.setup import WorkerSetup

RECORD, LOAD, SIGNALS = "record", "load", "signals"
STEPS = int(Tie.STEPS)
_GONE, _KEPT, _NOTHING_FOUND = AttemptGone(), StepKept(), StepFound(None)
_NOTHING = Recalled([], [])

AtLast = Callable[[Attempt, str, Callable[[], Awaitable[Answer]]], Awaitable[Answer]]
"""Asks the store until it answers (`Answering`)."""
Before = Callable[[Attempt, Sequence[StepRecord]], Awaitable[Answer | None]]
"""Has all written that goes before these records (`StreamAnswers`)."""
Asked = FindStep | KeepStep | Wait | TakeSignals


class StepAnswers:
    """Knows the journal of each attempt, and writes what is to be written now."""

    def __init__(self, setup: WorkerSetup, at_last: AtLast, before: Before) -> None:
        self._steps = setup.store.steps
        self._signals = setup.store.signals
        self._options = setup.options
        self._at_last = at_last
        self._before = before
        self._records: Batcher[Sequence[StepRecord], bool] = Batcher(self._record)
        self._recalls: Batcher[JobId, Recalled] = Batcher(self._recall)
        self._looks: Batcher[JobId, list[Signal]] = Batcher(self._look)

    async def answer(self, attempt: Attempt, request: Asked) -> Answer:
        match request:
            case FindStep(name):
                return await self._find(attempt, name)
            case KeepStep(record, lazy, inside):
                if inside and attempt.streams is not None:
                    attempt.streams.note_inside(record.name, inside)
                return await self.keep(attempt, [record], lazy=lazy)
            case Wait(record):
                return self._leave(attempt, record)
            case TakeSignals():
                return await self._take(attempt, request)
        assert_never(request)

    async def aclose(self) -> None:
        await self._records.aclose()
        await self._recalls.aclose()
        await self._looks.aclose()

    async def _find(self, attempt: Attempt, name: str) -> Answer:
        journal = await self.journal(attempt)
        if journal is None:
            return _GONE
        found = journal.find(name)
        return _NOTHING_FOUND if found is None else StepFound(found)

    async def journal(self, attempt: Attempt) -> Journal | None:
        """The journal of an attempt, with what earlier attempts have recorded; None if the job is
        no longer this worker's. The steps of a job are loaded once in an attempt, and only if it
        has any."""
        journal = _journal_of(attempt)
        if not journal.loaded:
            async with journal.lock:
                answer = await self._at_last(attempt, LOAD, partial(self._fill, attempt, journal))
            if isinstance(answer, AttemptGone):
                return None
        return journal

    async def _fill(self, attempt: Attempt, journal: Journal) -> Answer:
        """Another step of the attempt may have done it while this one waited for the lock. The job
        may have been woken by a signal, so its signals come with its steps. Both may have come with
        the claim: nobody but this attempt has changed them since, and signals are looked for again
        where they are not enough."""
        if not journal.loaded:
            recalled = attempt.job.recalled or await self._recalls.submit(attempt.job.id)
            journal.fill(recalled.steps)
            journal.signals = recalled.signals
        return _KEPT

    async def keep(
        self, attempt: Attempt, given: Sequence[StepRecord], *, lazy: bool = False
    ) -> Answer:
        """Write records down, after the frames of their steps; lazy ones later, with the next."""
        if attempt.is_over:
            return _GONE
        journal = _journal_of(attempt)
        try:
            for record in given:
                journal.add(record, attempt.job, self._options)
        except TooMuch as error:
            return RecordRefused(str(error))
        if lazy:
            return _KEPT
        records = journal.take()
        try:
            if attempt.streams is not None:
                refusal = await self._before(attempt, records)
                if refusal is not None:
                    return refusal
            return await self._at_last(attempt, RECORD, partial(self._written, records))
        except asyncio.CancelledError:
            journal.give_back(records)  # the handler was stopped: they are written with its end
            raise

    async def _take(self, attempt: Attempt, request: TakeSignals) -> Answer:
        """Signals may come at any time, so the store is asked if those that were seen are not
        enough: nobody but this attempt takes what was seen. They are taken with the next write: if
        the worker dies before that, they are kept, and the next attempt takes the same ones."""
        if attempt.is_over:
            return _GONE
        journal = _journal_of(attempt)
        kept = journal.kept_signals(request.steps)
        if len(kept) < request.least:
            if not await self.read_signals(attempt, journal):
                return _GONE
            kept = journal.kept_signals(request.steps)
        if len(kept) < request.least:
            return SignalsTaken({}, tuple(one.name for one in kept))
        chosen = kept[: request.most]
        for one in chosen:
            if is_sealed(value := one.value_json or "null"):
                return RequestRefused(f"signal {one.name!r}: {why_closed(read_envelope(value))}")
        answer = await self.take(attempt, journal, {request.steps[one.name]: one for one in chosen})
        if not isinstance(answer, StepKept):
            return answer
        return SignalsTaken({one.name: one.value_json or "null" for one in chosen})

    async def take(
        self, attempt: Attempt, journal: Journal, chosen: Mapping[str, Signal]
    ) -> Answer:
        """Record the values of these signals with the next write, by the names of their steps."""
        journal.take_signals(chosen.values())
        records = [_taking(attempt, step, one) for step, one in chosen.items()]
        return await self.keep(attempt, records, lazy=True)

    async def read_signals(self, attempt: Attempt, journal: Journal) -> bool:
        """Ask the store which signals the job has; False if it is no longer this worker's."""
        looking = partial(self._looked, attempt, journal)
        return not isinstance(await self._at_last(attempt, SIGNALS, looking), AttemptGone)

    async def _looked(self, attempt: Attempt, journal: Journal) -> Answer:
        journal.signals = await self._looks.submit(attempt.job.id)
        return _KEPT

    def _leave(self, attempt: Attempt, record: StepRecord) -> Answer:
        if attempt.is_over:
            return _GONE
        _journal_of(attempt).wait(record)
        return LeaveHandler()

    async def _written(self, records: Sequence[StepRecord]) -> Answer:
        """If the store refuses a batch, the records of each attempt are sent alone: one of them is
        at fault, and only its own handler may hear of that."""
        try:
            kept = await self._records.submit(records)
        except RowRefused:
            kept = all(await self._steps.record(records))
        return _KEPT if kept else _GONE

    async def _record(self, many: Sequence[Sequence[StepRecord]]) -> list[bool]:
        """Write the records of several attempts. All records of an attempt have one fence."""
        if len(many) == 1:
            return [all(await self._steps.record(many[0]))]
        kept = iter(await self._steps.record([one for some in many for one in some]))
        return [all(list(islice(kept, len(some)))) for some in many]

    async def _recall(self, ids: Sequence[JobId]) -> list[Recalled]:
        found = await self._steps.recall(ids)
        return [found.get(job, _NOTHING) for job in ids]

    async def _look(self, ids: Sequence[JobId]) -> list[list[Signal]]:
        found = await self._signals.of(ids)
        return [found.get(job, []) for job in ids]


def _journal_of(attempt: Attempt) -> Journal:
    """Handlers look for a step before they record it, if an earlier attempt may have done so: then
    the journal is loaded here. A handler of a job without steps does not look."""
    if attempt.journal is None:
        attempt.journal = Journal(loaded=not attempt.job.ties & STEPS)
    return attempt.journal


def _taking(attempt: Attempt, step: str, signal: Signal) -> StepRecord:
    """The step that has the value of this signal from now on."""
    job = attempt.job
    return StepRecord(job.id, job.fence, step, 0, result=signal.value_json, takes=signal.n)
