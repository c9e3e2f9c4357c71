"""In which order the queues of a worker are asked for jobs.

Usually queues take turns: those that a full batch left out come first in the next claim. With
`strict` they keep the order that was given, and a queue is asked only while no job waits in those
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set

from holdfast.job.serving import choice_of


class QueueOrder:
    """`choices` are queues and patterns in the order that was given, `queues` those served now."""

    def __init__(self, choices: Iterable[str], queues: Iterable[str], *, strict: bool) -> None:
        self.strict = strict
        self._ranks = {choice: rank for rank, choice in enumerate(choices)}
        self._queues = list(queues) if strict else sorted(queues)

    def add(self, queue: str) -> None:
        if queue not in self._queues:
            self._queues.insert(0, queue)
            if self.strict:
                self._queues.sort(key=self._rank)

    def remove(self, queue: str) -> None:
        if queue in self._queues:
            self._queues.remove(queue)

    def asked(self, queues: Collection[str]) -> None:
        """These were asked, so the others have their turn first."""
        if not self.strict:
            self._queues.sort(key=queues.__contains__)

    def to_ask(self, hungry: Set[str], opens: Callable[[str], bool]) -> list[str]:
        """Queues that may have work and are open. With `strict`, only the first of them, and those
        that its pattern fits too."""
        queues = [queue for queue in self._queues if queue in hungry and opens(queue)]
        if not self.strict or not queues:
            return queues
        first = self._rank(queues[0])
        return [queue for queue in queues if self._rank(queue) == first]

    def _rank(self, queue: str) -> int:
        """The place of a queue in the order that was given; one that was added later is last."""
        choice = choice_of(queue, self._ranks)
        return len(self._ranks) if choice is None else self._ranks[choice]
