"""A set of tasks, with the schedules and providers that belong to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, Unpack

from holdfast.declaring.declared import DeclaredTask
from holdfast.declaring.decorator import TaskDecorator
from holdfast.enqueue.options import EnqueueOptions, JobOptions
from holdfast.handlers.registry import Handler, Registry
from holdfast.job import checks
from holdfast.job.checks import check_name
from holdfast.schedule.decorator import ScheduleDecorator, declared_on, registering
from holdfast.schedule.definition import ScheduleCall
from holdfast.schedule.model import Definition
from holdfast.schedule.providers import Providers
from holdfast.task import TaskHost

F = TypeVar("F", bound=Callable[..., Any])


class Tasks:
    """What a program declares: tasks, schedules, providers."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.tasks: dict[str, DeclaredTask[..., Any, ..., Any]] = {}
        self.schedules: dict[str, Definition] = {}
        self.providers = Providers()

    def host(self) -> TaskHost:
        """The app that enqueues the jobs of these tasks."""
        raise NotImplementedError

    def task(
        self,
        *,
        name: str | None = None,
        process: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> TaskDecorator:
        """Register a function as a task: `@app.task(queue="mail", timeout=30)`.

        `process=True` runs the function in a child process, which a timeout can kill.
        """
        checks.flag("process", process)
        return TaskDecorator(partial(self._declare, name, process, JobOptions().using(options)))

    def _declare(
        self, name: str | None, process: bool, options: JobOptions, fn: Callable[..., Any]
    ) -> DeclaredTask[..., Any, ..., Any]:
        name = name or fn.__name__
        check_name("task name", name)
        handler = Handler.of(name, fn, process=process, keep_result=options.keep_result)
        self.registry.add(handler)
        task: DeclaredTask[..., Any, ..., Any] = DeclaredTask(self, handler, options)
        self.tasks[name] = task
        for declare in declared_on(fn):  # `@app.schedule` stood below `@app.task`
            declare(task)
        return task

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
        return ScheduleDecorator(self.schedules, name, cron, options)

    def scopes(self, name: str) -> Callable[[F], F]:
        """Register a provider of scopes, for `@app.schedule(…, scopes=name)`. A provider is a
        function or a generator, synchronous or not, that gives the scopes as text."""
        return registering(self.providers.scopes, "scope provider", name)

    def planner(self, name: str) -> Callable[[F], F]:
        """Register a planner, for `@app.schedule(…, planner=name)`. A planner is a function of
        `(scope, after, now)` that gives the plan times later than `after`, up to `now`."""
        return registering(self.providers.planners, "planner", name)
