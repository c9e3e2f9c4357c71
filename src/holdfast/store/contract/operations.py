"""Operations: acts on many jobs that outlive whoever began them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NewType, Protocol

import msgspec
import uuid_utils

OperationId = NewType("OperationId", str)

ERRORS_SHOWN = 20
"""So many errors of an operation are kept: the first ones."""


def new_operation_id() -> OperationId:
    """Minted by whoever begins it, so that a begin whose reply was lost can be repeated."""
    return OperationId(str(uuid_utils.uuid7()))


class OperationState(StrEnum):
    """`WAITING`: its canary is done, and somebody has to say that it may go on."""

    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"
    DONE = "done"


class OperationRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What an operation is to do. It never changes.

    `verb` is a verb on jobs, `value` what it takes beside them, as JSON. `which` is a `JobFilter`
    as JSON, whose states are those that the verb applies to; `matched` is how many jobs matched
    when it was begun. An operation with `undoes` takes back what that operation did to the jobs
    that it touched, and has no filter. `canary`: how many jobs to change before it waits. `pace`:
    jobs a second. `keeps`: whether it keeps what an undo needs to know.
    """

    verb: str
    which: str | None = None
    value: str | None = None
    by: str | None = None
    reason: str | None = None
    matched: int = 0
    undoes: OperationId | None = None
    canary: int | None = None
    pace: float | None = None
    keeps: bool = True


class OperationProgress(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How far an operation has come: the cursor behind the last page, how many jobs it changed,
    how many it left as they were or failed on, and the first of the reasons."""

    cursor: str | None = None
    changed: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()
    canary_over: bool = False


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as it stands. `hand` names the jobs of the page that somebody has in hand:
    perhaps they were changed, perhaps not yet. `advanced_at`: when it last moved."""

    id: OperationId
    request: OperationRequest
    state: OperationState
    revision: int
    progress: OperationProgress
    hand: str | None
    begun_at: datetime
    advanced_at: datetime


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """One move of an operation. `hand` replaces the page in hand, None empties it. `kept` is what
    an undo needs to know of the jobs that the page before changed."""

    state: OperationState
    progress: OperationProgress
    hand: str | None = None
    kept: str | None = None


class Operations(Protocol):
    """Operations on jobs. Who works on one is decided elsewhere (`Workers.lead`); here every move
    names the revision that it starts from, so a runner that was replaced moves nothing."""

    async def begin(self, operation_id: OperationId, request: OperationRequest) -> None:
        """Write down an operation that is to run. A second begin of the same id does nothing."""
        ...

    async def advance(self, operation_id: OperationId, revision: int, move: Advance) -> bool:
        """Move an operation that is still at this revision, and raise the revision by one;
        answers whether it was."""
        ...

    async def stop(self, ids: Sequence[OperationId]) -> list[OperationId]:
        """Stop operations that run or wait; returns those. Their revision rises, so whoever works
        on one of them notices before the next page."""
        ...

    async def go_on(self, ids: Sequence[OperationId]) -> list[OperationId]:
        """Let operations run that are stopped or wait; returns those."""
        ...

    async def find(
        self,
        ids: Collection[OperationId] = (),
        states: Collection[OperationState] = (),
        limit: int = 50,
        before: OperationId | None = None,
    ) -> list[Operation]:
        """Operations newest first; empty words mean any. `before`: only those that stand behind
        this one."""
        ...

    async def kept(
        self, operation_id: OperationId, after: int, limit: int
    ) -> list[tuple[int, str]]:
        """What was kept for an undo, by number, behind the number `after` (0: from the first)."""
        ...

    async def prune(self, limit: int, kept_for: float) -> int:
        """Remove up to `limit` operations that do not run and last moved longer ago than this,
        with what they kept."""
        ...


UNREADABLE = "unreadable"
"""The verb of an operation that this release cannot read. Nobody can run it."""

_decode_request = msgspec.json.Decoder(OperationRequest).decode
_decode_progress = msgspec.json.Decoder(OperationProgress).decode


def read_parts(
    request: str | bytes, progress: str | bytes
) -> tuple[OperationRequest, OperationProgress]:
    """A request and a progress as a store keeps them. If one of them is damaged, or a newer release
    wrote it, the operation is listed among the others and cannot be run: without its progress it
    would begin anew, and without a part of its request it would do something else."""
    try:
        return _decode_request(request), _decode_progress(progress)
    except (msgspec.MsgspecError, UnicodeError):
        return OperationRequest(verb=UNREADABLE), OperationProgress()


def encode(part: OperationRequest | OperationProgress) -> str:
    """A request or a progress as every store keeps it: JSON."""
    return msgspec.json.encode(part).decode()
