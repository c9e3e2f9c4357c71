"""A task that is known by its name only: its function is in another program."""

from __future__ import annotations

from typing import Any

from holdfast.codec.calls import UntypedCalls
from holdfast.enqueue.options import JobOptions
from holdfast.task import Task, TaskOwner


class NamedTask(Task[..., Any]):
    """What `app.task_named(...)` answers with if the app does not have the task.

    The worker checks the arguments, because only it knows the function. Options that the task's own
    program declares (queue, retry, timeout, retention) are not known here: give them by `using`.
    """

    def __init__(self, owner: TaskOwner, name: str, options: JobOptions | None = None) -> None:
        super().__init__(owner, name, UntypedCalls(name), options or JobOptions())

    def _with(self, options: JobOptions) -> NamedTask:
        return NamedTask(self._owner, self.name, options)
