"""Workers, their leases, and who leads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.serving import choice_of
from holdfast.store.contract.facts import NO_FACTS, WorkerFacts


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

    def can_do(self, labels: Iterable[str]) -> bool:
        """Whether it takes jobs that require these labels: it has all of them, and they are enough
        for a worker that takes `only` some jobs."""
        return set(self.facts.only) <= set(labels) <= set(self.facts.labels)

    def slots_for(self, queue: str) -> int:
        """The slots of the queue; those of a pattern are shared by all queues that it fits."""
        choice = choice_of(queue, self.queues)
        return 0 if choice is None else self.queues[choice]

    @property
    def all_slots(self) -> int:
        """Its slots that are not lost to stuck handlers, as it said last: those that queues share
        are counted once."""
        if self.facts.slots is None:
            return sum(self.queues.values())
        return sum(one.used + one.free for one in self.facts.slots.values())

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


class QueueTotal(msgspec.Struct, frozen=True):
    """A queue of which only so many jobs may run in all workers together (`max_running`). `slots`:
    the workers that may claim from it, by id, with the slots that each has for it."""

    queue: str
    total: int
    slots: dict[WorkerId, int] = {}

    @classmethod
    def gathered(
        cls, totals: Iterable[tuple[str, int]], workers: Iterable[tuple[WorkerId, str]]
    ) -> list[QueueTotal]:
        """From the queues with their totals, and the workers with what they serve, as a store
        keeps it."""
        serving = [(worker, counts_in(text)) for worker, text in sorted(workers)]
        return [
            cls(queue, total, {w: n[c] for w, n in serving if (c := choice_of(queue, n))})
            for queue, total in sorted(totals)
        ]


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
    `lapsed`: a worker on the list is not live; there may be jobs to take back from it. `errands`:
    flows owe something.
    """

    ready: bool
    due_in: float | None
    cancels: int
    schedules: int
    replicas: int
    operations: bool = False
    lapsed: bool = False
    errands: bool = False


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
        facts: WorkerFacts = NO_FACTS,
    ) -> Beat:
        """Extend the worker's lease, also one that has lapsed, and say which of its attempts
        need attention, and whether it is to drain. `facts` are what `WorkerInfo.facts` shows from
        now on.

        `caught_up` says that all ends which the worker had decided when it heard the answer to
        the beat before this one are written by now. The store then notes the time of that beat:
        what it knows of running jobs up to there is all that their worker will say."""
        ...

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        """Say in one look what a worker of these queues and tasks may not have been woken
        for. It is asked for all day long, so it costs no more than a claim of nothing."""
        ...

    async def fleet(self, queues: Collection[str]) -> list[QueueTotal]:
        """Those of these queues that have a total, with the workers that share it. `register`,
        `deregister`, `request_drain` and a changed total (`Queues.tune`) tell workers to ask
        again (`Topic.FLEET`, with the name of the queue if it is about one)."""
        ...

    async def request_drain(self, ids: Sequence[WorkerId]) -> list[WorkerId]:
        """Tell these workers to leave, and wake each of them (`Topic.CANCEL`): every answer to a
        beat says so from now on. Answers those that are registered, also lapsed ones. Of several
        requests the time of the first is kept."""
        ...

    async def deregister(self, worker: WorkerId, facts: WorkerFacts | None = None) -> None:
        """Remove a worker that is leaving; what it still holds becomes reclaimable. Its counts are
        kept: those of these last facts, or else those of its last beat."""
        ...

    async def counts(self) -> dict[str, int]:
        """What all workers have counted together, by name, also those that have left or were swept.
        A number never goes down."""
        ...

    async def find(self) -> list[WorkerInfo]:
        """All workers, live or lapsed but not yet swept, oldest first."""
        ...

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        """Remove workers whose lease lapsed longer ago than this and that hold no job; their counts
        are kept. Shortens every lease that ends later than its length from now: the clock was set
        back."""
        ...

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        """Take or extend the leadership of a role; False if another holds it."""
        ...

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        """Give a role up, if it is held; wakes the others (`Topic.LEAD`, the role)."""
        ...
