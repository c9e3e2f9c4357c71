"""The decorators by which code declares schedules, scope providers and planners. No store is open
yet: they only fill the app's tables."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import timedelta
from typing import Any, Protocol, TypeVar, Unpack, runtime_checkable

from holdfast.errors import BadOption
from holdfast.job.checks import check_name
from holdfast.schedule.definition import ScheduleCall
from holdfast.schedule.model import Definition

WAITING_SCHEDULES = "__holdfast_schedules__"
"""The attribute of a function that keeps its schedules until it becomes a task."""
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@runtime_checkable
class Schedulable(Protocol):
    """What a schedule needs of a task."""

    @property
    def name(self) -> str: ...

    def scheduled(
        self, cron: str | timedelta | None = None, /, **options: Unpack[ScheduleCall]
    ) -> Definition: ...


class ScheduleDecorator:
    """What `@app.schedule(...)` applies to a task, or to a function that becomes one."""

    def __init__(
        self,
        declared: MutableMapping[str, Definition],
        name: str | None,
        cron: str | timedelta | None,
        options: ScheduleCall,
    ) -> None:
        self._declared = declared
        self._name = name
        self._cron = cron
        self._options = options

    def __call__(self, target: T) -> T:
        if isinstance(target, Schedulable):
            self._declare(target)
        elif callable(target):
            # `@app.schedule` stands below `@app.task`: the function is not a task yet.
            setattr(target, WAITING_SCHEDULES, [*declared_on(target), self._declare])
        else:
            raise BadOption("@app.schedule", "put on a task or a function", target)
        return target

    def _declare(self, task: Schedulable) -> None:
        name = self._name or task.name
        check_name("schedule name", name)
        if name in self._declared:
            raise BadOption("schedule name", "one that is free: give it name=…", name)
        self._declared[name] = task.scheduled(self._cron, **self._options)


def declared_on(function: object) -> list[Callable[[Schedulable], None]]:
    """The schedules that wait for a function to become a task."""
    waiting: list[Callable[[Schedulable], None]] = getattr(function, WAITING_SCHEDULES, [])
    return waiting


def registering(known: MutableMapping[str, Any], what: str, name: str) -> Callable[[F], F]:
    """A decorator that registers a function under a name. A name can be registered once."""
    check_name(what, name)

    def register(function: F) -> F:
        if name in known:
            raise BadOption(what, "registered once under a name", name)
        known[name] = function
        return function

    return register
