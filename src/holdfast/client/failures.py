"""The verbs on failures: `client.failures.mute("3f0c9a2b7d514e68")`.

A failure is all errors of one cause, under their fingerprint. To run its dead jobs again is an
operation as any other: `redrive` begins it, and `client.operations` has the rest.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from holdfast.client.acting import LONGEST_NAME, Acts
from holdfast.client.operations import OperationVerbs, Preview
from holdfast.enqueue.options import Seconds
from holdfast.errors import BadOption, UnknownFailure
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.checks import check_fingerprint, is_fingerprint
from holdfast.job.policy import DAY
from holdfast.job.sealed import shown_error
from holdfast.job.state import JobState
from holdfast.store.contract.failures import Behind, Failure
from holdfast.store.contract.operations import Operation
from holdfast.store.contract.store import Store

FAILURE_PAGE_LIMIT = 1_000
LONGEST_NOTE = 1_000
MUTED_FOR = 7 * DAY


class FailurePage(msgspec.Struct, frozen=True):
    """Some failures, last seen first, and where the next page starts."""

    failures: tuple[Failure, ...]
    next_cursor: str | None


class FailureVerbs:
    """Read failures, mute them, write notes on them, and run their dead jobs again."""

    def __init__(self, store: Store, acts: Acts, operations: OperationVerbs) -> None:
        self._store = store
        self._acts = acts
        self._operations = operations

    async def page(
        self,
        *,
        task: str | None = None,
        since: datetime | None = None,
        muted: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> FailurePage:
        """Failures, last seen first; those that are muted only with `muted`. `since`: only those
        that were seen at or after this moment. `cursor` is `next_cursor` of the page before."""
        checks.count("limit", limit, most=FAILURE_PAGE_LIMIT)
        found = await self._store.failures.find(
            tasks=() if task is None else (checks.text("task", task, LONGEST_NAME),),
            since=None if since is None else checks.moment("since", since),
            muted=checks.flag("muted", muted),
            limit=limit,
            behind=None if cursor is None else _read_cursor(cursor),
        )
        more = _write_cursor(found[-1]) if len(found) == limit else None
        return FailurePage(tuple(map(_shown, found)), more)

    async def get(self, fingerprint: str) -> Failure:
        """One failure; raises `UnknownFailure` if the store has none of this fingerprint."""
        if is_fingerprint(fingerprint):
            for found in await self._store.failures.find([fingerprint], limit=1):
                return _shown(found)
        raise UnknownFailure(fingerprint)

    async def mute(
        self,
        fingerprint: str,
        duration: Seconds = MUTED_FOR,
        *,
        until: datetime | None = None,
        by: str | None = None,
    ) -> None:
        """Leave a failure out of lists for `duration` seconds, or until a moment. It is counted all
        the same, and comes back when the mute ends."""
        end = checks.moment("until", until) if until is not None else await self._after(duration)
        failure = await self.get(fingerprint)
        acting = self._acts.act(
            self._store, by, Noun.FAILURES, Verb.MUTE, failure.fingerprint, value=end
        )
        async with acting as act:
            act.changed = len(await self._store.failures.mute([fingerprint], end))

    async def _after(self, duration: Seconds) -> datetime:
        wait = checks.wait("duration", duration, zero=False)
        return await self._store.now() + timedelta(seconds=wait)

    async def unmute(self, fingerprint: str, *, by: str | None = None) -> None:
        """Show a muted failure in lists again."""
        failure = await self.get(fingerprint)
        acting = self._acts.act(self._store, by, Noun.FAILURES, Verb.UNMUTE, failure.fingerprint)
        async with acting as act:
            act.changed = len(await self._store.failures.mute([fingerprint], None))

    async def note(self, fingerprint: str, note: str | None, *, by: str | None = None) -> None:
        """Write a note on a failure, for whoever looks next; None removes it."""
        text = None if note is None else checks.text("note", note, LONGEST_NOTE)
        failure = await self.get(fingerprint)
        acting = self._acts.act(
            self._store, by, Noun.FAILURES, Verb.NOTE, failure.fingerprint, value={"note": text}
        )
        async with acting as act:
            act.changed = len(await self._store.failures.note([fingerprint], text))

    async def preview(self, fingerprint: str) -> Preview:
        """What `redrive` would touch. Nothing is changed."""
        return await self._operations.preview(
            Verb.REQUEUE, fingerprint=check_fingerprint(fingerprint), state=JobState.FAILED
        )

    async def redrive(
        self,
        fingerprint: str,
        *,
        canary: int | None = None,
        pace: float | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> Operation:
        """Begin the operation that requeues every job that failed with this error. A worker runs
        it, or `client.operations.follow` does; stop, go on and undo it as any operation."""
        return await self._operations.begin(
            Verb.REQUEUE,
            fingerprint=check_fingerprint(fingerprint),
            state=JobState.FAILED,
            canary=canary,
            pace=pace,
            reason=reason,
            by=by,
        )


def _shown(failure: Failure) -> Failure:
    """The failure with "encrypted (key …)" for a sample that this program could not open."""
    return msgspec.structs.replace(failure, sample=shown_error(failure.sample))


def _write_cursor(last: Failure) -> str:
    return f"{last.last_at.isoformat()}/{last.fingerprint}"


def _read_cursor(cursor: str) -> Behind:
    moment, _, fingerprint = str(cursor).partition("/")
    try:
        return Behind(
            checks.moment("cursor", datetime.fromisoformat(moment)), check_fingerprint(fingerprint)
        )
    except (ValueError, BadOption):
        raise BadOption("cursor", "next_cursor of the page before", cursor) from None
