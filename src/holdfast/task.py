"""A task: a registered function that can be called later, by a worker.

`send_email(...)` runs the function at once, like any function. `send_email.enqueue(...)` writes the
call to the store. `enqueue` has the function's own parameters, without a leading `ctx: Context`,
because the worker passes the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
)

from msgspec import UNSET

from holdfast.client.inserting import Inserter, stands
from holdfast.client.joining import WITHIN, Ambient
from holdfast.client.portal import Call, Pending
from holdfast.codec.calls import CallCodec
from holdfast.codec.signature import Signature
from holdfast.config import LEAST_MAX_PAYLOAD, Settings
from holdfast.enqueue.bulk import Calls, Make, write_all, write_all_sync
from holdfast.enqueue.maker import JobMaker
from holdfast.enqueue.options import EnqueueOptions, JobOptions
from holdfast.errors import BadArguments, BadOption, BadTask, PayloadTooLarge
from holdfast.handle import FollowsJobs, JobHandle
from holdfast.handlers.registry import Handler
from holdfast.hooks import Enqueue, Hooks
from holdfast.job.checks import known_job_id
from holdfast.job.record import Inserted, NewJob

if TYPE_CHECKING:
    from holdfast.schedule.definition import ScheduleCall
    from holdfast.schedule.model import Definition
    from holdfast.store.contract.store import Store

UTF8_MOST = 4  # bytes of one character
NEED_NOT_BE_ENCODED = LEAST_MAX_PAYLOAD // UTF8_MOST
"""Arguments of so many characters have room, however many bytes they take."""

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", covariant=True)


_ENQUEUE = "use 'await task.enqueue(…)', or 'task.enqueue_sync(…)' without an event loop"
_USING = "use 'task.using(delay=60, queue=…).enqueue(…)'"
INSTEAD = {
    **dict.fromkeys(("delay", "send", "defer", "defer_async", "kiq", "submit"), _ENQUEUE),
    **dict.fromkeys(("apply_async", "send_with_options", "configure", "s"), _USING),
    "schedule": "use '@app.schedule(…)', or 'task.using(delay=60).enqueue(…)' for one call",
}
"""What users of other libraries look for on a task, and what to use here."""


class _Instead:
    """Raises where a task is asked for a name of another library. A `__getattr__` would do the
    same and make every attribute of every task slower."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, task: Task[..., Any] | None, owner: type[Any]) -> NoReturn:
        what = owner.__name__ if task is None else f"task {task.name!r}"
        text = f"{what} has no {self._name!r}: {INSTEAD[self._name]}"
        raise AttributeError(text, name=self._name, obj=task)


class TaskHost(FollowsJobs, Protocol):
    """What a task needs of the app it belongs to."""

    @property
    def settings(self) -> Settings: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def hooks(self) -> Hooks: ...
    @property
    def hide_key(self) -> Callable[[str], str] | None: ...
    @property
    def inserter(self) -> Inserter: ...
    @property
    def store(self) -> Store: ...
    @property
    def unopened_store(self) -> Store: ...
    @property
    def ambient(self) -> Ambient: ...
    def begin_call(self, call: Call[T]) -> Pending[T]: ...


class TaskOwner(Protocol):
    """Where a task was declared. It knows the app that enqueues the jobs of the task."""

    @property
    def as_host(self) -> TaskHost | None: ...
    def host(self, task: str) -> TaskHost: ...


class Task(Generic[P, R]):
    """What can be enqueued: the name of a function, the codec of its calls and the options of its
    jobs."""

    def __init__(self, owner: TaskOwner, name: str, codec: CallCodec, options: JobOptions) -> None:
        self.name = name
        self.options = options
        self._owner = owner
        self._host = owner.as_host  # None if the task was declared in a set
        self._codec = codec
        self._maker = JobMaker(name, options, codec if isinstance(codec, Signature) else None)
        self._hooks: Hooks | None = None  # of the app, once it is known
        self.named: frozenset[str] = frozenset()  # the options that `using` named

    @property
    def app(self) -> TaskHost:
        return self._owner.host(self.name)

    @property
    def codec(self) -> CallCodec:
        """How the calls of the task become JSON."""
        return self._codec

    @property
    def also(self) -> tuple[str, ...]:
        """The names that the task had before."""
        return ()

    @property
    def handler(self) -> Handler:
        """The function with its compiled signature. Only a declared task has one."""
        raise BadTask(self.name, "its function is not in this program")

    @property
    def function(self) -> Callable[..., Any]:
        return self.handler.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here and now; nothing is enqueued."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def using(self, **options: Unpack[EnqueueOptions]) -> Self:
        """The same task with some options replaced: `task.using(delay=60).enqueue(…)`."""
        chosen = self._with(self.options.using(options))
        chosen.named = self.named.union(options)
        return cast("Self", chosen)

    def _with(self, options: JobOptions) -> Task[P, R]:
        return Task(self._owner, self.name, self._codec, options)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Write one call to the store; returns when the store has acknowledged it."""
        job = self._job_of(self._codec.encode(args, kwargs))
        app = self._host or self.app
        if (
            app.eager_jobs.on
            or WITHIN.get() is not None
            or self.options.connection is not UNSET
            or app.hooks.around_enqueue
        ):
            return JobHandle(self, await self._insert(job))
        return JobHandle(self, await app.inserter.insert(job))

    async def _insert(self, job: NewJob) -> Inserted:
        if not self.app.hooks.around_enqueue:
            return await self._write(job)
        with self.app.hooks.around(Enqueue.of(job)) as enqueue:
            enqueue.sent = 1
            enqueue.inserted.append(await self._write(enqueue.with_headers(job)))
        return enqueue.inserted[0]

    async def _write(self, job: NewJob) -> Inserted:
        app = self.app
        if app.eager_jobs.on:
            return await app.eager_jobs.run(self.handler, job)
        if (connection := self._joins()) is None:
            return await app.inserter.insert(job)
        [inserted] = await app.store.jobs.within(connection, lambda on: on.insert([job]))
        return stands(job, inserted)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """`enqueue` for programs without an event loop."""
        return JobHandle(self, self._insert_sync(self._job_of(self._codec.encode(args, kwargs))))

    def _insert_sync(self, job: NewJob) -> Inserted:
        if not self.app.hooks.around_enqueue:
            return self._write_sync(job)
        with self.app.hooks.around(Enqueue.of(job)) as enqueue:
            enqueue.sent = 1
            enqueue.inserted.append(self._write_sync(enqueue.with_headers(job)))
        return enqueue.inserted[0]

    def _write_sync(self, job: NewJob) -> Inserted:
        app = self.app
        if app.eager_jobs.on:
            return app.eager_jobs.run_sync(self.handler, job)
        if (connection := self._joins()) is None:
            return app.begin_call(lambda opened: opened.inserter.insert(job)).wait()
        jobs = app.unopened_store.jobs
        [inserted] = jobs.within_sync(connection, lambda on: on.insert([job]))
        return stands(job, inserted)

    async def enqueue_many(self, calls: Calls) -> list[JobHandle[R]]:
        """Write many calls, in chunks. Each call is a tuple of positional arguments or a dict of
        named ones.

        A call that does not fit raises before its chunk is written; the error says how many
        jobs were written. If the store refuses a chunk, it writes none of it. A store that
        cannot promise that raises `PartlyInserted`, which says for each call whether its job
        was written.
        """
        self._refuse_one_id()
        connection = self._joins()

        async def write(jobs: list[NewJob]) -> list[Inserted]:
            enqueue.sent += len(jobs)
            if self.app.eager_jobs.on:
                return [await self._write(job) for job in jobs]
            if connection is None:
                return await self.app.inserter.insert_many(jobs)
            return await self.app.store.jobs.within(connection, lambda on: on.insert(jobs))

        with self._many() as enqueue:
            make = self._maker_for(enqueue)
            enqueue.inserted += await write_all(calls, make, write, ahead=connection is None)
        return [JobHandle(self, one) for one in enqueue.inserted]

    def enqueue_many_sync(self, calls: Iterable[object]) -> list[JobHandle[R]]:
        """`enqueue_many` for programs without an event loop. The calls are read in this thread, a
        chunk at a time, while the chunk before is written."""
        self._refuse_one_id()
        connection = self._joins()

        def begin(jobs: list[NewJob]) -> Callable[[], list[Inserted]]:
            enqueue.sent += len(jobs)
            if self.app.eager_jobs.on:
                return lambda: [self._write_sync(job) for job in jobs]
            if connection is None:
                return self.app.begin_call(lambda opened: opened.inserter.insert_many(jobs)).wait
            on = self.app.unopened_store.jobs
            inserted = on.within_sync(connection, lambda on: on.insert(jobs))
            return lambda: inserted

        with self._many() as enqueue:
            make = self._maker_for(enqueue)
            enqueue.inserted += write_all_sync(calls, make, begin, ahead=connection is None)
        return [JobHandle(self, one) for one in enqueue.inserted]

    def _many(self) -> AbstractContextManager[Enqueue]:
        """One enqueue of many jobs, inside the hooks around it."""
        enqueue = Enqueue(self.name, self.options.queue, self.options.headers, is_bulk=True)
        hooks = self.app.hooks
        return hooks.around(enqueue) if hooks.around_enqueue else nullcontext(enqueue)

    def _maker_for(self, enqueue: Enqueue) -> Make:
        if not self.app.hooks.around_enqueue:
            return self._jobs_for
        return lambda calls: [enqueue.with_headers(job) for job in self._jobs_for(calls)]

    def _refuse_one_id(self) -> None:
        if self.options.id is not None:
            raise BadOption("id", "left out of enqueue_many: many jobs cannot share one", "an id")

    def _joins(self) -> object | None:
        """The caller's connection that jobs are written on; None for the store's own. An option
        that was given, even as None, counts before the ambient transaction."""
        given = self.options.connection
        if given is not UNSET:
            return cast("object | None", given)
        joined = None if WITHIN.get() is None else self.app.ambient.joined()
        return None if joined is None else joined.connection

    def _jobs_for(self, calls: Sequence[object]) -> list[NewJob]:
        """Mostly there is nothing to ask of each call: whether hooks give headers, and whether the
        arguments are short, is asked once."""
        texts = [*map(self._text_of, calls)]
        if self._known_hooks().on_enqueue or max(map(len, texts)) > NEED_NOT_BE_ENCODED:
            return [*map(self._job_of, texts)]
        return [*map(self._maker.make, texts)]

    def _text_of(self, call: object) -> str:
        if isinstance(call, tuple):
            return self._codec.encode(call, {})
        if isinstance(call, dict):
            return self._codec.encode((), call)
        got = type(call).__name__
        raise BadArguments(self.name, f"a call must be a tuple or a dict of arguments, got {got}")

    def _job_of(self, text: str) -> NewJob:
        if len(text) > NEED_NOT_BE_ENCODED:
            self._require_room(text)
        hooks = self._known_hooks() if self._hooks is None else self._hooks
        if hooks.on_enqueue:
            return self._maker.make(text, hooks.headers(self.name))
        return self._maker.make(text)

    def _known_hooks(self) -> Hooks:
        if self._hooks is None:
            self._hooks = self.app.hooks
            self._maker.hide_key = self.app.hide_key
        return self._hooks

    def _require_room(self, text: str) -> None:
        limit = self.app.settings.max_payload
        if len(text) * UTF8_MOST > limit and (size := len(text.encode())) > limit:
            raise PayloadTooLarge(f"task {self.name!r}: the arguments", size, limit)

    async def enqueue_json(self, text: str) -> JobHandle[R]:
        """Enqueue a call whose arguments are JSON already, from a command line or a web form."""
        self._codec.check(text)
        return JobHandle(self, await self._insert(self._job_of(text)))

    def scheduled(
        self, cron: str | timedelta | None = None, /, **options: Unpack[ScheduleCall]
    ) -> Definition:
        """A schedule that starts jobs of this task, for `client.schedules.create`. It takes a
        cron expression, an interval or `every=…`, and the options of `@app.schedule`."""
        from holdfast.schedule.definition import define  # only programs with schedules need it

        return define(self.name, self._codec, self.options, cron, options)

    def read_result(self, text: str | None) -> R:
        return cast("R", None if text is None else self._codec.decode_result(text))

    def job(self, job_id: str) -> JobHandle[R]:
        """A handle on a job of this task that was enqueued elsewhere."""
        return JobHandle(self, Inserted(known_job_id(job_id), "existing"))


for _name in INSTEAD:
    setattr(Task, _name, _Instead(_name))
