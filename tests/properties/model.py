"""What a store should do, in the smallest program that says it: one dict, no SQL.

All times are seconds on one clock. The model applies the same `Transition`s as a store does, so
policy is not repeated here; what it models is places, guards, lines and keys.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from holdfast.job.happening import FIRST_KEPT, NEWEST_KEPT
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.policy import Policy
from holdfast.job.record import ERRORS_KEPT
from holdfast.job.signal import NewSignal, Sent
from holdfast.job.state import ENDED, LIVE, UNDONE, WAITING, JobState
from holdfast.job.step import StepRecord
from holdfast.job.stream import NewFrames
from holdfast.job.ties import BEGUN, OF_ATTEMPTS, Tie
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.queues import EVERY_QUEUE

S = JobState


@dataclass
class ModelSignal:
    name: str
    key: str
    taken_by: str | None = None


@dataclass
class ModelJob:
    id: JobId
    queue: str
    priority: int
    policy: Policy
    state: JobState
    seq: int
    key: str | None = None
    due: float | None = None
    deadline: float | None = None
    attempts: int = 0
    crashes: int = 0
    fence: int = 0
    worker: WorkerId | None = None
    timeout_at: float | None = None
    cancel: bool = False
    kept_until: float | None = None
    ties: int = 0
    bucket: str | None = None
    """Where the limit counts it while it runs."""
    is_node: bool = False
    """It belongs to a flow, which alone keeps it, removes it or lets it run again."""
    steps: dict[str, StepRecord] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)
    frames: list[NewFrames] = field(default_factory=list)
    signals: list[ModelSignal] = field(default_factory=list)
    """Number n of them is the one at n - 1."""
    edited: bool = False
    life: list[tuple[What, bool]] = field(default_factory=list)
    """What happened, and whether it was an error."""

    @property
    def may_be_undone(self) -> bool:
        """It has ended badly, and a step of it could be undone once."""
        return bool(self.ties & Tie.UNDO) and self.state in UNDONE

    @property
    def is_undone(self) -> bool:
        """It has ended badly, and its steps are undone, or to be undone."""
        return self.may_be_undone and bool(self.undoable)

    @property
    def undoable(self) -> list[StepRecord]:
        """The steps that would be undone, in the order of their records."""
        some = [one for one in self.steps.values() if one.undo and one.result is not None]
        return sorted(some, key=lambda one: one.n)

    @property
    def awaited(self) -> set[str]:
        """The signals that it is suspended for."""
        if self.state is not S.SUSPENDED:
            return set()
        return {one.awaits for one in self.steps.values() if one.awaits and one.fence == self.fence}

    def kept(self, name: str) -> list[int]:
        """The numbers of the signals of this name that no step has taken, the oldest first."""
        some = enumerate(self.signals, 1)
        return [n for n, one in some if one.name == name and one.taken_by is None]

    def begin_anew(self) -> None:
        """Without attempts, crashes, steps, signals and streams."""
        self.attempts = self.crashes = 0
        self.frames, self.signals = [], []
        self.steps, self.waits = {}, {}
        self.ties &= ~OF_ATTEMPTS
        self.kept_until = None

    def tell(self, what: What, *, error: bool = False) -> None:
        """The newest errors are kept; of the others the first and the newest."""
        self.life.append((what, error))
        alike = [n for n, (_, failed) in enumerate(self.life) if failed == error]
        if len(alike) > (ERRORS_KEPT if error else FIRST_KEPT + NEWEST_KEPT):
            del self.life[alike[0 if error else FIRST_KEPT]]


@dataclass
class Model:
    now: float = 0.0
    jobs: dict[JobId, ModelJob] = field(default_factory=dict)
    holders: dict[str, JobId] = field(default_factory=dict)
    leases: dict[WorkerId, float] = field(default_factory=dict)
    beaten: dict[WorkerId, float] = field(default_factory=dict)
    written: dict[WorkerId, float] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    cooling: dict[str, float] = field(default_factory=dict)
    arrivals: itertools.count[int] = field(default_factory=itertools.count)
    released: int = 0
    undoing: set[JobId] = field(default_factory=set)
    """Jobs whose steps a flow undoes."""

    # Enqueueing

    def insert(self, job: ModelJob, mode: str) -> tuple[JobId, str]:
        holder = self._holder(job.key)
        if holder is None or (mode == "replace" and holder.state in WAITING):
            if holder is not None:
                holder.tell(What.CANCELLED)
                self._end(holder, S.CANCELLED, holder.policy.retention.other)
            self._take(job)
            return job.id, "created" if holder is None else "replaced"
        if (
            mode == "debounce"
            and holder.state in (S.READY, S.SCHEDULED)
            and not holder.ties & BEGUN
        ):
            if holder.edited:
                holder.edited = False
                holder.tell(What.EDITED)
            self.reschedule(holder.id, (job.due or self.now) - self.now)
            return holder.id, "debounced"
        return holder.id, "existing"

    def _holder(self, key: str | None) -> ModelJob | None:
        found = self.jobs.get(self.holders[key]) if key in self.holders and key else None
        return found if found is not None and found.state in LIVE else None

    def _take(self, job: ModelJob) -> None:
        job.seq = next(self.arrivals)
        self.jobs[job.id] = job
        if job.key is not None:
            self.holders[job.key] = job.id

    # Workers

    def alive(self, worker: WorkerId | None) -> bool:
        return worker is not None and self.leases.get(worker, -1.0) > self.now

    # Moves

    def claim(self, worker: WorkerId, queue: str, limit: int) -> list[JobId]:
        chosen = self.line(worker, queue)[:limit]
        for job in chosen:
            self.begin(job, worker)
        return [job.id for job in chosen]

    def begin(self, job: ModelJob, worker: WorkerId) -> None:
        job.state, job.worker = S.RUNNING, worker
        timeout = job.policy.timeout
        job.timeout_at = None if timeout is None else self.now + timeout

    def line(self, worker: WorkerId, queue: str) -> list[ModelJob]:
        """The jobs of a queue in the order in which this worker gets them."""
        paused = not self.paused.isdisjoint({queue, EVERY_QUEUE})
        closed = paused or self.cooling.get(queue, -1.0) > self.now
        if closed or not self.alive(worker):
            return []
        line = [job for job in self.jobs.values() if job.state is S.READY and job.queue == queue]
        return sorted(line, key=lambda job: (job.priority, job.seq))

    def apply(self, move: Transition, *, only_if_lost: bool = False) -> bool:
        job = self.jobs.get(move.id)
        if job is None or (job.state, job.fence) != (move.source, move.fence):
            return False
        if only_if_lost and self.alive(job.worker):
            return False
        for one in move.steps:
            self.record(one)
        if any(job.kept(name) for name in move.awaits):
            move = move.without_wait()
        job.attempts += move.spend
        job.crashes += move.crash
        job.fence += move.bump
        if not job.cancel:
            job.ties |= move.gained
        if move.cool is not None:
            until = self.now + max(move.cool, 0.3)
            self.cooling[job.queue] = max(self.cooling.get(job.queue, until), until)
        self._settle(job, move)
        return True

    def record(self, record: StepRecord) -> bool:
        """Of one attempt the first record of a name stands, of several the newest attempt's."""
        job = self.jobs.get(record.id)
        if job is None or (job.state, job.fence) != (S.RUNNING, record.fence):
            return False
        known = job.steps.get(record.name)
        if known is None or known.fence < record.fence:
            job.steps[record.name] = record
            job.waits.pop(record.name, None)
            if record.seconds is not None:
                job.waits[record.name] = round(self.now + record.seconds, 6)
        if record.takes is not None:
            job.signals[record.takes - 1].taken_by = record.name
        job.ties |= Tie.STEPS if record.undo is None else Tie.STEPS | Tie.UNDO
        return True

    def send(self, signal: NewSignal) -> Sent:
        """Keep a signal, and wake the job that is suspended for it."""
        job = self.jobs.get(signal.id)
        if job is None or job.state in ENDED:
            return Sent.UNKNOWN if job is None else Sent.ENDED
        if signal.key in {one.key for one in job.signals}:
            return Sent.DUPLICATE
        if signal.before in job.steps:
            return Sent.LATE
        job.signals.append(ModelSignal(signal.name, signal.key))
        job.ties |= Tie.STEPS
        if signal.name not in job.awaited:
            return Sent.KEPT
        job.tell(What.RESUMED)
        self.line_up(job)
        return Sent.WOKE

    def runs(self, job_id: JobId, fence: int) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and (job.state, job.fence) == (S.RUNNING, fence)

    def write(self, frames: NewFrames) -> bool:
        """Another try of a section replaces the one before."""
        if not self.runs(frames.id, frames.fence):
            return False
        job = self.jobs[frames.id]
        if frames.replaces is not None:
            job.frames = [one for one in job.frames if one.section != frames.section]
        job.frames.append(frames)
        job.ties |= Tie.STEPS
        return True

    def _settle(self, job: ModelJob, move: Transition) -> None:
        what = What.CANCELLED if job.cancel and move.to not in ENDED else move.what
        if what is not What.SUCCEEDED:
            job.tell(what, error=move.error is not None)
        self.released += what is What.RELEASED
        assert move.run_at is None, "the machine makes no move to an absolute time"
        due = None if move.delay is None else self.now + move.delay
        if move.to in ENDED:
            self._end(job, move.to, move.keep_for)
        elif job.cancel:
            self._end(job, S.CANCELLED, job.policy.retention.other)
        elif job.state is S.BLOCKED and move.to is S.READY:
            self.line_up(job)
        else:
            self._wait(job, move.to, due)

    def end(self, job: ModelJob, state: JobState) -> None:
        """End a job that is kept for ever, or as long as its flow."""
        self._end(job, state, None)

    def _end(self, job: ModelJob, state: JobState, keep_for: float | None) -> None:
        self._wait(job, state, None)
        kept = math.inf if keep_for is None or job.is_node else self.now + keep_for
        job.kept_until = kept

    def _wait(self, job: ModelJob, state: JobState, due: float | None) -> None:
        job.state, job.due = state, due
        job.worker, job.timeout_at, job.cancel = None, None, False

    def promote(self) -> int:
        due = [
            job
            for job in self.jobs.values()
            if job.state in (S.SCHEDULED, S.SUSPENDED)
            and job.due is not None
            and job.due <= self.now
        ]
        for job in sorted(due, key=lambda job: (job.due or 0.0, job.id)):
            self.line_up(job)
        return len(due)

    def line_up(self, job: ModelJob) -> None:
        job.state, job.due, job.seq = S.READY, None, next(self.arrivals)

    # An operator's verbs; each says whether it did something

    def resume(self, id_: JobId) -> bool:
        job = self.jobs.get(id_)
        if job is None or job.state is not S.SUSPENDED:
            return False
        job.tell(What.RESUMED)
        self.line_up(job)
        job.waits = {name: min(until, self.now) for name, until in job.waits.items()}
        self.line_up(job)
        return True

    def request_cancel(self, id_: JobId) -> bool:
        job = self.jobs.get(id_)
        if job is None or job.state is not S.RUNNING:
            return False
        if not job.cancel:
            job.tell(What.CANCEL_ASKED)
        job.cancel = True
        return True

    def requeue(self, id_: JobId) -> bool:
        job = self.jobs.get(id_)
        if job is None or job.is_node or job.state not in ENDED or job.is_undone:
            return False
        if self._holder(job.key) is not None:
            return False
        job.tell(What.REQUEUED)
        job.begin_anew()
        job.deadline = None
        self.line_up(job)
        if job.key is not None:
            self.holders[job.key] = id_
        return True

    def reschedule(self, id_: JobId, delay: float) -> bool:
        job = self.jobs.get(id_)
        if job is None or job.state not in (S.READY, S.SCHEDULED):
            return False
        due = self.now + delay if delay > 0 else None
        if due != job.due:
            job.tell(What.RESCHEDULED)
        if due is not None:
            job.state, job.due = S.SCHEDULED, due
        elif job.state is S.SCHEDULED:
            self.line_up(job)
        return True

    def change(self, id_: JobId, *, queue: str | None = None, priority: int | None = None) -> bool:
        job = self.jobs.get(id_)
        if job is None or job.state not in WAITING:
            return False
        if queue not in (None, job.queue):
            job.tell(What.MOVED)
        if priority not in (None, job.priority):
            job.tell(What.REPRIORITISED)
        job.queue = job.queue if queue is None else queue
        job.priority = job.priority if priority is None else priority
        return True

    def edit(self, id_: JobId) -> bool:
        job = self.jobs.get(id_)
        if job is None or job.state not in WAITING or job.ties & BEGUN:
            return False
        if not job.edited:
            job.tell(What.EDITED)
        job.edited = True
        return True

    def remove(self, id_: JobId) -> bool:
        job = self.jobs.get(id_)
        if job is None or job.is_node or job.state not in ENDED:
            return False
        if job.is_undone and id_ not in self.undoing:
            return False
        del self.jobs[id_]
        return True

    def prune(self) -> list[JobId]:
        over = [
            job.id
            for job in self.jobs.values()
            if job.kept_until is not None and job.kept_until <= self.now
        ]
        return [id_ for id_ in over if self.remove(id_)]

    # What the sweeps should find

    def expired(self) -> list[JobId]:
        return sorted(
            job.id
            for job in self.jobs.values()
            if job.state is S.RUNNING and not self.alive(job.worker)
        )

    def overdue(self) -> list[JobId]:
        return sorted(
            job.id
            for job in self.jobs.values()
            if job.timeout_at is not None and self._may_end(job, job.timeout_at)
        )

    def past_deadline(self) -> list[JobId]:
        return sorted(
            job.id
            for job in self.jobs.values()
            if job.state in LIVE and job.deadline is not None and self._may_end(job, job.deadline)
        )

    def _may_end(self, job: ModelJob, limit: float) -> bool:
        """A running job waits until its worker has written all that it decided by then."""
        heard = self.written[job.worker] if job.worker in self.leases else self.now
        return limit < min(self.now, heard)
