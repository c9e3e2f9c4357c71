"""What the verbs of a store take and answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Job, Progress
from holdfast.job.serving import choice_of, is_pattern
from holdfast.job.state import ENDED, JobState
from holdfast.job.what import What
from holdfast.store.contract.facts import NO_FACTS, WorkerFacts


class Capability(StrEnum):
    """What a kind of store may lack; a caller asks before it relies on one."""

    JOIN_TRANSACTION = "join the caller's transaction"
    MANY_PROCESSES = "be shared by several processes"


ALL = 2**31 - 1


class Want(msgspec.Struct, frozen=True):
    """Room for `limit` more jobs of one queue. The first `free` of them begin at once; the others
    are claimed ahead, and the store marks them so."""

    queue: str
    limit: int
    free: int = ALL


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Whether one Transition was applied; if not, where the job really is.

    `state` is None when the store holds no such job. A worker that retries a
    finish whose reply was lost recognises its own success: the job is in the
    state it asked for, with the fence it held.
    """

    id: JobId
    accepted: bool
    state: JobState | None = None
    fence: int | None = None


class Promoted(msgspec.Struct, frozen=True):
    """How many due jobs became ready, in which queues, and when the next is due."""

    count: int
    queues: tuple[str, ...]
    next_due_in: float | None


class ProgressReport(msgspec.Struct, frozen=True):
    """Progress of one running attempt; refused when its fence is old.

    A field that is None leaves what was there before.
    """

    id: JobId
    fence: int
    progress: Progress


class Outcome(msgspec.Struct, frozen=True):
    """How a job stands, for those who wait for its result. `fingerprint` is that of the error
    which ended it."""

    id: JobId
    state: JobState
    result: str | None = None
    reason: str | None = None
    fingerprint: str | None = None


Scalar = str | int | float | bool | None
"""A JSON value that is no list and no object."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are meant. Every field narrows; an empty field means any.

    A name in `queues` or `tasks` that ends in `*` means every name that begins so. A job must have
    all of `tags`. `args` has values by their paths, such as `order.id`. `worker` holds the job, or
    held it when it ended. `fingerprint` is that of the error with which the job failed for good.
    `…_after` includes the moment, `…_before` does not.
    """

    ids: tuple[JobId, ...] = ()
    states: frozenset[JobState] = frozenset()
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    args: dict[str, Scalar] = {}
    worker: WorkerId | None = None
    fingerprint: str | None = None
    schedule: str | None = None
    priority: int | None = None
    priority_over: int | None = None
    priority_under: int | None = None
    attempts_over: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    error_text: str | None = None

    @property
    def is_tallied(self) -> bool:
        """Whether the tallies can answer it: it names only states, queues and tasks."""
        others = (name for name in self.__struct_fields__ if name not in TALLIED)
        return all(is_any(getattr(self, name)) for name in others)

    @property
    def names_tallied(self) -> bool:
        """Whether the tallies can say that it means no job, or what its patterns stand for."""
        return bool(self.states or self.queues or self.tasks)

    @property
    def states_possible(self) -> frozenset[JobState]:
        """The states that a job can be in which it means."""
        states = self.states or frozenset(JobState)
        if self.finished_after is not None or self.finished_before is not None:
            states &= ENDED
        if self.worker is not None:
            states &= ENDED | {JobState.RUNNING}
        if self.fingerprint is not None:
            states &= {JobState.FAILED}
        return states

    @property
    def queues_by_name(self) -> tuple[str, ...]:
        """The queues it names, or none if a pattern is among them."""
        return () if any(map(is_pattern, self.queues)) else self.queues

    def counted(self, tallies: Iterable[Tally]) -> dict[JobState, int]:
        """How many jobs of the tallies are in the states, queues and tasks that it names."""
        found: dict[JobState, int] = {}
        for tally in tallies:
            if (
                (not self.states or tally.state in self.states)
                and (not self.queues or choice_of(tally.queue, self.queues))
                and (not self.tasks or choice_of(tally.task, self.tasks))
            ):
                found[tally.state] = found.get(tally.state, 0) + tally.jobs
        return found

    def spelled_out(self, tallies: Iterable[Tally]) -> JobFilter:
        """The same with names instead of patterns: those that the tallies have jobs of."""
        if not any(map(is_pattern, (*self.queues, *self.tasks))):
            return self
        there = list(tallies)
        return msgspec.structs.replace(
            self,
            queues=_fitting({tally.queue for tally in there}, self.queues),
            tasks=_fitting({tally.task for tally in there}, self.tasks),
        )


TALLIED = frozenset({"states", "queues", "tasks"})
"""The fields of a JobFilter that the tallies know of."""


def is_any(value: object) -> bool:
    """Whether a field of a JobFilter that has this value narrows nothing."""
    return value is None or value in ("", (), [], {}, frozenset())


def _fitting(names: Iterable[str], choices: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if choice_of(name, choices))) if choices else ()


class Tally(msgspec.Struct, frozen=True, order=True):
    """How many jobs of one task are in one state of one queue."""

    queue: str
    task: str
    state: JobState
    jobs: int


class Total(msgspec.Struct, frozen=True, order=True):
    """How many jobs of one task and queue were ever moved by the same thing."""

    queue: str
    task: str
    what: What
    jobs: int


class Traffic(msgspec.Struct, frozen=True, order=True):
    """How many jobs of one task and queue were moved by the same thing within one minute."""

    at: datetime
    queue: str
    task: str
    what: What
    jobs: int


class Page(msgspec.Struct, frozen=True):
    """Some jobs, newest first, and where the next page starts.

    `next_cursor` is None if there are no more jobs. A page looks at a bounded number of jobs
    (`looked_at`). `complete` is False if it stopped there with fewer jobs than were asked for: it
    may hold no job at all, and the jobs that are missing come after its cursor. `reached` is then
    when the oldest job that it looked at was created. `unsearched`: at least so many of the jobs
    are encrypted with keys that this program does not have, so nobody knows whether the filter
    means them.
    """

    jobs: tuple[Job, ...]
    next_cursor: str | None
    looked_at: int = 0
    reached: datetime | None = None
    complete: bool = True
    unsearched: int = 0


RETAINED_BY: Mapping[JobState, str] = {
    JobState.SUCCEEDED: "retain_succeeded",
    JobState.FAILED: "retain_failed",
    JobState.CANCELLED: "retain_other",
    JobState.EXPIRED: "retain_other",
    JobState.SKIPPED: "retain_other",
}
"""The setting of a queue that says how long a job is kept, by how the job ended."""


class QueueSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator may tune on a live queue. None leaves it to the job's own policy."""

    throttle_base: float = 1.0
    throttle_cap: float = 300.0
    retain_succeeded: float | None = None
    retain_failed: float | None = None
    retain_other: float | None = None

    def keep_for(self, state: JobState) -> float | None:
        """Seconds that a job is kept which ended like this."""
        kept: float | None = getattr(self, RETAINED_BY[state])
        return kept

    def to_json(self) -> str:
        """What differs from the defaults: a store keeps it as one text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> QueueSettings:
        """A setting that this version does not know is left alone."""
        return msgspec.json.decode(text, type=cls)


EVERY_QUEUE = "*"
"""Stands for all queues, also for those to come. No queue and no task can have such a name."""


def jobs_of(task: str) -> str:
    """Stands for the jobs of one task, in whichever queue they are, where queues are named."""
    return EVERY_QUEUE + task


class Paused(msgspec.Struct, frozen=True):
    """What is paused beyond single queues: all of them, and tasks by name."""

    everything: bool = False
    tasks: tuple[str, ...] = ()

    @classmethod
    def named(cls, names: Iterable[str]) -> Paused:
        """From the names that stand for all queues, or for the jobs of a task."""
        found = set(names)
        tasks = sorted(name.removeprefix(EVERY_QUEUE) for name in found - {EVERY_QUEUE})
        return cls(EVERY_QUEUE in found, tuple(tasks))


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue as it stands. `oldest_ready_age` (seconds) is its lag. `counts` are its jobs
    by state, also those that have ended: they come from the tallies."""

    name: str
    paused: bool
    cooling_for: float | None
    throttles: int
    settings: QueueSettings
    counts: dict[JobState, int]
    oldest_ready_age: float | None


class WorkerStanding(StrEnum):
    """Whether a registered worker is trusted."""

    ALIVE = "alive"
    DRAINING = "draining"  # alive, and told to leave
    LAPSED = "lapsed"  # not heard of for a lease, and not yet swept


class WorkerInfo(msgspec.Struct, frozen=True):
    """One worker process: who it is, what it serves, and until when it is trusted.

    `facts` are what it said of itself with its last beat. `drain_requested_at`: since when it is to
    leave; it stays on the list until it has. `lease` is how many seconds a beat extends its lease
    by. `alive_since` is the start of its unbroken service: its registration, or the first beat
    after a break. A break is a lapsed lease, more than half a lease between two beats, or a clock
    that went back. `read_at` is the store's clock when this was read.
    """

    id: WorkerId
    name: str
    host: str
    pid: int
    queues: dict[str, int]
    tasks: tuple[str, ...]
    version: str
    started_at: datetime | None = None
    heartbeat_at: datetime | None = None
    expires_in: float | None = None
    running: int = 0
    facts: WorkerFacts = NO_FACTS
    drain_requested_at: datetime | None = None
    lease: float = 0.0
    alive_since: datetime | None = None
    read_at: datetime | None = None

    @property
    def alive(self) -> bool:
        return self.expires_in is not None and self.expires_in > 0

    @property
    def available(self) -> bool:
        """Whether it may claim jobs: it is alive, and nobody told it to drain."""
        return self.alive and self.drain_requested_at is None

    @property
    def standing(self) -> WorkerStanding:
        if not self.alive:
            return WorkerStanding.LAPSED
        return WorkerStanding.ALIVE if self.available else WorkerStanding.DRAINING

    @property
    def heartbeat_age(self) -> float | None:
        """Seconds between its last beat and the reading, both by the store's clock."""
        if self.read_at is None or self.heartbeat_at is None:
            return None
        return (self.read_at - self.heartbeat_at).total_seconds()

    def serves(self, queue: str) -> bool:
        return choice_of(queue, self.queues) is not None

    def slots_for(self, queue: str) -> int:
        """The slots of the queue; those of a pattern are shared by all queues that it fits."""
        choice = choice_of(queue, self.queues)
        return 0 if choice is None else self.queues[choice]

    def stuck_for(self, queue: str) -> int:
        """The slots of the queue, or of its pattern, that are lost to stuck handlers."""
        return self.facts.stuck.get(choice_of(queue, self.queues) or queue, 0)

    def usable_slots(self, queue: str) -> int:
        return self.slots_for(queue) - self.stuck_for(queue)


_counts = msgspec.json.Decoder(dict[str, int])


def to_counts(counts: Mapping[str, int]) -> str:
    """Numbers by queue, as every store keeps them: JSON."""
    return msgspec.json.encode(counts).decode()


def counts_in(text: str) -> dict[str, int]:
    return _counts.decode(text)


class Held(msgspec.Struct, frozen=True):
    """One attempt that a worker believes to be its own."""

    id: JobId
    fence: int


class Resize(msgspec.Struct, frozen=True, tag=True):
    """Serve this queue with so many slots from now on, or with 0 no longer. What runs goes on."""

    queue: str
    slots: int


class Drain(msgspec.Struct, frozen=True, tag=True):
    """Claim no more, let what runs finish up to the grace, hand back the rest and leave."""


Order = Resize | Drain
"""What a worker may be told to do."""


class Beat(msgspec.Struct, frozen=True):
    """The store's answer to a heartbeat.

    `known` False: the worker's row is gone; all it held was given up, and it must
    register again under a new id. `lost` are held attempts that are no longer its own.
    `orders` are obeyed in this order. `Drain` comes with every beat from the request on. No store
    sends `Resize` yet.
    """

    known: bool
    cancel: tuple[JobId, ...] = ()
    lost: tuple[JobId, ...] = ()
    orders: tuple[Order, ...] = ()


LATELY = 60.0
"""Seconds after which a poll no longer tells that something is overdue: sweeps find it. Before
that moment stand, under an old snapshot, dead rows that a poll would have to walk over."""
MOST_COUNTED = 400
"""Workers that a poll counts: more of them change nothing that anybody decides by."""


class News(msgspec.Struct, frozen=True):
    """What a worker polls for, in one answer.

    `ready`: jobs wait in its queues that may be for it; a claim decides. `due_in`: seconds
    until the next due time, timer or deadline; negative for one that passed `LATELY`.
    `cancels` and `schedules` are numbers that grow when a cancel or a drain is asked of this
    worker, and when schedules are changed. `replicas` are the live workers, up to `MOST_COUNTED`.
    `operations`: some operation is to run; whether somebody works on it is another question.
    """

    ready: bool
    due_in: float | None
    cancels: int
    schedules: int
    replicas: int
    operations: bool = False


class Topic(StrEnum):
    """What a wakeup is about."""

    READY = "ready"  # jobs became ready in queue `name`
    PAUSED = "paused"  # queue `name` was paused: what was claimed and has not begun should go back
    DUE = "due"  # something was scheduled; the next due time may be sooner
    CANCEL = "cancel"  # worker `name` is to beat now: it has jobs to cancel, or is to drain
    SCHEDULES = "schedules"  # schedules were changed
    LEAD = "lead"  # the leader of role `name` has left
    ERRANDS = "errands"  # a flow owes something
    OPERATIONS = "operations"  # an operation is to run; only polls tell it


EVERY_TOPIC = frozenset(Topic)
FEW_JOBS = 8
"""Up to so many new jobs concern a part of a large fleet only; who dozes does not hear of them."""


class Wakeup(msgspec.Struct, frozen=True):
    """`jobs`: how many became ready; 0 where that is not known or they are many."""

    topic: Topic
    name: str = ""
    jobs: int = 0


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """One thing `doctor` looked at: what it saw, and what to do about it."""

    check: str
    severity: Severity
    saw: str
    advice: str = ""
