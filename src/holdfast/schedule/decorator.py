"""The decorators by which code declares schedules, scope providers and planners. No store is open
yet: they only fill the app's tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, runtime_checkable

from holdfast.errors import BadOption, BadTask
from holdfast.job.checks import check_name

if TYPE_CHECKING:
    from holdfast.schedule.definition import ScheduleCall
    from holdfast.schedule.model import Definition

WAITING_SCHEDULES = "__holdfast_schedules__"
"""The attribute of a function that keeps its schedules until it becomes a task."""
RULES = (
    "given its rule, either a cron expression or every=…: '0 9 * * mon-fri', timedelta(minutes=5)"
)
T = TypeVar("T")


@runtime_checkable
class Schedulable(Protocol):
    """What a schedule needs of a task."""

    @property
    def name(self) -> str: ...

    @property
    def also(self) -> tuple[str, ...]: ...

    def scheduled(
        self, cron: str | timedelta | None = None, /, **options: Unpack[ScheduleCall]
    ) -> Definition: ...


class ScheduleDecorator:
    """What `@app.schedule(...)` applies to a task, or to a function that becomes one."""

    def __init__(
        self,
        declare: Callable[[str, Definition], None],
        name: str | None,
        cron: str | timedelta | None,
        options: ScheduleCall,
    ) -> None:
        _require_rule(cron, options)
        self._declare_as = declare
        self._name = name
        self._cron = cron
        self._options = options
        self._waits_for: Callable[..., Any] | None = None

    def __call__(self, target: T) -> T:
        if isinstance(target, Schedulable):
            self._declare(target)
        elif callable(target):
            # `@app.schedule` stands below `@app.task`: the function is not a task yet.
            self._wait_for(target)
        else:
            raise BadOption("@app.schedule", "put on a task or a function", target)
        return target

    def _wait_for(self, function: Callable[..., Any]) -> None:
        try:
            setattr(function, WAITING_SCHEDULES, [*declared_on(function), self._declare])
        except (AttributeError, TypeError):  # one that is written in C takes no note
            expected = "put above @app.task, or on a function written in Python"
            raise BadOption("@app.schedule", expected, function) from None
        self._waits_for = function

    def _declare(self, task: Schedulable) -> None:
        name = self._name or _own_name(task)
        check_name("schedule name", name)
        self._declare_as(name, task.scheduled(self._cron, **self._options))
        self._waits_for = None

    def require_task(self) -> None:
        """Refuse a function that has a schedule and never became a task."""
        function = self._waits_for
        if function is not None:
            name = getattr(function, "__qualname__", repr(function))
            raise BadTask(name, "it has a schedule but is no task: put @app.task above it")


def _own_name(task: Schedulable) -> str:
    """A schedule is called like its task. A renamed task must say which name its schedule has: the
    schedule of the old name is still in the store and would run beside a new one."""
    if task.also:
        expected = f"given for a renamed task: name={task.also[0]!r} goes on with its schedule"
        raise BadOption(f"task {task.name!r}: schedule name", expected, "no name")
    return task.name


def _require_rule(cron: object, options: ScheduleCall) -> None:
    if callable(cron):
        raise BadOption("@app.schedule", f"{RULES}; in parentheses", cron)
    if cron is None and options.get("every") is None:
        raise BadOption("@app.schedule", RULES, "no rule")


def declared_on(function: object) -> list[Callable[[Schedulable], None]]:
    """The schedules that wait for a function to become a task."""
    waiting: list[Callable[[Schedulable], None]] = getattr(function, WAITING_SCHEDULES, [])
    return waiting
