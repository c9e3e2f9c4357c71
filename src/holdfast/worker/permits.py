"""How many jobs a worker may claim: permits per queue, places in threads and child processes.

A lane limits how many handlers of its queue run at once. If claims were limited to the same
number, short handlers would leave their slots idle during every round trip of a claim. So a
worker may hold more jobs than it has slots: as many as ended in the last `READ_AHEAD_SECONDS`.
By Little's law that is more than its slots only while handlers take less than that on average,
and a job claimed ahead waits about that long.

There is one exception. While claims bring jobs that may not be claimed ahead (`admission` says
which, and why), a worker claims no more jobs than begin at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import chain

from holdfast.handlers.registry import Mode, Registry
from holdfast.job.serving import choice_of, is_pattern
from holdfast.worker.attempt import Attempt
from holdfast.worker.slots import SlotPool, Slots

READ_AHEAD_SECONDS = 0.02
"""Seconds of work that a worker may hold."""
FORGET_SECONDS = 60.0
"""How long a queue that a pattern fits is remembered after its last job. There may be a queue for
each customer, and new ones every day."""


def _nobody(queue: str) -> None:
    """Until somebody waits for room."""


class Permits:
    """Permits to hold jobs, counted per queue. A permit is taken before its job is claimed and
    given back when the handler ends. `clock` gives seconds.

    `slots` says which queues this worker serves, and with how many slots each. Queues that share
    slots (`SlotPool`) may each have most of them, but all together have no more. So nothing of such
    a queue is claimed ahead, nor of one with a share: what a worker holds of a queue with a
    total, others cannot have. `on_room` is called with a queue's name when one of its attempts is
    over.
    """

    def __init__(
        self,
        choices: Mapping[str, int | Slots],
        clock: Callable[[], float],
        shared: int | None = None,
    ) -> None:
        members = {queue: one for queue, one in choices.items() if isinstance(one, Slots)}
        numbers = {queue: one for queue, one in choices.items() if not isinstance(one, Slots)}
        self.pool = SlotPool(shared or 0, members)
        self.patterns = {one: slots for one, slots in numbers.items() if is_pattern(one)}
        self.slots = {
            queue: self.pool.most(queue) if queue in members else numbers[queue]
            for queue in choices
            if not is_pattern(queue)
        }
        self.on_room: Callable[[str], None] = _nobody
        self.reads_ahead = True
        self._sharing = {one: SlotPool(slots) for one, slots in self.patterns.items()}
        self._pool_of = dict.fromkeys(members, self.pool)
        self._pattern_of: dict[str, str] = {}
        self._used_at: dict[str, float] = {}
        self._refused: set[str] = set()
        self._share: Mapping[str, int] = {}
        self._held = dict.fromkeys(self.slots, 0)
        self._most = dict(self.slots)
        self._clock = clock
        self._ended = dict.fromkeys(self.slots, 0)
        self._since = clock()

    def resize(self, queue: str, slots: int) -> None:
        """Serve this queue with so many slots of its own from now on, or with 0 no longer. Permits
        that are taken stay taken, also if they are more than the new slots."""
        self._leave_pool(queue)
        if slots == 0:
            self.slots.pop(queue, None)
            self._refused.add(queue)
            return
        self._refused.discard(queue)
        self.slots[queue] = self._most[queue] = slots
        self._held.setdefault(queue, 0)
        self._ended.setdefault(queue, 0)

    def adopt(self, queue: str) -> bool:
        """Serve this queue from now on, if a pattern fits it; whether it is new here."""
        pattern = choice_of(queue, self.patterns)
        if not queue or pattern is None or queue in self.slots or queue in self._refused:
            return False
        self.resize(queue, self.patterns[pattern])
        self._pattern_of[queue] = pattern
        self._pool_of[queue] = self._sharing[pattern]
        self._sharing[pattern].members[queue] = Slots()
        self._used_at[queue] = self._clock()
        return True

    def unused(self, waiting: Iterable[str]) -> list[str]:
        """The queues of patterns that had no job for `FORGET_SECONDS`, neither here nor among those
        that have jobs `waiting`."""
        now = self._clock()
        for queue in self._pattern_of.keys() & set(waiting):
            self._used_at[queue] = now
        for queue, held in self._held.items():
            if held and queue in self._used_at:
                self._used_at[queue] = now
        return [queue for queue, at in self._used_at.items() if now - at >= FORGET_SECONDS]

    def forget(self, queue: str) -> None:
        """Serve an unused queue no longer, until a job of it is heard of again."""
        self._leave_pool(queue)
        for counts in (self.slots, self._held, self._most, self._ended):
            counts.pop(queue, None)

    def _leave_pool(self, queue: str) -> None:
        self._used_at.pop(queue, None)
        self._pattern_of.pop(queue, None)
        if (pool := self._pool_of.pop(queue, None)) is not None:
            del pool.members[queue]

    @property
    def choices(self) -> dict[str, int]:
        """What this worker serves, as its options say it: queues by name, and patterns. Of a queue
        in the pool, the most that it may have."""
        served = self.slots.copy().items()  # any thread may ask, and the loop may change it
        named = {name: slots for name, slots in served if name not in self._pattern_of}
        return named | self.patterns

    @property
    def total(self) -> int:
        """The slots of this worker, those that queues share counted once."""
        shared = self.pool.members.copy()
        alone = (slots for choice, slots in self.choices.items() if choice not in shared)
        return sum(alone) + (self.pool.size if shared else 0)

    @property
    def shares_slots(self) -> bool:
        """Whether any queues share slots: then room in one is room for others."""
        return bool(self._pool_of)

    def mates(self, queue: str) -> Set[str]:
        """The queues that wait for the same slots."""
        pool = self._pool_of.get(queue)
        return {queue} if pool is None else pool.members.keys()

    def divided(self, queues: Iterable[str]) -> dict[str, int]:
        """How much of the room that queues share each of these may have, so that all of them can be
        asked for by one claim. Queues that share with nobody are left out."""
        if not self._pool_of:
            return {}
        asking: dict[SlotPool, list[str]] = {}
        for queue in queues:
            if (pool := self._pool_of.get(queue)) is not None and self._size(queue):
                asking.setdefault(pool, []).append(queue)
        found: dict[str, int] = {}
        for pool, some in asking.items():
            found |= pool.divide(some, self._held)
        return found

    def share(self, shares: Mapping[str, int]) -> None:
        """Hold no more of these queues than these shares of their totals; of queues that are not
        named, as much as the slots allow. What is held stays held."""
        self._share = shares

    def wants_more(self, queue: str) -> bool:
        """Whether its share alone keeps this worker from claiming more of a queue."""
        return queue in self.slots and self._size(queue) <= self._held[queue] < self.slots[queue]

    def share_of(self, queue: str) -> int | None:
        return self._share.get(queue)

    def share_left(self, queue: str) -> int | None:
        """How much of its share is not held; None for a queue that has none."""
        share = self._share.get(queue)
        return None if share is None else share - self._held[queue]

    def _size(self, queue: str) -> int:
        """How many handlers of the queue may run here."""
        return min(self.slots[queue], self._share.get(queue, self.slots[queue]))

    @property
    def ever_served(self) -> Iterable[str]:
        """Also queues that are served no longer: jobs of theirs may still run here."""
        return self._held.keys()

    def take(self, queue: str, count: int) -> None:
        self._held[queue] += count

    def give(self, queue: str, count: int = 1) -> None:
        """Take permits back for which no job came. Nobody is told: the fetcher itself gives."""
        self._held[queue] -= count

    def ended(self, queue: str, ran: bool = True) -> None:
        """Take back the permit of an attempt that is over. Only attempts whose handlers `ran`
        say how fast this queue's handlers are."""
        self._held[queue] -= 1
        self._ended[queue] += ran
        self.on_room(queue)

    def room(self, queue: str) -> int:
        """How many jobs to ask for. That is at most half of what may be held, so that one half
        is claimed while the other runs, but never less than the slots because of that."""
        most = self._most_of(queue)
        return min(most - self._held[queue], max(self.slots[queue], most // 2))

    def free(self, queue: str) -> int:
        """How many more jobs would find a slot free."""
        return max(0, self._size(queue) - self._held[queue])

    def worth_a_claim(self, queue: str) -> bool:
        """Whether a quarter of the room is free: a claim for less is not worth its round trip."""
        most = self._most_of(queue)
        pool = self._pool_of.get(queue)
        room = most - self._held[queue] if pool is None else pool.room(queue, self._held)
        return room * 4 >= most

    def _most_of(self, queue: str) -> int:
        ahead = self.reads_ahead and queue not in self._pool_of and queue not in self._share
        return self._most[queue] if ahead else self._size(queue)

    def adapt(self) -> None:
        """Measure how fast jobs end, and let each queue read ahead accordingly."""
        elapsed = self._clock() - self._since
        if elapsed < READ_AHEAD_SECONDS:
            return
        for queue, slots in self.slots.items():
            self._most[queue] = max(slots, int(self._ended[queue] * READ_AHEAD_SECONDS / elapsed))
        self._ended = dict.fromkeys(self._ended, 0)
        self._since += elapsed


class Places:
    """Threads and child processes, as far as the registered tasks need them. An attempt has its
    place from the claim on, also while it waits for a slot. A stuck handler keeps its place.
    `held` are live views of the attempts that have one. Tasks that are `left_to_others` are not
    claimed meanwhile."""

    def __init__(
        self, registry: Registry, capacity: Mapping[Mode, int], *held: Iterable[Attempt]
    ) -> None:
        self._mode_of = {task: registry[task].mode for task in registry}
        self._used = capacity.keys() & set(self._mode_of.values())
        self._capacity = capacity
        self._held = held
        self._tasks = tuple(registry)
        self.left_to_others: set[str] = set()
        self._pools = {task: pool for task in registry if (pool := registry[task].pool) is not None}

    def free(self) -> dict[Mode, int]:
        """How many more handlers could begin at once, of each mode that has a limit."""
        if not self._used:
            return {}
        left = {mode: self._capacity[mode] for mode in self._used}
        for attempt in chain(*self._held):
            mode = attempt.handler.mode
            if mode in left:
                left[mode] -= 1
        return left

    def leaves_out(self, tasks: Sequence[str]) -> bool:
        """Whether a claim for these tasks leaves other tasks of this worker out."""
        return len(tasks) < len(self._tasks)

    def tasks_that_could_begin(self, free: Mapping[Mode, int]) -> Sequence[str]:
        resting = {*self.resting, *self.left_to_others} if self._may_rest else ()
        if not resting and (not free or all(number > 0 for number in free.values())):
            return self._tasks
        could = (task for task, mode in self._mode_of.items() if free.get(mode, 1) > 0)
        return [task for task in could if task not in resting]

    @property
    def _may_rest(self) -> bool:
        return bool(self._pools or self.left_to_others)

    @property
    def resting(self) -> list[str]:
        """Tasks whose pools rest."""
        return [task for task, pool in self._pools.items() if pool.rests]
