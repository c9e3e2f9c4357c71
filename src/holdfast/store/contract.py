"""What a store must do: small Protocols, one per noun, bundled by `Store`.

Rules that hold for every verb, on every backend:

- A verb takes a batch and applies it atomically, in one round trip where the
  backend can; an empty batch does nothing. Answers come in the order asked.
- Times that decide anything come from the store's clock (`Store.now`); a
  `ManualClock` given at opening replaces it everywhere.
- A job is in exactly one place at any committed moment. Moves are guarded by
  the job's fence; a refused move changes nothing and says what is true.
- A verb that finds the store out of reach raises `StoreUnavailable`; all verbs
  may be repeated after that, because each is idempotent or guarded.
- A store that answers and cannot serve (login, grants, schema, memory) raises
  `StoreRefuses`. `RowRefused` means that a value in the batch cannot be stored,
  and nothing else: who gets it may give that row up.
- Sweeps take `after`, an opaque cursor (the last id of the page before), so
  that one item which cannot be mended never hides those behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import Protocol

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import Transition
from holdfast.job.record import Claimed, Inserted, Job, Live, NewJob
from holdfast.job.state import JobState
from holdfast.schedule.model import Definition, LedgerEntry, Plan, Schedule
from holdfast.store.records import (
    EVERY_TOPIC,
    Beat,
    Capability,
    Finding,
    Held,
    JobFilter,
    News,
    Outcome,
    Page,
    ProgressReport,
    Promoted,
    QueueInfo,
    QueueSettings,
    Topic,
    Verdict,
    Wakeup,
    Want,
    WorkerInfo,
)


class Jobs(Protocol):
    """Jobs: their insertion, their moves, their reading."""

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Add jobs. An id that is already there changes nothing: with the same task and
        arguments it answers `created`, with others `taken`; the rest of the batch is added.

        All of them are added or none, but by a store that writes a call in several steps: where
        it is refused between them it raises `PartlyInserted`. Raises `KeyHeld`, and adds none, if
        a unique key is in doubt because a transaction that is still open has taken it: a store
        waits a bounded time for it, and keeps no other insert waiting meanwhile.
        """
        ...

    async def insert_within(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Add jobs in the caller's open transaction: theirs to commit or roll back. Delays
        and deadlines count from this call, not from the transaction's beginning.

        `connection` is any that the backend knows; an unknown one is a BadOption.
        """
        ...

    def insert_within_sync(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        """The same for connections whose driver does not use a loop."""
        ...

    async def claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        """Give ready jobs of these queues and tasks to a worker: lowest priority number
        first, then arrival.

        Nothing is given from a paused or cooling queue, nor to a worker whose own lease
        has lapsed or who is not registered. Jobs of other tasks are left alone and must not
        slow the scan. The fence grows, and its last six bits by one (`Claimed.times_taken`).
        `timeout_at` is set from the policy's timeout. What is given beyond `Want.free` is marked
        as claimed ahead.
        """
        ...

    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        """Apply guarded moves of running or waiting jobs (`Transition.source` says which),
        as if one after the other: of two moves of one job in a batch the first wins.

        A running job whose cancel was asked for meanwhile does not go on: a move of it to a
        live state is applied as an end, cancelled "on request" and kept as its policy says.

        To an ended state: an outcome row, kept for `keep_for` or as the queue's tuning
        overrides. To scheduled: due after `delay`. To ready: at its old position in line.
        To suspended: woken after `delay`, or only by `resume`. An error is appended to the
        history (newest 32 kept). `cool` makes the queue cool down: the first throttle of a
        window raises the queue's count and sets
        `cool_until = now + max(cool, min(throttle_base * 2 ** (count - 1), throttle_cap))`;
        siblings inside the window only ever extend it to their own hint; a throttle later
        than 120 s after the window's end starts counting from one again.
        """
        ...

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        """As `finish`, but only for jobs whose worker is still gone or lapsed: checked in
        the same step, so a worker that came back in time keeps its jobs.

        `by` is the worker that reclaims, as it was when it judged. All is refused if its own
        lease has lapsed or its service has had a break since: then it may have been the store
        that was away, and what was judged before that holds no more."""
        ...

    async def expired_leases(self, limit: int, after: str | None = None) -> list[Live]:
        """Running jobs whose worker is missing or whose lease has lapsed, by id."""
        ...

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        """Running jobs past their attempt timeout by more than `slack` seconds, by id.

        Only those whose worker is missing or had written, by a moment later than that, all
        the ends it had decided (see `Workers.heartbeat`)."""
        ...

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        """Live jobs whose deadline has passed, by id; entries of ended jobs are dropped.
        A running job under the same condition as in `overdue_attempts`."""
        ...

    async def next_deadline_in(self) -> float | None:
        """Seconds until the next deadline of a live job, or None."""
        ...

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        """Those of the given jobs that are live, in any order."""
        ...

    async def promote_due(self, limit: int) -> Promoted:
        """Make ready what is due: scheduled jobs, and suspended ones whose timer ended.
        Earliest due first, then by id; workers of their queues are woken."""
        ...

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        """What `promote_due` would make ready, by id."""
        ...

    async def promote(self, ids: Sequence[JobId]) -> int:
        """Make ready those of these jobs that are due; answers how many. For a promoter that
        has to find out which job breaks its batch."""
        ...

    async def resume(self, ids: Sequence[JobId]) -> list[JobId]:
        """Make suspended jobs ready now; returns those that were suspended."""
        ...

    async def request_cancel(self, ids: Sequence[JobId]) -> list[JobId]:
        """Mark running jobs as to be cancelled and wake their workers; returns those
        that are running. The mark outlives the worker."""
        ...

    async def requeue(self, ids: Sequence[JobId]) -> list[JobId]:
        """Make ended jobs ready again: attempts and crashes back to none, error history
        and fence kept, deadline dropped, outcome removed. A job whose unique key another
        holder has by now stays as it is. Returns those requeued."""
        ...

    async def reschedule(self, ids: Sequence[JobId], delay: float) -> list[JobId]:
        """Make scheduled or ready jobs due after `delay` seconds; 0 means ready now."""
        ...

    async def reprioritise(self, ids: Sequence[JobId], priority: int) -> list[JobId]:
        """Give waiting jobs another priority; returns those changed."""
        ...

    async def move(self, ids: Sequence[JobId], queue: str) -> list[JobId]:
        """Put waiting jobs in another queue; returns those moved."""
        ...

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        """Remove ended jobs with all that belongs to them; returns those removed."""
        ...

    async def prune(self, limit: int) -> int:
        """Remove up to `limit` ended jobs whose time to be kept is over."""
        ...

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        """Keep the progress of running attempts; False where the fence is old."""
        ...

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        """Whole records with error history (oldest first), in any order; unknown ids
        are left out."""
        ...

    async def ahead(self, job_id: JobId) -> int:
        """How many ready jobs of its queue stand before a ready job, counted up to 1000;
        0 for a job that is not ready."""
        ...

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        """The outcomes of those that have ended, in any order."""
        ...

    async def page(self, which: JobFilter, limit: int, cursor: str | None = None) -> Page:
        """Jobs newest first, every filter applied before the limit; `errors` holds the
        newest entry only. The cursor stays right while jobs come, move and go."""
        ...

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        """How many jobs there are by state; states with none are left out."""
        ...


class Queues(Protocol):
    """Queues: named lines with settings of their own."""

    async def ensure(self, queues: Mapping[str, QueueSettings]) -> None:
        """Add queues that are absent; never overwrites what an operator tuned."""
        ...

    async def pause(self, names: Sequence[str]) -> None:
        """Stop claims from these queues (made if absent); running jobs go on. Workers hear of
        it (PAUSED) and give back what they claimed and have not begun."""
        ...

    async def resume(self, names: Sequence[str]) -> None:
        """Allow claims again, end any cool-down, and wake the workers."""
        ...

    async def tune(self, name: str, settings: QueueSettings) -> None:
        """Replace the settings of a queue (made if absent)."""
        ...

    async def list(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        """Every queue that is known or has live jobs, by name; or only those named."""
        ...


NONE_STUCK: Mapping[str, int] = {}


class Workers(Protocol):
    """Workers and the leases they hold."""

    async def register(self, worker: WorkerInfo, lease: float) -> None:
        """Add a worker whose lease ends `lease` seconds from now."""
        ...

    async def heartbeat(
        self,
        worker: WorkerId,
        lease: float,
        held: Sequence[Held],
        caught_up: bool = True,
        stuck: Mapping[str, int] = NONE_STUCK,
    ) -> Beat:
        """Extend the worker's lease, also one that has lapsed, and say which of its attempts
        need attention. `stuck` is what `WorkerInfo.stuck` shows from now on.

        `caught_up` says that all ends which the worker had decided when it heard the answer to
        the beat before this one are written by now. The store then notes the time of that beat:
        what it knows of running jobs up to there is all that their worker will say."""
        ...

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        """Say in one look what a worker of these queues and tasks may not have been woken
        for. It is asked for all day long, so it costs no more than a claim of nothing."""
        ...

    async def deregister(self, worker: WorkerId) -> None:
        """Remove a worker that is leaving; what it still holds becomes reclaimable."""
        ...

    async def list(self) -> list[WorkerInfo]:
        """All workers, live or lapsed but not yet swept, oldest first."""
        ...

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        """Remove workers whose lease lapsed longer ago than this and that hold no job.
        Shortens every lease that ends later than its length from now: the clock was set back."""
        ...

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        """Take or extend the leadership of a role; False if another holds it."""
        ...

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        """Give a role up, if it is held; wakes the others (`Topic.LEAD`, the role)."""
        ...


class Schedules(Protocol):
    """Schedules, and the ledger in which every due plan has one row."""

    async def declare(
        self, schedules: Mapping[str, Definition], since: datetime | None = None
    ) -> None:
        """Sync from code: adds what is absent and updates what differs, but for what an
        operator edited; marks all as declared now. Never deletes.

        Of programs that declare one schedule differently the one that runs since the latest
        time (`since`, None: now) wins, until `DECLARED_FOR` after it last declared. What an
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
        by the plan of …"; a running one is marked as by `Jobs.request_cancel`."""
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

    async def list(self, names: Sequence[str] = ()) -> list[Schedule]:
        """All schedules by name, or those named."""
        ...


Listener = Callable[[Wakeup], None]


class Wakeups(Protocol):
    """Hints that something may be worth a look. They may be lost; polling is the truth."""

    async def subscribe(
        self, listener: Listener, topics: Set[Topic] = EVERY_TOPIC
    ) -> Callable[[], None]:
        """Call `listener` on this loop for each wakeup of these topics, until the returned
        function is called. Reconnects by itself. After a reconnect every topic may have been
        missed, so the listener gets READY, DUE and SCHEDULES with an empty name, meaning any."""
        ...

    def doze(self, listener: Listener, dozes: bool) -> None:
        """Whether `listener` goes without READY of up to `FEW_JOBS` jobs from now on: where
        many could do a job, a message to each of them costs more than the job."""
        ...

    def tell(self, wakeup: Wakeup) -> None:
        """Call the listeners of this store, as if the wakeup had been heard: for who learned
        by a poll what there is to do."""
        ...

    @property
    def hears(self) -> bool:
        """Whether wakeups arrive at this moment. Where they do not, polls do all of it."""
        ...


class Telemetry(Protocol):
    """What the store can tell about its own health."""

    async def check(self) -> list[Finding]:
        """Schema, orphaned or doubled rows, bloat, settings that threaten durability."""
        ...


class Store(Protocol):
    """One opened store. The composition root opens it; everything else receives it."""

    @property
    def jobs(self) -> Jobs: ...
    @property
    def queues(self) -> Queues: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def wakeups(self) -> Wakeups: ...
    @property
    def telemetry(self) -> Telemetry: ...
    @property
    def kind(self) -> str: ...
    @property
    def capabilities(self) -> frozenset[Capability]: ...
    @property
    def durability(self) -> str:
        """What a crash can and cannot lose, in a sentence for people."""
        ...

    async def open(self) -> None:
        """Connect and check the schema (SQLite migrates itself)."""
        ...

    async def close(self) -> None:
        """Give back every connection and thread. Safe to call twice."""
        ...

    def sibling(self) -> Store:
        """A second, unopened store on the same data with connections of its own, for a
        thread whose loop must not depend on this one (the heartbeat)."""
        ...

    async def now(self) -> datetime:
        """The store's clock, aware UTC."""
        ...

    async def migrate(self) -> list[str]:
        """Apply what is missing, in order; returns the names applied. Safe to run from
        several processes at once, and on a store that is not opened yet."""
        ...

    def migration_sql(self) -> str:
        """All migrations as one script, to be read or run by hand."""
        ...
