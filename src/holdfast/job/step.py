"""Steps: calls inside a job whose results are written down, so that no later attempt repeats them.

A step belongs to its job and is known by its name. It has *returned* (`result`), *failed* for good
(`kind` and `message`), or it *waits*: a sleep until a moment, a failed try until the next one, or
the wait for a signal until that comes (`awaits`). The `message` of a step that has returned names
the step in whose function it was called.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.json_text import shown_value


class StepRecord(msgspec.Struct, frozen=True, gc=False):
    """What an attempt writes of one of its steps. `n` counts the records of a job, so that its
    steps have an order. A step that waits does so for `seconds` by the store's clock. `awaits`
    names the signal that it waits for. `takes` is the number of the signal whose value is its
    result. `undo` says, as JSON that no store reads, which task undoes it."""

    id: JobId
    fence: int
    name: str
    n: int
    tries: int = 1
    result: str | None = None
    kind: str | None = None
    message: str | None = None
    version: str | None = None
    seconds: float | None = None
    awaits: str | None = None
    takes: int | None = None
    undo: str | None = None

    def __repr__(self) -> str:
        return f"<record of step {self.name!r} of job {self.id}>"

    @property
    def failed(self) -> bool:
        """Whether the step failed for good."""
        return self.kind is not None and self.seconds is None

    @property
    def size(self) -> int:
        """What it takes in the store, roughly in bytes."""
        return len(self.name) + len(self.result or "") + len(self.message or "")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step as a store keeps it. `fence` is that of the attempt that wrote it. `tries` is how
    often its function was called. `until` is the end of its wait, `awaits` the signal that it waits
    for."""

    name: str
    n: int
    fence: int
    tries: int
    at: datetime
    result_json: str | None = None
    kind: str | None = None
    message: str | None = None
    version: str | None = None
    until: datetime | None = None
    awaits: str | None = None
    undo: str | None = None

    def __repr__(self) -> str:
        return f"<step {self.name!r}>"

    @property
    def returned(self) -> bool:
        return self.result_json is not None

    @property
    def failed(self) -> bool:
        """Whether it failed for good."""
        return self.kind is not None and self.until is None

    @property
    def slept(self) -> bool:
        """Whether it is a sleep, over or not."""
        return self.until is not None and self.kind is None and self.awaits is None

    @property
    def within(self) -> str | None:
        """The step in whose function this one was called and has returned."""
        return self.message if self.returned else None

    @property
    def can_be_undone(self) -> bool:
        return self.undo is not None and self.returned

    @property
    def result(self) -> object:
        """What its function returned, as a JSON value; None also while there is no result."""
        return shown_value(self.result_json)

    @property
    def size(self) -> int:
        """What it takes in the store, roughly in bytes."""
        return len(self.name) + len(self.result_json or "") + len(self.message or "")
