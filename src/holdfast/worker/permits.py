"""How many jobs of each queue this worker may hold. A permit is taken before a job is claimed.

Permits bound how many handlers run; that bound is the lanes' to keep. Were they
the bound of claims too, short handlers would spend most of their slots' time
waiting for the next claim. So a worker may hold what its slots got through in
the last few milliseconds, and at least as many jobs as it has slots: by
Little's law that is more than the slots only while handlers take less than
`REACH` on average, and a job claimed ahead waits about that long. Not while
claims bring jobs that must not be claimed ahead (`admission`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

REACH = 0.02
"""Seconds of work that a worker may hold."""


class Permits:
    """Permits to hold jobs, counted per queue; `clock` gives seconds."""

    def __init__(self, sizes: Mapping[str, int], clock: Callable[[], float]) -> None:
        self.sizes = dict(sizes)
        self._held = dict.fromkeys(sizes, 0)
        self._most = dict(sizes)
        self._clock = clock
        self._ended = dict.fromkeys(sizes, 0)
        self._since = clock()
        self.cautious = False

    def take(self, queue: str, count: int) -> None:
        self._held[queue] += count

    def give(self, queue: str, count: int = 1) -> None:
        """Permits come back unused."""
        self._held[queue] -= count

    def ended(self, queue: str) -> None:
        """A job has ended, and its permit comes back."""
        self._held[queue] -= 1
        self._ended[queue] += 1

    def room(self, queue: str) -> int:
        """How many to ask for. No more than half of what may be held, unless that is fewer
        than the slots: one half is claimed while the other runs."""
        most = self._most_of(queue)
        return min(most - self._held[queue], max(self.sizes[queue], most // 2))

    def free(self, queue: str) -> int:
        """How many more jobs would find a slot free."""
        return max(0, self.sizes[queue] - self._held[queue])

    def worthwhile(self, queue: str) -> bool:
        """Whether so much room is left that a claim is worth its round trip."""
        most = self._most_of(queue)
        return (most - self._held[queue]) * 4 >= most

    def _most_of(self, queue: str) -> int:
        return self.sizes[queue] if self.cautious else self._most[queue]

    def reckon(self) -> None:
        """Look how fast jobs end, and let each queue reach accordingly far."""
        elapsed = self._clock() - self._since
        if elapsed < REACH:
            return
        for queue, size in self.sizes.items():
            self._most[queue] = max(size, int(self._ended[queue] * REACH / elapsed))
        self._ended = dict.fromkeys(self.sizes, 0)
        self._since += elapsed
