"""The steps of one attempt, on its worker's side: what earlier attempts recorded, what waits to be
written, and what is written with the end of the attempt.

Rules that the end of an attempt has to keep:

- Lazy records are written with it, whatever the end is.
- A failed step is not written if the attempt fails right after it: the handler has not gone on in
  spite of the failure, so the next attempt tries the step again, if the job's `Retry` gives one.
- A wait is written only with the suspension that it asked for.
- A signal is taken by one wait.
- A handler that goes on although it was to be left has failed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Container, Iterator, Sequence
from datetime import datetime

import msgspec

from holdfast.errors import BadResult
from holdfast.job.call import called_flow
from holdfast.job.ends import End, Raised, Returned, WasSuspended
from holdfast.job.record import Claimed
from holdfast.job.signal import Signal, one_signal
from holdfast.job.state import JobState
from holdfast.job.step import Step, StepRecord
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.job.transition import Transition
from holdfast.job.vote import CastVote, cast_votes, question_of, read_vote_signal
from holdfast.worker.options import WorkerOptions

SWALLOWED = Raised(
    "SuspendingSwallowed",
    "the handler was left by ctx.sleep(…), by a wait for signals, by a call or by a step that "
    "waits for its next try, and went on all the same: it caught BaseException; catch Exception, "
    "or raise what was caught again; asyncio.gather(…, return_exceptions=True) catches it too",
    final=True,
)
"""The end of an attempt whose handler would not be left."""

_replace = msgspec.structs.replace


class TooMuch(Exception):
    """A record or a frame that is over a limit of the program, or that has no place any more."""


class Journal:
    """What the worker knows of the steps of one attempt. Those that earlier attempts recorded are
    `loaded` before the first step is looked for, by whoever has the `lock`. `signals` are those
    that the store had when it was last asked."""

    __slots__ = (
        *("_asked", "_known", "_n", "_pending", "_size", "_taken", "_votes", "_waits"),
        *("loaded", "lock", "signals", "unproven"),
    )

    def __init__(self, *, loaded: bool) -> None:
        self.loaded = loaded
        self.lock = asyncio.Lock()
        self._known: dict[str, Step] = {}
        self._asked: set[str] = set()
        self._pending: list[StepRecord] = []
        self._waits: list[StepRecord] = []
        self._taken: set[int] = set()
        self._n = self._size = 0
        self._votes: list[CastVote] = []
        self.signals: Sequence[Signal] = ()
        self.unproven: set[CastVote] = set()  # those that were reported

    def fill(self, known: Sequence[Step]) -> None:
        self.loaded = True
        self._known = {step.name: step for step in known}
        self._n = max((step.n for step in known), default=0)
        self._size = sum(step.size for step in known)

    def find(self, name: str) -> Step | None:
        self._asked.add(name)
        return self._known.get(name)

    def add(self, record: StepRecord, job: Claimed, limits: WorkerOptions) -> None:
        """Keep a record until it is written. Raises `TooMuch` if it is over a limit."""
        self._n += 1
        self._size += record.size
        if self._n > limits.max_steps:
            raise TooMuch(
                f"step {record.name!r}: job {job.id} has recorded {self._n - 1} steps, and "
                f"max_steps is {limits.max_steps}; split the job, or raise the setting"
            )
        if record.result is not None and (size := len(record.result.encode())) > limits.max_payload:
            raise TooMuch(
                f"step {record.name!r}: its result of {size} bytes of JSON is over max_payload, "
                f"{limits.max_payload}; store the data elsewhere and return a reference"
            )
        if self._size > limits.max_steps_size:
            raise TooMuch(
                f"step {record.name!r}: with it the steps of job {job.id} take {self._size} bytes, "
                f"and max_steps_size is {limits.max_steps_size}; return less, or raise the setting"
            )
        self._pending.append(_replace(record, n=self._n))

    def take(self) -> list[StepRecord]:
        """The records to write now."""
        pending, self._pending = self._pending, []
        return pending

    def give_back(self, records: list[StepRecord]) -> None:
        """Records that were not written after all."""
        self._pending = records + self._pending

    def kept_signals(self, names: Container[str]) -> list[Signal]:
        """Of the signals that were seen, the oldest of each of these names that no wait has taken:
        neither as the store says, nor one whose record is under way."""
        oldest: dict[str, Signal] = {}
        for one in self.signals:
            if one.name in names and one.taken_by is None and one.n not in self._taken:
                oldest.setdefault(one.name, one)
        return list(oldest.values())

    def take_signals(self, signals: Collection[Signal]) -> None:
        """No other wait of the attempt takes these."""
        self._votes += (one._replace(signal=None) for one in cast_votes((), signals))
        self._taken.update(one.n for one in signals)

    def votes(self) -> list[CastVote]:
        """All votes on any question of the job: those that earlier attempts have recorded, those
        that this one has taken, and those that were seen and are kept, proven or not."""
        kept = [one for one in self.signals if one.n not in self._taken]
        return [*cast_votes(self._known.values(), ()), *self._votes, *cast_votes((), kept)]

    def ends_of_wait(self, question: str, people: Container[str]) -> Iterator[datetime]:
        """When the waits of earlier attempts for the votes of these people end."""
        for step in self._known.values():
            if step.awaits is not None and step.until is not None:
                name = read_vote_signal(step.awaits)
                if name is not None and name.wait == question and name.who in people:
                    yield step.until

    def wait(self, record: StepRecord) -> None:
        """The handler is left: its job is suspended until the first wait is over."""
        self._n += 1
        self._waits.append(_replace(record, n=self._n))

    # The end of the attempt -----------------------------------------------------------------------

    def end(self, end: End) -> End:
        """What the end of the handler means, given what it was told."""
        if not self._waits:
            return end
        if isinstance(end, Returned) or _is_no_result(end):
            return SWALLOWED
        if isinstance(end, WasSuspended):
            first = min(self._waits, key=_seconds)
            return WasSuspended(first.seconds, _told(first))
        return end

    def complete(self, move: Transition) -> Transition:
        """The same move with the records that are written with it."""
        pending = self.take()
        if move.to is JobState.SUSPENDED:
            return _replace(move, steps=(*pending, *self._waits))
        if move.to is JobState.SUCCEEDED:
            return _replace(move, steps=tuple(pending), reason=self._unused())
        again: list[StepRecord] = []
        while pending and pending[-1].failed:
            again.append(pending.pop())
        # A step that is tried again by the next attempt has all its tries again.
        begun = [_replace(one, tries=0, seconds=0.0) for one in again if self._waited(one.name)]
        return _replace(move, steps=(*pending, *begun))

    def _waited(self, name: str) -> bool:
        found = self._known.get(name)
        return found is not None and found.until is not None

    @property
    def unused(self) -> list[str]:
        """Steps that earlier attempts recorded and this one never asked for. A step that was called
        within another is not asked for again once that one is recorded."""
        return [name for name in self._known if not self._is_asked(name)]

    def _is_asked(self, name: str | None) -> bool:
        """Whether this step was asked for, or one around it. Those of a question are asked for with
        its decision, which has the name of the wait."""
        while name is not None:
            if name in self._asked or question_of(name) in self._asked:
                return True
            step = self._known.get(name)
            name = None if step is None else step.within
        return False

    def _unused(self) -> str | None:
        if not (names := self.unused):
            return None
        listed = ", ".join(map(repr, names))
        return clean(f"recorded and not asked for any more: {listed}", MESSAGE_LIMIT)


def _is_no_result(end: End) -> bool:
    """Whether the handler returned what cannot be kept, such as exceptions that `gather` caught."""
    return isinstance(end, Raised) and end.kind == BadResult.__name__


def _seconds(wait: StepRecord) -> float:
    return math.inf if wait.seconds is None else wait.seconds


def _told(wait: StepRecord) -> str:
    """Names and kinds only: this text is not encrypted."""
    if called_flow(wait.awaits) is not None:
        return f"waits for {wait.name!r}"
    if wait.awaits is not None:
        return f"waits for {wait.message or one_signal(wait.awaits)}"
    if wait.kind is None:
        return f"sleeps {wait.name!r}"
    return f"step {wait.name!r} is tried again after {wait.kind}"
