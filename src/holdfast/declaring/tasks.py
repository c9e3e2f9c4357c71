"""A set of tasks, with the schedules and providers that belong to them.

```python
mail = Tasks(prefix="mail.", queue="mail")      # mail.py knows no app


@mail.task
async def send(to: str) -> None: ...


app.include(mail)                               # app.py; the task is called "mail.send"
```

A set may be included before or after its tasks are declared, in an app or in another set. What is
declared in a set is declared in everything that includes it. Including never renames.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from holdfast.context import Context
from holdfast.declaring.commands import DeclaresCommands
from holdfast.declaring.declared import DeclaredTask
from holdfast.declaring.decorator import FlowTaskDecorator, Running, TaskDecorator
from holdfast.declaring.names import check_old_names, task_name
from holdfast.declaring.schedules import DeclaresSchedules
from holdfast.declaring.sets import AnyTask
from holdfast.declaring.within_handlers import offer_to_handlers
from holdfast.enqueue.options import EnqueueOptions, JobOptions
from holdfast.errors import BadOption
from holdfast.handlers.registry import Handler
from holdfast.job import checks
from holdfast.job.checks import check_name
from holdfast.schedule.decorator import declared_on
from holdfast.task import Task

if TYPE_CHECKING:
    from holdfast.handlers.pools import ChildPool
    from holdfast.limits.definition import Limit
    from holdfast.limits.model import Settings

P = ParamSpec("P")
R = TypeVar("R")
OF_ONE_CALL = ("id", "connection", "delay", "run_at")
"""Options that make sense for one call, and not for every task of a set."""


offer_to_handlers()


class Tasks(DeclaresSchedules, DeclaresCommands):
    """What modules declare without knowing the app: tasks, schedules, providers.

    `prefix` begins the name of every task and schedule of the set. The options are the defaults of
    its tasks.
    """

    def __init__(self, *, prefix: str = "", **options: Unpack[EnqueueOptions]) -> None:
        _check_prefix(prefix)
        for name in set(OF_ONE_CALL) & options.keys():
            raise BadOption(f"Tasks({name}=…)", "left out: it is for a single call", name)
        super().__init__(_calling_place(), prefix)
        self._options = JobOptions().using(options)
        self._names_queue = "queue" in options

    def include(self, *sets: Tasks) -> None:
        """Take in the tasks, schedules, limits and providers of other sets: those of now, and
        those that are declared there later."""
        for one in sets:
            self._include(one)

    # Tasks -------------------------------------------------------------------------------

    @overload
    def task(
        self, fn: Callable[Concatenate[Context, P], Running[R]], /
    ) -> DeclaredTask[P, R, Concatenate[Context, P], Running[R]]: ...
    @overload
    def task(self, fn: Callable[P, Running[R]], /) -> DeclaredTask[P, R, P, Running[R]]: ...
    @overload
    def task(
        self, fn: Callable[Concatenate[Context, P], R], /
    ) -> DeclaredTask[P, R, Concatenate[Context, P], R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> DeclaredTask[P, R, P, R]: ...
    @overload
    def task(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        process: bool = False,
        pool: str | None = None,
        also: Iterable[str] = (),
        redact: Iterable[str] = (),
        **options: Unpack[EnqueueOptions],
    ) -> TaskDecorator: ...
    def task(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        process: bool = False,
        pool: str | None = None,
        also: Iterable[str] = (),
        redact: Iterable[str] = (),
        **options: Unpack[EnqueueOptions],
    ) -> TaskDecorator | AnyTask:
        """Make a function a task: `@app.task`, or `@app.task(queue="mail", timeout=30)`.

        Without `name` the task is called `module.qualname`. `also` has names that it had before:
        jobs of these names are run too. `process=True` runs the function in a child process, which
        a timeout can kill. `pool` names a pool whose children do the work: the function is not
        called, and only says what the task takes and returns. `redact` has paths of arguments that
        nobody is shown, such as `("card.*", "customer.email")`; a path of the result begins with
        `return`.
        """
        checks.flag("process", process)
        former = checks.texts("also", also, 128, "old name of a task")
        hidden = checks.texts("redact", redact, 500, "path of redact")
        chosen = self._options.using(options)
        place = process, None if pool is None else self._pool_named(pool)
        routed = not self._names_queue and "queue" not in options
        declare = TaskDecorator(partial(self._declare, name, place, former, hidden, chosen, routed))
        return declare if fn is None else declare(fn)

    def flow_task(
        self,
        *,
        name: str | None = None,
        process: bool = False,
        also: Iterable[str] = (),
        redact: Iterable[str] = (),
        **options: Unpack[EnqueueOptions],
    ) -> FlowTaskDecorator:
        """Make a function a task that returns a flow: `@app.flow_task()`. The flow is started as a
        child of the job, and the job lives as long as the flow: it gives its slot back, and ends as
        the flow does, with the flow's result. A cancel of the job cancels the flow."""
        from holdfast.declaring.flow_tasks import running_flow  # few programs declare any

        declare = self.task(name=name, process=process, also=also, redact=redact, **options)
        return FlowTaskDecorator(
            lambda fn: declare(running_flow(fn.plainly if isinstance(fn, DeclaredTask) else fn))
        )

    def _declare(
        self,
        name: str | None,
        place: tuple[bool, ChildPool | None],
        also: tuple[str, ...],
        redact: tuple[str, ...],
        options: JobOptions,
        routed: bool,
        fn: Callable[..., Any],
    ) -> AnyTask:
        fn = fn.function if isinstance(fn, Task) else fn  # a task of another app, declared here too
        name = task_name(fn, self._prefix, name)
        check_old_names(name, also)
        if routed:
            options = self._routed(name, options)
        process, pool = place
        kept = options.keep_result
        handler = Handler.of(
            name, fn, process=process, pool=pool, keep_result=kept, also=also, redact=redact
        )
        owners = self._lineage()
        for owner in owners:
            owner.registry.require_free(handler)
        task: AnyTask = DeclaredTask(self, handler, options)
        for owner in owners:
            owner._add(task)
        for declare in declared_on(fn):  # `@app.schedule` stood below `@app.task`
            declare(task)
        return task

    def _routed(self, name: str, options: JobOptions) -> JobOptions:
        if (queue := self._routes.queue_of(name)) is not None:
            return options.using({"queue": queue})
        owners = self._lineage()
        for owner in owners:
            owner._routes.require_not_for(name)
        for owner in owners:
            owner._routes.left_out([name])
        return options

    def tasks_with_queues(self) -> Iterator[tuple[Handler, str]]:
        """Every task, with the queue that its jobs go to."""
        for task in list(self.tasks.values()):
            yield task.handler, task.options.queue

    def route(self, pattern: str, *, queue: str) -> None:
        """Send the jobs of tasks that name no queue to this one, by the names of the tasks:
        `app.route("gh.*", queue="gh")`. The longest pattern that fits counts. A route stands before
        the tasks that it is for, and is for tasks of this set only."""
        self._routes.add(pattern, queue)

    def _add_pool(self, pool: ChildPool) -> ChildPool:
        self._register(lambda owner: owner.pools, "pool name", "one that is free", pool.name, pool)
        return pool

    def _pool_named(self, name: str) -> ChildPool:
        if name not in self.pools:
            known = ", ".join(sorted(self.pools)) or "none is declared yet"
            raise BadOption("pool", f"the name of an app.pool(…) declared before ({known})", name)
        return self.pools[name]

    # Limits ------------------------------------------------------------------------------

    def limit(self, name: str, settings: Settings, /) -> Limit:
        """Define a limit that tasks name in `limits=[…]`: `app.limit("tenant", Concurrency(5))`.
        It counts in all workers together. A worker of this app tells the store of it; what an
        operator has set there counts."""
        from holdfast.limits.definition import declared

        limit = declared(name, settings)
        free = "one that is free: a limit is defined once, and shared by tasks"
        self._register(lambda owner: owner.limits, "name of a limit", free, name, limit)
        return limit


def _check_prefix(prefix: object) -> None:
    if prefix == "":
        return
    check_name("prefix", prefix)
    if str(prefix)[-1].isalnum():
        raise BadOption("prefix", "one that ends in a sign, such as 'mail.'", prefix)


def _calling_place() -> str:
    """Where the set is made, for people. A subclass calls from its own `__init__`, so what is shown
    for it is that line."""
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
