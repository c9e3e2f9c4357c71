"""Where plain functions and process tasks run: how many more of them could begin at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from holdfast.handlers.registry import Mode, Registry
from holdfast.job.ids import JobId
from holdfast.worker.attempt import Attempt


class Places:
    """Threads and children, as far as the tasks need them. An attempt has its place from the
    claim on, also while it waits for a slot; a stuck handler keeps it."""

    def __init__(
        self,
        registry: Registry,
        sizes: Mapping[Mode, int],
        running: Mapping[JobId, Attempt],
        stuck: Collection[Attempt],
    ) -> None:
        self._mode_of = {task: registry[task].mode for task in registry}
        used = set(self._mode_of.values())
        self._sizes = {mode: size for mode, size in sizes.items() if mode in used}
        self._running = running
        self._stuck = stuck
        self._tasks = tuple(registry)

    def free(self) -> dict[Mode, int]:
        """Of each kind that is bounded."""
        left = dict(self._sizes)
        if left:
            for attempt in chain(self._running.values(), self._stuck):
                mode = attempt.handler.mode
                if mode in left:
                    left[mode] -= 1
        return left

    def passes_over(self, tasks: Sequence[str]) -> bool:
        """Whether some tasks are left out."""
        return len(tasks) < len(self._tasks)

    def tasks_that_could_begin(self, free: Mapping[Mode, int]) -> Sequence[str]:
        if all(number > 0 for number in free.values()):
            return self._tasks
        return [task for task, mode in self._mode_of.items() if free.get(mode, 1) > 0]
