"""Slots that several queues of a worker share.

A queue with a number has that many slots for itself. Queues with `Slots` share the pool `slots=` of
their worker: each may always have its `least`, and what is left goes to the queues that have work,
by their weights. The queues that a pattern such as `mail*` fits share the slots of the pattern in
the same way, with nothing guaranteed and equal weights.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from holdfast.job import checks


class Slots(msgspec.Struct, frozen=True):
    """A queue's part of the slots that queues of a worker share (`app.worker(slots=60)`): always
    `least`, and of the rest as much as its `weight` says, while other queues have work too."""

    least: int = 0
    weight: int = 1

    def __post_init__(self) -> None:
        checks.count("Slots(least)", self.least, least=0)
        checks.count("Slots(weight)", self.weight)

    def __str__(self) -> str:
        return f"{self.least}+{self.weight}"


class SlotPool:
    """Slots that queues share. `held` says how many permits each queue has taken."""

    def __init__(self, size: int, members: Mapping[str, Slots] | None = None) -> None:
        self.size = size
        self.members = dict(members or {})

    def most(self, queue: str) -> int:
        """The most that a queue may have: all but what others may always have."""
        kept = sum(one.least for name, one in self.members.items() if name != queue)
        return self.size - kept

    def room(self, queue: str, held: Mapping[str, int]) -> int:
        """How many more this queue could take now, if no other asked."""
        return max(0, self._free(held) - self._owed((queue,), held))

    def divide(self, asking: Iterable[str], held: Mapping[str, int]) -> dict[str, int]:
        """How many more each of these queues may take, so that all of them can be asked for by one
        claim. What the others may always have stays free for them."""
        asking = list(asking)
        left = max(0, self._free(held) - self._owed(asking, held))
        given: dict[str, int] = {}
        for queue in asking:
            given[queue] = min(left, max(0, self.members[queue].least - held[queue]))
            left -= given[queue]
        after = {queue: held[queue] + given[queue] for queue in asking}
        turns = [(self._fill(queue, after[queue]), n) for n, queue in enumerate(asking)]
        heapq.heapify(turns)
        for _ in range(left if turns else 0):
            _, n = turns[0]
            queue = asking[n]
            given[queue] += 1
            after[queue] += 1
            heapq.heapreplace(turns, (self._fill(queue, after[queue]), n))
        return given

    def free_parts(self, held: Counter[str]) -> dict[str, int]:
        """What is free, in parts that add up. Any thread may ask."""
        pool = SlotPool(self.size, self.members.copy())
        return pool.divide(pool.members, held)

    def _free(self, held: Mapping[str, int]) -> int:
        return self.size - sum(held[queue] for queue in self.members)

    def _owed(self, asking: Iterable[str], held: Mapping[str, int]) -> int:
        """What the other queues may still take of their `least`."""
        others = self.members.keys() - set(asking)
        return sum(max(0, self.members[queue].least - held[queue]) for queue in others)

    def _fill(self, queue: str, held: int) -> float:
        """How much of its part a queue has; the one with the least is next."""
        member = self.members[queue]
        return (held - member.least) / member.weight
