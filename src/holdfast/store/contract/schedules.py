"""Schedules, and the ledger of their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from holdfast.job.record import Live
from holdfast.schedule.model import Definition, LedgerEntry, Plan, Schedule


class Schedules(Protocol):
    """Schedules, and the ledger in which every due plan has one row."""

    async def declare(
        self, schedules: Mapping[str, Definition], since: datetime | None = None
    ) -> None:
        """Sync from code: adds what is absent and updates what differs, but for what an
        operator edited; marks all as declared now. Never deletes.

        Of programs that declare one schedule differently the one that runs since the latest
        time (`since`, None: now) wins, until `DECLARATION_SECONDS` after it last declared. What an
        older one declares instead is shown as the schedule's `rival`."""
        ...

    async def put(self, name: str, definition: Definition, revision: int | None = None) -> bool:
        """An operator creates or edits a schedule. With a `revision` only if it is still at
        that one, 0 meaning that there is none yet; False if it is not."""
        ...

    async def pause(self, names: Sequence[str]) -> list[str]:
        """Keep schedules from firing; answers with those there are, by name."""
        ...

    async def resume(self, names: Sequence[str]) -> list[str]:
        """Plans that came due while paused are not caught up: they are recorded as skipped
        by the next evaluation (`Schedule.paused_at`, `resumed_at`). Answers as `pause`."""
        ...

    async def delete(self, names: Sequence[str]) -> list[str]:
        """Remove schedules, their cursors and their ledger; jobs they started stay."""
        ...

    async def cursors(self, name: str, scopes: Sequence[str]) -> dict[str, datetime]:
        """The newest recorded plan of each scope; a scope with none is left out."""
        ...

    async def own_cursors(self) -> dict[str, datetime]:
        """The newest recorded plan of no scope, of every schedule that has one."""
        ...

    async def unfinished(self, name: str, scopes: Sequence[str]) -> dict[str, list[Live]]:
        """Live jobs that this schedule started, by scope, oldest plan first."""
        ...

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        """Write plans whose (schedule, scope, at) has no row yet, each with its job and its
        cancels in one transaction, and advance the cursors; True where this call wrote it.
        A row that is open (FAILED or WAITING) may be overwritten by another decision; a row that
        started no job, whatever it says, by a FIRED plan out of turn (`moves_cursor` False: a
        backfill); any other row never. Of two plans of a batch for one row the first counts.
        Nothing is written for a schedule that is gone. Cursors only grow. A plan with `beside`
        is refused if the live jobs of its scope, as this call finds them, are others.

        Only a FIRED plan starts its job. A waiting job to cancel ends as cancelled, "replaced
        by the plan of …"; a running one is marked as by `Jobs.request_cancel`.

        Raises `KeyHeld`, and writes nothing, if the unique key of a job is in doubt, as
        `Jobs.insert` does."""
        ...

    async def advance(self, name: str, scope: str, at: datetime) -> None:
        """Move a cursor forward without a row (it never goes back): all that was due up to
        there has been looked at. Nothing happens for a schedule that is gone.

        The cursor of no scope stands for every scope that has none, or an older one. So the
        cursors of scopes that lie more than the schedule's `keep` behind it are removed, some
        thousand at a time: their scopes are given no more."""
        ...

    async def history(
        self,
        name: str,
        *,
        scope: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[LedgerEntry]:
        """Rows of the ledger whose plan is `before` that, newest plan first, then by scope."""
        ...

    async def failed_plans(
        self, name: str, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[LedgerEntry]:
        """Plans that could not be started yet (FAILED or WAITING), oldest first, by
        (at, scope); `after` is that of the last of the page before."""
        ...

    async def complain(self, name: str, error: str | None) -> None:
        """Show on the schedule what keeps it from being evaluated; None clears it. Wakes
        nobody and is no change of the schedule."""
        ...

    async def prune_ledger(self, limit: int) -> int:
        """Remove up to `limit` ledger rows whose time to be kept is over; cursors stay, and
        so do the rows of jobs that are still live and of plans that are open (FAILED or
        WAITING). A schedule remembers the oldest and the newest FIRED plan that was removed
        (`Schedule.pruned_from`, `pruned_until`)."""
        ...

    async def find(self, names: Sequence[str] = ()) -> list[Schedule]:
        """All schedules by name, or those named."""
        ...
