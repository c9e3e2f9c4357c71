"""Schedules of a set of tasks, and the functions that they ask for scopes and plan times."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from holdfast.declaring.sets import TaskSet
from holdfast.job.checks import check_name
from holdfast.schedule.decorator import ScheduleDecorator

if TYPE_CHECKING:
    from holdfast.schedule.definition import ScheduleCall
    from holdfast.schedule.model import Definition

F = TypeVar("F", bound=Callable[..., Any])


class DeclaresSchedules(TaskSet):
    """The part of a set of tasks that runs them on schedule."""

    def schedule(
        self,
        cron: str | timedelta | None = None,
        /,
        *,
        name: str | None = None,
        **options: Unpack[ScheduleCall],
    ) -> ScheduleDecorator:
        """Run a task on schedule: `@app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin")`
        or `@app.schedule(timedelta(minutes=5))`, above or below `@app.task`.

        Without `name` the schedule has the name of the task. A task may have several schedules.
        """
        if name is not None:
            check_name("schedule name", name)
        named = None if name is None else f"{self._prefix}{name}"
        decorator = ScheduleDecorator(self._add_schedule, named, cron, options)
        for owner in self._lineage():
            owner._unfinished.append(decorator)
        return decorator

    def _add_schedule(self, name: str, definition: Definition) -> None:
        free = "one that is free: give it name=…"
        self._register(lambda owner: owner.schedules, "schedule name", free, name, definition)

    def scopes(self, name: str) -> Callable[[F], F]:
        """Register a provider of scopes, for `@app.schedule(…, scopes=name)`. A provider is a
        function or a generator, synchronous or not, that gives the scopes as text."""
        return self._provider(lambda owner: owner.providers.scopes, "scope provider", name)

    def planner(self, name: str) -> Callable[[F], F]:
        """Register a planner, for `@app.schedule(…, planner=name)`. A planner is a function of
        `(scope, after, now)` that gives the plan times later than `after`, up to `now`."""
        return self._provider(lambda owner: owner.providers.planners, "planner", name)

    def _provider(
        self, book: Callable[[TaskSet], MutableMapping[str, Any]], what: str, name: str
    ) -> Callable[[F], F]:
        check_name(what, name)

        def register(function: F) -> F:
            self._register(book, what, "registered once under a name", name, function)
            return function

        return register
