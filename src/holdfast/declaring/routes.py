"""Routes: to which queue the jobs of a task go that names none, by the name of the task."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import BadOption
from holdfast.job.checks import check_name
from holdfast.job.serving import check_choice, choice_of


class Routes:
    """The routes of one set of tasks. They are fixed when a task is declared, so a route that comes
    too late is refused: its jobs would go to a queue that perhaps nobody serves."""

    def __init__(self) -> None:
        self._queues: dict[str, str] = {}
        self.without: set[str] = set()

    def add(self, pattern: str, queue: str) -> None:
        check_choice(pattern, "pattern of a route")
        check_name("queue", queue)
        if pattern in self._queues:
            raise BadOption(f"route {pattern!r}", "given once", queue)
        for task in self.without:
            if choice_of(task, (pattern,)):
                raise BadOption(f"route {pattern!r}", "before the tasks that it is for", task)
        self._queues[pattern] = queue

    def queue_of(self, task: str) -> str | None:
        """The queue of the route that fits best."""
        pattern = choice_of(task, self._queues)
        return None if pattern is None else self._queues[pattern]

    def left_out(self, tasks: Iterable[str]) -> None:
        """These tasks were declared. They name no queue, and no route fits them."""
        self.without.update(tasks)

    def require_not_for(self, task: str) -> None:
        """Raise if a route fits a task of an inner set, which has its queue already."""
        if (pattern := choice_of(task, self._queues)) is not None:
            expected = (
                "for tasks that are declared on the app itself: give the set a route or a queue"
            )
            raise BadOption(f"route {pattern!r}", expected, task)
