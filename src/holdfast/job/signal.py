"""Signals: values that somebody sends to a job while it is live, and that its handler waits for.

A signal is kept until a wait of the job takes it. Each is taken once, by a wait for its name, the
oldest first. The wait is a step: it is recorded under a name of its own with the value of the
signal, so that a later attempt gets the same value (`StepRecord.takes`). A job that is suspended
for signals has a step for each of them that says so (`StepRecord.awaits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.json_text import shown_value
from holdfast.job.step import Step

LONGEST_NAME = 200
"""The longest name or key of a signal."""
OWN_SIGNALS = "holdfast."
"""Signals whose names begin so are sent by Holdfast alone. They do not count against
`SignalLimits.number`: there is one for each call of the job, and calls are limited as steps are."""
MOST_NAMES = 500
"""How many signals one wait may name. Each of them is a step of the job, and the job may be sent
each of them."""


class SignalGroup:
    """Some signals by name, and how many of them are needed. `all_of`, `any_of` and `quorum` make
    it.

    >>> print(SignalGroup(2, ("ann", "bob", "cyd")))
    2 of the signals 'ann', 'bob', 'cyd'
    """

    __slots__ = ("names", "need")

    def __init__(self, need: int, names: Sequence[str]) -> None:
        if len(names) > MOST_NAMES:
            expected = f"at most {MOST_NAMES} signals; wait for one signal whose value says which"
            raise BadOption("a condition", expected, len(names))
        for name in names:
            checks.text("the name of a signal", name, LONGEST_NAME)
        if len(set(names)) < len(names):
            raise BadOption("a condition", "each signal once", ", ".join(names))
        if not 1 <= checks.count("quorum", need) <= len(names):
            raise BadOption("quorum", f"between 1 and {len(names)}, the number of signals", need)
        self.need = need
        self.names = tuple(names)

    def __str__(self) -> str:
        if len(self.names) == 1:
            return one_signal(self.names[0])
        word = {len(self.names): "all", 1: "any"}.get(self.need, str(self.need))
        return f"{word} of the signals {', '.join(map(repr, self.names))}"


def one_signal(name: str) -> str:
    """How a signal is called in texts."""
    return f"signal {name!r}"


class NewSignal(msgspec.Struct, frozen=True):
    """A signal to send: its `value` is JSON. Of several signals of a job with one `key` only the
    first is kept, so a signal whose answer was lost may be sent again. With `before` it is refused
    once the step of that name has returned or failed."""

    id: JobId
    name: str
    value: str
    key: str
    before: str | None = None

    def __repr__(self) -> str:
        return f"<signal {self.name!r} for job {self.id}>"


class SignalLimits(msgspec.Struct, frozen=True):
    """How many signals one job may have been sent, and how many bytes those may take that no wait
    has taken yet."""

    number: int = 1_000
    size: int = 4_194_304


class Sent(StrEnum):
    """What became of a signal."""

    KEPT = "kept"  # until the job waits for it
    WOKE = "woke"  # the job waited for it, and goes on
    DUPLICATE = "duplicate"  # the job has had a signal with this key
    ENDED = "ended"
    UNKNOWN = "unknown"
    FULL = "full"  # it would have been over a limit
    LATE = "late"  # the step that it had to come before has ended


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal as a store keeps it. `n` counts those of its job. A signal that was taken has no
    value any more: the step `taken_by` has it."""

    n: int
    name: str
    key: str
    at: datetime
    value_json: str | None = None
    taken_by: str | None = None

    def __repr__(self) -> str:
        return f"<signal {self.name!r}>"

    @property
    def value(self) -> object:
        """What was sent, as a JSON value; None also once it was taken."""
        return shown_value(self.value_json)


class Recalled(NamedTuple):
    """What a job has written down and what it was sent, each in its order: what an attempt needs
    that goes on where another one left."""

    steps: list[Step]
    signals: list[Signal]


class SignalWait(msgspec.Struct, frozen=True):
    """A suspended job that waits for a signal of the name `signal`, since this moment, and no
    longer than `until`."""

    id: JobId
    task: str
    queue: str
    signal: str
    since: datetime
    until: datetime | None = None
