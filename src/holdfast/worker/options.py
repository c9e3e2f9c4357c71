"""The options of a worker, checked once at the edge."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.passing import check_labels
from holdfast.job.serving import check_choice, is_pattern
from holdfast.worker.slots import Slots

if TYPE_CHECKING:
    from holdfast.encryption.keyring import Keyring

MOST_THREADS = 64
OF_STEPS = ("max_steps", "max_steps_size", "max_stream_size")
"""What a job may leave in the store while it runs."""
DEFAULT_SLOTS = 50
"""Slots of a queue that a worker serves without being told how many."""


def own_name() -> str:
    """Host and process id: enough for a person to find the process."""
    return f"{platform.node() or 'localhost'}-{os.getpid()}"


class WorkerOptions(msgspec.Struct, frozen=True):
    """How one worker works. Times are seconds.

    `queues` gives each queue its slots; `Worker.resize` may change them later. A pattern such as
    `mail*` gives its slots to all queues that it fits, together. Queues with `Slots` share `slots`
    slots. With `strict` a queue gets jobs
    only while the queues before it have none to give. `lease` is how long the store trusts the
    worker without a heartbeat, `grace` how long handlers may go on after a stop, and `poll` how
    often the worker asks the store what is new. `patience` is how long a worker waits for a handler
    that was told to stop, before it ends the attempt without it. The handler is then stuck and
    keeps its slot. When `stuck_share` of a queue's slots are lost that way, the worker leaves.
    `max_block` is how long a handler may block the event loop before the worker is given up;
    without a value it is one lease, but at least 5 seconds. `unreadable_for` is how long a job
    waits whose arguments no live worker can read, before it fails. `imports` are the modules that a
    child process imports before the module of its function. `signing_keys` sign the tokens of
    people whom handlers ask. `labels` say what the worker can do: it takes jobs whose tasks require
    no others. With `only` it has these labels too, and takes no job that does not require all of
    them. `max_jobs` and `max_memory` (bytes) are how much a worker does, or grows to, before it
    retires.
    """

    queues: Mapping[str, int | Slots]
    slots: int | None = None
    strict: bool = False
    lease: float = 30.0
    grace: float = 30.0
    poll: float = 1.0
    patience: float = 5.0
    stuck_share: float = 0.5
    max_block: float | None = None
    name: str = msgspec.field(default_factory=own_name)
    threads: int | None = None
    processes: int | None = None
    batch: int = 500
    max_unwritten: int = 5_000
    max_payload: int = 256 * 1024
    max_steps: int = 10_000
    max_steps_size: int = 16 * 1024 * 1024
    max_stream_size: int = 16 * 1024 * 1024
    unreadable_for: float = 900.0
    imports: tuple[str, ...] = ()
    labels: Iterable[str] = ()
    only: Iterable[str] = ()
    signing_keys: Keyring | None = None
    max_jobs: int | None = None
    max_memory: int | None = None

    @classmethod
    def of(cls, queues: Mapping[str, int | Slots], options: Mapping[str, Any]) -> WorkerOptions:
        """From options by name, as a caller gave them."""
        known = [name for name in cls.__struct_fields__ if name != "queues"]
        for name in options:
            if name not in known:
                raise BadOption("option of a worker", f"one of {', '.join(known)}", name)
        return cls(queues, **options)

    def __post_init__(self) -> None:
        _require_slots(self.queues)
        _require_pool(self.slots, self.queues)
        checks.flag("strict", self.strict)
        checks.seconds("lease", self.lease, least=0.3)
        checks.seconds("poll", self.poll, least=0.01)
        checks.seconds("grace", self.grace)
        checks.seconds("patience", self.patience)
        checks.seconds("unreadable_for", self.unreadable_for)
        checks.text("name", self.name, 512)
        checks.kind("imports", self.imports, tuple, "a tuple of names of modules")
        checks.texts("imports", self.imports, 512, "imports")
        only = check_labels("only", self.only)
        labels = check_labels("labels", self.labels) | only
        msgspec.structs.force_setattr(self, "only", tuple(sorted(only)))
        msgspec.structs.force_setattr(self, "labels", tuple(sorted(labels)))
        if self.max_block is not None and self.max_block != math.inf:
            checks.seconds("max_block", self.max_block, least=0.1)
        checks.share("stuck_share", self.stuck_share)
        for name in ("batch", "max_unwritten", "max_payload", *OF_STEPS):
            checks.count(name, getattr(self, name))
        for name in ("threads", "processes", "max_jobs", "max_memory"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))

    @property
    def total_slots(self) -> int:
        """The slots of all queues, those that queues share counted once."""
        alone = (one for one in self.queues.values() if not isinstance(one, Slots))
        return sum(alone) + (self.slots or 0)

    @property
    def longest_block(self) -> float:
        return max(self.lease, 5.0) if self.max_block is None else self.max_block

    @property
    def leaves_within(self) -> float:
        """Seconds from the first signal to the end of everything, whatever the store does."""
        return self.grace + self.patience + 5.0

    def threads_for(self, slots: int) -> int:
        """How many threads a worker with so many slots in all may start."""
        return self.threads or max(1, min(slots, MOST_THREADS))

    def processes_for(self, slots: int) -> int:
        """How many child processes a worker with so many slots in all may start."""
        return self.processes or max(1, min(slots, os.cpu_count() or 1))


def _require_slots(queues: object) -> None:
    if not isinstance(queues, Mapping) or not queues:
        raise BadOption("queues", "queues with their slots, such as {'mail': 10}", queues)
    for queue, slots in queues.items():
        check_choice(queue)
        if not isinstance(slots, Slots):
            checks.count(f"queue {queue!r}: slots", slots)
        elif is_pattern(queue):
            expected = "a number: the queues that a pattern fits share its slots already"
            raise BadOption(f"queue {queue!r}: slots", expected, slots)


def _require_pool(slots: int | None, queues: Mapping[str, int | Slots]) -> None:
    """Every queue of the pool must be able to have a slot."""
    sharing = {queue: one for queue, one in queues.items() if isinstance(one, Slots)}
    if slots is None:
        for queue in sharing:
            expected = "slots=… (--slots N), the number that the queues with Slots share"
            raise BadOption(f"queue {queue!r}: Slots(…)", expected, "no slots")
        return
    checks.count("slots", slots)
    if not sharing:
        expected = (
            "left out, because no queue shares them: give queues their own (--queues mail:5), "
            "or let them share (queues={'mail': Slots()}, --queues mail:0+1)"
        )
        raise BadOption("slots", expected, slots)
    least = sum(one.least for one in sharing.values())
    wanted = least + any(one.least == 0 for one in sharing.values())
    if slots < wanted:
        raise BadOption("slots", f"at least {wanted}: queues may always have {least}", slots)
