"""The whole life of one job, told from its record, its outcome and its happenings.

A plain success left no happening: its enqueue, its claim and its end are read from the job. What a
store does not keep is not told: when a job that was enqueued with a delay became due, and what
was left out between the first happenings and the newest (`Life.is_whole`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from holdfast.job.happening import FIRST_KEPT, NEWEST_KEPT, Happening
from holdfast.job.ids import WorkerId
from holdfast.job.record import ERRORS_KEPT, ErrorEntry, Job
from holdfast.job.sealed import shown, shown_error
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.job.what import IN_PLACE, OF_ENDED, What
from holdfast.store.contract.audit import AuditFilter
from holdfast.store.contract.store import Store

CHANGES = IN_PLACE | {What.MOVED}
"""What leaves the time at which the job is due as it was."""
Claim = tuple[datetime | None, WorkerId | None]
ACTS_READ = 50


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in the life of a job. `since` is how many seconds after the moment before it came.

    `attempt` and `worker_id` are those of the attempt that began, was under way or ended. `due_at`
    is when the job was to go on; a moment `promoted` is that it was due. `by` names the operator.
    """

    at: datetime
    what: What
    since: float | None = None
    attempt: int | None = None
    worker_id: WorkerId | None = None
    due_at: datetime | None = None
    by: str | None = None
    note: str | None = None
    error: ErrorEntry | None = None


class FlowAct(msgspec.Struct, frozen=True):
    """What an operator did to the flow of a node: `flows.pause`, `flows.retry`, …"""

    at: datetime
    verb: str
    by: str


class Life(msgspec.Struct, frozen=True):
    """A job and the moments of its life, in order. It is whole unless so much happened that some of
    it may have been forgotten. Of a node, `of_flow` is what operators did to its flow, as far as
    the audit keeps it: a pause holds up nodes that nobody touched."""

    job: Job
    moments: tuple[Moment, ...]
    is_whole: bool = True
    of_flow: tuple[FlowAct, ...] = ()


def life_of(job: Job, happenings: Sequence[Happening]) -> Life:
    """The life of this job, to which these things happened, in this order."""
    moments = [*_Teller(job, happenings).moments()]
    before: datetime | None = None
    timed = []
    for moment in moments:
        passed = None if before is None else max(0.0, (moment.at - before).total_seconds())
        timed.append(msgspec.structs.replace(moment, since=passed))
        before = moment.at
    return Life(job, tuple(timed), _is_whole(happenings))


async def acts_on_flow(store: Store, job: Job) -> tuple[FlowAct, ...]:
    """What operators did to the flow of this node, in order; nothing for a job of no flow."""
    if not job.ties & Tie.NODE:
        return ()
    told = (await store.flows.inputs([job.id])).get(job.id)
    if told is None:
        return ()
    page = await store.audit.page(AuditFilter(target=told.flow), ACTS_READ)
    done = [act for act in page.entries if act.changed]
    return tuple(FlowAct(act.begun_at, act.verb, act.by) for act in reversed(done))


class _Teller:
    """Walks the happenings of one job, and puts between them what follows from them."""

    def __init__(self, job: Job, happenings: Sequence[Happening]) -> None:
        self._job = job
        self._happenings = happenings
        self._due: datetime | None = None
        self._told: Claim = (None, None)

    def moments(self) -> Iterator[Moment]:
        yield Moment(at=self._job.created_at, what=What.ENQUEUED, note=self._enqueued())
        for place, happening in enumerate(self._happenings):
            claim = (happening.claimed_at, happening.worker_id)
            yield from self._began(claim, happening.attempt)
            yield from self._was_due(happening.at)
            yield self._moment(place, happening)
            if happening.what not in CHANGES:
                self._due = happening.due_at
        yield from self._now()

    def _began(self, claim: Claim, attempt: int) -> Iterator[Moment]:
        """The claim of an attempt, unless it was told, and before it that the job was due."""
        claimed_at, worker_id = claim
        if claimed_at is None or claim == self._told:
            return
        self._told = claim
        yield from self._was_due(claimed_at)
        yield Moment(at=claimed_at, what=What.CLAIMED, attempt=attempt, worker_id=worker_id)

    def _was_due(self, by: datetime) -> Iterator[Moment]:
        if self._due is not None and self._due <= by:
            yield Moment(at=self._due, what=What.PROMOTED)
            self._due = None

    def _moment(self, place: int, happening: Happening) -> Moment:
        ran = happening.worker_id is not None
        return Moment(
            at=happening.at,
            what=happening.what,
            attempt=happening.attempt if ran else None,
            worker_id=happening.worker_id,
            due_at=happening.due_at,
            by=happening.by,
            note=self._note(place, happening),
            error=_error(happening),
        )

    def _now(self) -> Iterator[Moment]:
        """What the job itself tells: the attempt under way, or the end that left no happening."""
        job = self._job
        ended = OF_ENDED.get(job.state)
        attempt = job.attempts + (job.state is JobState.RUNNING)
        yield from self._began((job.claimed_at, job.worker_id), attempt)
        if job.state is JobState.READY and self._due is not None:
            yield from self._was_due(self._due)
        if ended is None or job.finished_at is None or self._has_told_end(ended):
            return
        ran = job.worker_id is not None
        yield Moment(
            at=job.finished_at,
            what=ended,
            attempt=job.attempts if ran else None,
            worker_id=job.worker_id,
            note=job.reason,
        )

    def _has_told_end(self, ended: What) -> bool:
        """Its end is the last happening, unless the job ended before happenings were kept."""
        return any(told.what is ended for told in self._happenings[-1:])

    # What a person wants to know of it

    def _enqueued(self) -> str:
        """In which queue, and how urgent: a job that was moved since left them with its moves."""
        queue = self._was(What.MOVED, 0, self._job.queue)
        priority = self._was(What.REPRIORITISED, 0, str(self._job.priority))
        return f"in {queue}" if priority == "0" else f"in {queue}, priority {priority}"

    def _was(self, what: What, place: int, at_last: str) -> str:
        """The queue or priority that the job had at this place of its life: what its next change
        took from it, or what it has now."""
        later = (one.message for one in self._happenings[place:] if one.what is what)
        return next((before for before in later if before is not None), at_last)

    def _note(self, place: int, happening: Happening) -> str | None:
        match happening.what:
            case What.MOVED:
                to = self._was(What.MOVED, place + 1, self._job.queue)
                return f"from {happening.message} to {to}"
            case What.REQUEUED if happening.message is not None:
                return f"it was {happening.message}"
            case What.REPRIORITISED:
                to = self._was(What.REPRIORITISED, place + 1, str(self._job.priority))
                return f"from {happening.message} to {to}"
        if happening.kind is not None or happening.message is None:
            return None
        return shown(happening.message)


def _error(happening: Happening) -> ErrorEntry | None:
    if happening.kind is None:
        return None
    return shown_error(
        ErrorEntry(
            happening.attempt,
            happening.kind,
            happening.message or "",
            happening.traceback,
            happening.at,
            happening.fingerprint,
        )
    )


def _is_whole(happenings: Iterable[Happening]) -> bool:
    errors = [happening.kind is not None for happening in happenings]
    failed = sum(errors)
    return failed < ERRORS_KEPT and len(errors) - failed < FIRST_KEPT + NEWEST_KEPT
