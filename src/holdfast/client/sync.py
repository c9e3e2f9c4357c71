"""The verbs of the client for programs without an event loop: `app.sync.count(queue="mail")`.

Each verb is taken from its asynchronous class, with its parameters, its result type and its
docstring. Nothing is written twice, and a type checker sees the same signature without `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cached_property, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
)

from holdfast.client.audit import AuditVerbs
from holdfast.client.client import Client
from holdfast.client.keys import KeyVerbs
from holdfast.client.portal import Pending, Verb
from holdfast.client.queues import QueueVerbs
from holdfast.client.tasks import TaskVerbs
from holdfast.client.workers import WorkerVerbs
from holdfast.enqueue.options import Seconds
from holdfast.errors import ResultTimeout
from holdfast.job import checks

if TYPE_CHECKING:
    from holdfast.client.sync_nouns import (
        SyncFailureVerbs,
        SyncLimitVerbs,
        SyncOperationVerbs,
        SyncScheduleVerbs,
        SyncSignalVerbs,
        SyncStreamVerbs,
        SyncTelemetryVerbs,
    )

P = ParamSpec("P")
T = TypeVar("T")

SLACK_SECONDS = 1.0
"""How much later than its timeout a wait for a result ends if the loop it needs is blocked."""


class Begins(Protocol):
    """Starts a verb of the client on the loop of another thread (an `App`)."""

    def begin_sync(self, verb: Verb[T]) -> Pending[T]: ...


class SyncVerbs:
    """Verbs of one noun. `pick` finds the asynchronous verbs of that noun on a client."""

    def __init__(self, app: Begins, pick: Callable[[Client], Any]) -> None:
        self._app = app
        self._pick = pick

    def _begin(
        self, verb: Callable[..., Coroutine[Any, Any, T]], *args: object, **kwargs: object
    ) -> Pending[T]:
        return self._app.begin_sync(lambda client: verb(self._pick(client), *args, **kwargs))


class plain(Generic[P, T]):  # noqa: N801 - stands where a decorator stands
    """A verb whose answer is waited for."""

    def __init__(self, verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._verb = verb
        self.__doc__ = verb.__doc__

    @overload
    def __get__(self, verbs: None, owner: type) -> Self: ...
    @overload
    def __get__(self, verbs: SyncVerbs, owner: type) -> Callable[P, T]: ...
    def __get__(self, verbs: SyncVerbs | None, owner: type) -> Self | Callable[P, T]:
        if verbs is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return verbs._begin(self._verb, *args, **kwargs).wait()

        return update_wrapper(call, self._verb.__get__(verbs))


class SyncQueueVerbs(SyncVerbs):
    """Read queues, pause, resume and tune them."""

    all = plain(QueueVerbs.all)
    apply = plain(QueueVerbs.apply)
    pause = plain(QueueVerbs.pause)
    resume = plain(QueueVerbs.resume)
    pause_all = plain(QueueVerbs.pause_all)
    resume_all = plain(QueueVerbs.resume_all)
    all_paused = plain(QueueVerbs.all_paused)
    tune = plain(QueueVerbs.tune)


class SyncTaskVerbs(SyncVerbs):
    """Pause tasks and resume them."""

    paused = plain(TaskVerbs.paused)
    known = plain(TaskVerbs.known)
    unknown = plain(TaskVerbs.unknown)
    apply = plain(TaskVerbs.apply)
    pause = plain(TaskVerbs.pause)
    resume = plain(TaskVerbs.resume)


class SyncWorkerVerbs(SyncVerbs):
    """Read who is working, and tell workers to leave."""

    all = plain(WorkerVerbs.all)
    named = plain(WorkerVerbs.named)
    drain = plain(WorkerVerbs.drain)
    left = plain(WorkerVerbs.left)


class SyncAuditVerbs(SyncVerbs):
    """Read who changed what."""

    page = plain(AuditVerbs.page)


class SyncKeyVerbs(SyncVerbs):
    """What is asked about the keys that encrypt."""

    status = plain(KeyVerbs.status)


class SyncClient(SyncVerbs):
    """Every verb of `Client`, without `await`."""

    def __init__(self, app: Begins) -> None:
        super().__init__(app, lambda client: client)
        self.queues = SyncQueueVerbs(app, lambda client: client.queues)
        self.tasks = SyncTaskVerbs(app, lambda client: client.tasks)
        self.workers = SyncWorkerVerbs(app, lambda client: client.workers)
        self.audit = SyncAuditVerbs(app, lambda client: client.audit)
        self.keys = SyncKeyVerbs(app, lambda client: client.keys)

    @cached_property
    def schedules(self) -> SyncScheduleVerbs:
        """The verbs on schedules, imported with their first use as `Client.schedules` is."""
        from holdfast.client.sync_nouns import SyncScheduleVerbs

        return SyncScheduleVerbs(self._app, lambda client: client.schedules)

    @cached_property
    def limits(self) -> SyncLimitVerbs:
        """The verbs on limits."""
        from holdfast.client.sync_nouns import SyncLimitVerbs

        return SyncLimitVerbs(self._app, lambda client: client.limits)

    @cached_property
    def signals(self) -> SyncSignalVerbs:
        """The verbs on signals, imported with their first use as `Client.signals` is."""
        from holdfast.client.sync_nouns import SyncSignalVerbs

        return SyncSignalVerbs(self._app, lambda client: client.signals)

    @cached_property
    def streams(self) -> SyncStreamVerbs:
        """The verbs on streams, imported with their first use as `Client.streams` is."""
        from holdfast.client.sync_nouns import SyncStreamVerbs

        return SyncStreamVerbs(self._app, lambda client: client.streams)

    @cached_property
    def operations(self) -> SyncOperationVerbs:
        """The verbs on operations, imported with their first use as `Client.operations` is."""
        from holdfast.client.sync_nouns import SyncOperationVerbs

        return SyncOperationVerbs(self._app, lambda client: client.operations)

    @cached_property
    def failures(self) -> SyncFailureVerbs:
        """The verbs on failures, imported with their first use as `Client.failures` is."""
        from holdfast.client.sync_nouns import SyncFailureVerbs

        return SyncFailureVerbs(self._app, lambda client: client.failures)

    @cached_property
    def telemetry(self) -> SyncTelemetryVerbs:
        """What the store tells others, imported with its first use as `Client.telemetry` is."""
        from holdfast.client.sync_nouns import SyncTelemetryVerbs

        return SyncTelemetryVerbs(self._app, lambda client: client.telemetry)

    insert = plain(Client.insert)
    insert_many = plain(Client.insert_many)
    get = plain(Client.get)
    page = plain(Client.page)
    count = plain(Client.count)
    explain = plain(Client.explain)
    steps = plain(Client.steps)
    answer = plain(Client.answer)
    tokens = plain(Client.tokens)
    life = plain(Client.life)
    reveal = plain(Client.reveal)
    apply = plain(Client.apply)
    cancel = plain(Client.cancel)
    requeue = plain(Client.requeue)
    reprioritise = plain(Client.reprioritise)
    move = plain(Client.move)
    reschedule = plain(Client.reschedule)
    edit = plain(Client.edit)
    resume = plain(Client.resume)
    delete = plain(Client.delete)
    apply_all = plain(Client.apply_all)
    cancel_all = plain(Client.cancel_all)
    requeue_all = plain(Client.requeue_all)
    delete_all = plain(Client.delete_all)
    move_all = plain(Client.move_all)
    reprioritise_all = plain(Client.reprioritise_all)
    reschedule_all = plain(Client.reschedule_all)
    resume_all = plain(Client.resume_all)

    def result(self, job_id: str, timeout: Seconds | None = None) -> Any:
        """The result as a JSON value, once the job has succeeded; a typed error otherwise."""
        return self._result(Client.result, job_id, timeout)

    def result_json(self, job_id: str, timeout: Seconds | None = None) -> str | None:
        """The result as JSON text, once the job has succeeded; a typed error otherwise."""
        return self._result(Client.result_json, job_id, timeout)

    def _result(
        self,
        verb: Callable[[Client, str, Seconds | None], Coroutine[Any, Any, T]],
        job_id: str,
        timeout: Seconds | None,
    ) -> T:
        """The client counts the timeout on its loop. A blocked loop cannot, so this thread does."""
        seconds = None if timeout is None else checks.wait("timeout", timeout)
        pending = self._begin(verb, job_id, seconds)
        try:
            return pending.wait(None if seconds is None else seconds + SLACK_SECONDS)
        except ResultTimeout:
            raise
        except TimeoutError:
            raise ResultTimeout(job_id, seconds or 0.0, None) from None
