"""The app: where settings, tasks, one store, the client and the worker are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import msgspec

from holdfast.client.inserting import Inserter
from holdfast.client.joining import WithinBlock
from holdfast.client.opening import OpensStore
from holdfast.clock import Clock
from holdfast.config import Settings
from holdfast.declaring.imports import Imports
from holdfast.declaring.named import NamedTask
from holdfast.declaring.sets import AnyTask
from holdfast.declaring.tasks import Tasks
from holdfast.enqueue.options import JobOptions
from holdfast.errors import BadOption, NotCapable
from holdfast.events import Events
from holdfast.handlers.eager import EagerJobs, RunsEagerly
from holdfast.hooks import TakesHooks
from holdfast.job import checks
from holdfast.job.checks import check_name
from holdfast.logs.records import JobLines, log_event, log_hiding
from holdfast.store.open import check_url, open_store
from holdfast.task import Task

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.client.client import Client
    from holdfast.client.sync import SyncClient
    from holdfast.declaring.flows import Flow
    from holdfast.encryption.keyring import Keyring
    from holdfast.enqueue.options import Seconds
    from holdfast.job.policy import Retention
    from holdfast.opened_worker import OpenedWorker
    from holdfast.store.contract.store import Store
    from holdfast.worker.last_resort import LastResort
    from holdfast.worker.slots import Slots

OF_WORKERS = (
    *("lease", "grace", "poll", "max_payload", "signing_keys"),
    *("max_steps", "max_steps_size", "max_stream_size", "unreadable_for"),
)
"""The settings that are options of each worker."""


class App(Tasks, TakesHooks, OpensStore):
    """A program's tasks, and the store that keeps their jobs.

    Tasks may be declared without a running event loop. `async with app` opens the store;
    synchronous calls open a store of their own with the first call.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        lease: float | None = None,
        grace: float | None = None,
        poll: float | None = None,
        max_payload: int | None = None,
        max_steps: int | None = None,
        max_steps_size: int | None = None,
        max_stream_size: int | None = None,
        unreadable_for: float | None = None,
        keep_audit: float | None = None,
        imports: Iterable[str] | None = None,
        keys: Keyring | str | None = None,
        unencrypted: Iterable[str] | None = None,
        signing_keys: Keyring | str | None = None,
        lifespan: Callable[[App], AbstractAsyncContextManager[object]] | None = None,
        eager: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        Tasks.__init__(self)
        TakesHooks.__init__(self)
        OpensStore.__init__(self, self._new_store, self._new_client)
        if lifespan is not None:
            expected = "a function of the app that gives an async context manager"
            checks.function("lifespan", lifespan, expected)
        if clock is not None and not callable(getattr(clock, "override", None)):
            raise BadOption("clock", "a clock, such as ManualClock()", clock)
        self.lifespan = lifespan
        self.settings: Settings = Settings.load(
            url=url,
            lease=lease,
            grace=grace,
            poll=poll,
            max_payload=max_payload,
            max_steps=max_steps,
            max_steps_size=max_steps_size,
            max_stream_size=max_stream_size,
            unreadable_for=unreadable_for,
            keep_audit=keep_audit,
            imports=imports,
            keys=keys,
            unencrypted=unencrypted,
            signing_keys=signing_keys,
            eager=eager,
        )
        check_url(self.settings.url)
        keys_given = self.settings.keys
        self.hide_key = None if keys_given is None else self._hiding(keys_given)
        self._imports = Imports(self.settings.imports)
        log = log_hiding if self.settings.hides_errors else log_event
        self.events = Events(log)
        self.job_lines = JobLines(self.events, log)
        self.eager_jobs = EagerJobs(self.settings.eager, self.events, self._eager_runner)
        self._clock = clock

    # Declaring ---------------------------------------------------------------------------

    def task_named(self, name: str) -> Task[..., Any]:
        """A task by its name, also if its function is in another program only:
        `await app.task_named("mail.send").using(queue="mail").enqueue(to="a@example.org")`."""
        check_name("task name", name)
        if name in self.registry:
            return self.tasks[self.registry[name].name]
        queue = self._routes.queue_of(name)
        return NamedTask(self, name, JobOptions(queue=queue) if queue is not None else None)

    def flow(
        self,
        name: str,
        *,
        tags: Sequence[str] = (),
        priority: int | None = None,
        deadline: datetime | Seconds | None = None,
        retention: Retention | None = None,
    ) -> Flow:
        """A graph of jobs to be built and then started. Nothing is written before `start()`."""
        from holdfast.declaring.flows import Flow

        return Flow(
            self, name, tags=tags, priority=priority, deadline=deadline, retention=retention
        )

    def autodiscover(self, package: str, name: str = "tasks") -> None:
        """Let workers import every module called `name` in a package and in the packages below
        it: `app.autodiscover("shop")` names `shop.tasks`, `shop.mail.tasks` and so on."""
        self._imports.discover(package, name)

    def import_tasks(self, *modules: str) -> None:
        """Import these modules, and what `imports` and `autodiscover` name. A worker does so
        before it starts."""
        self._imports.load(modules)
        self.require_finished()

    def host(self, task: str) -> Self:
        return self

    @property
    def as_host(self) -> Self:
        return self

    def _add(self, task: AnyTask) -> None:
        """Tasks of a set are bound to this app here, because the set may be in another app too."""
        super()._add(task.bound_to(self))

    # The store ---------------------------------------------------------------------------

    def within(self, connection: object) -> WithinBlock:
        """Let every enqueue, and every verb on one job, join the open transaction of this
        connection inside the block: `with app.within(connection):` or `async with`. The caller
        commits or rolls back. The innermost block counts; `within(None)` and
        `task.using(connection=None)` join none."""
        from holdfast.store.contract.records import Capability

        store = self.unopened_store
        if Capability.JOIN_TRANSACTION not in store.capabilities:
            raise NotCapable(store.kind, Capability.JOIN_TRANSACTION.value)
        return self.ambient.within(connection)

    @cached_property
    def sync(self) -> SyncClient:
        """The verbs of the client for a program or a thread without an event loop.

        >>> app = App("sqlite://")
        >>> app.sync.count(queue="mail")
        {}
        >>> app.close_sync()
        """
        from holdfast.client.sync import SyncClient

        return SyncClient(self)

    def _new_client(self, store: Store, inserter: Inserter) -> Client:
        from holdfast.client.client import Client

        return Client(
            store,
            self.providers,
            self.events,
            self.ambient,
            self.registry,
            self.settings.max_payload,
            inserter,
            self.settings.signing_keys,
        )

    def _new_store(self) -> Store:
        chosen = self.settings
        return open_store(
            chosen.url, clock=self._clock, keys=chosen.keys, unencrypted=chosen.unencrypted
        )

    @staticmethod
    def _hiding(keys: Keyring) -> Callable[[str], str]:
        """Raises if the library is missing: the first job would be too late."""
        from holdfast.encryption.sealing import Sealing  # most programs have no keys

        return Sealing(keys).unique_key

    # Running -----------------------------------------------------------------------------

    def worker(
        self, queues: Mapping[str, int | Slots] | None = None, **options: Any
    ) -> OpenedWorker:
        """A worker for these queues, each with a number of slots, or with a part of the `slots`
        that they share (`Slots`); use it with `async with`. Without `queues` it serves the queues
        of the app's own tasks and schedules."""
        from holdfast.opened_worker import OpenedWorker
        from holdfast.worker.options import DEFAULT_SLOTS, WorkerOptions

        self.import_tasks()
        defaults = {name: getattr(self.settings, name) for name in OF_WORKERS}
        defaults["imports"] = tuple(self._imports.loaded)
        if (name := self.settings.worker_name) is not None:
            defaults["name"] = name
        self.eager_jobs.tell()
        served = dict.fromkeys(self.own_queues, DEFAULT_SLOTS) if queues is None else queues
        return OpenedWorker(self, WorkerOptions.of(served, defaults | options))

    @property
    def own_queues(self) -> list[str]:
        """The queues to which the app's tasks and schedules send their jobs."""
        tasks = (task.options.queue for task in self.tasks.values())
        schedules = (schedule.queue for schedule in self.schedules.values())
        return list(dict.fromkeys([*tasks, *schedules])) or ["default"]

    def run_worker(
        self,
        queues: Mapping[str, int | Slots] | None = None,
        *,
        burst: bool = False,
        **options: Any,
    ) -> None:
        """Run a worker in this thread until it is told to stop, for a program without an event
        loop of its own; with `burst` until nothing is left to do.

        In the main thread the worker is stopped by SIGTERM, SIGHUP and Ctrl-C and cannot outlast
        them, as `holdfast worker` does. In another thread signals are not its own: use `burst`, or
        let the program end.
        """
        from holdfast.worker.alone import run_alone

        async def work(last_resort: LastResort | None) -> None:
            async with self.worker(queues, **options).alone(last_resort) as worker:
                await worker.run(burst=burst)

        run_alone(work)

    @contextmanager
    def eager(
        self, *, raises: bool = True, resources: Mapping[Callable[..., Any], Any] | None = None
    ) -> Iterator[None]:
        """Run each job where it is enqueued inside the `with` block, as tests do. No store knows
        of these jobs. A job that fails raises its error at the enqueue; with `raises=False` its
        handle tells instead. `resources` gives values in place of what functions make."""
        checks.flag("raises", raises)
        if resources is not None:
            checks.replacements("resources", resources)
        with self.eager_jobs.switched_on(raises, resources):
            yield

    def _eager_runner(self) -> RunsEagerly:
        from holdfast.worker.eager import EagerRunner

        return EagerRunner(self, self.settings.max_payload)

    @contextmanager
    def using_store(self, url: str, clock: Clock | None = None) -> Iterator[None]:
        """Use another store inside the `with` block, as tests do. Synchronous calls go to that
        store too. The app must not be open when the block begins."""
        check_url(url)
        with self._opened_anew():
            before = self.settings, self._clock
            self.settings = msgspec.structs.replace(self.settings, url=url)
            self._clock = clock
            try:
                yield
            finally:
                self.settings, self._clock = before
