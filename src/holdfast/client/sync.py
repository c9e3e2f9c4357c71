"""The verbs of the client for programs without an event loop: `app.sync.count(queue="mail")`.

Each verb is taken from its asynchronous class, with its parameters, its result type and its
docstring. Nothing is written twice, and a type checker sees the same signature without `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from holdfast.client.audit import AuditVerbs
from holdfast.client.client import Client
from holdfast.client.portal import Pending, Verb
from holdfast.client.queues import QueueVerbs
from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.tasks import TaskVerbs
from holdfast.client.workers import WorkerVerbs
from holdfast.enqueue.options import Seconds
from holdfast.errors import ResultTimeout
from holdfast.job import checks

P = ParamSpec("P")
T = TypeVar("T")

SLACK_SECONDS = 1.0
"""How much later than its timeout a wait for a result ends if the loop it needs is blocked."""


class Begins(Protocol):
    """Starts a verb of the client on the loop of another thread (an `App`)."""

    def begin_sync(self, verb: Verb[T]) -> Pending[T]: ...


class _SyncVerbs:
    """Verbs of one noun. `pick` finds the asynchronous verbs of that noun on a client."""

    def __init__(self, app: Begins, pick: Callable[[Client], Any]) -> None:
        self._app = app
        self._pick = pick

    def _begin(
        self, verb: Callable[..., Coroutine[Any, Any, T]], *args: object, **kwargs: object
    ) -> Pending[T]:
        return self._app.begin_sync(lambda client: verb(self._pick(client), *args, **kwargs))


class _plain(Generic[P, T]):  # noqa: N801 - stands where a decorator stands
    """A verb whose answer is waited for."""

    def __init__(self, verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._verb = verb
        self.__doc__ = verb.__doc__

    @overload
    def __get__(self, verbs: None, owner: type) -> Self: ...
    @overload
    def __get__(self, verbs: _SyncVerbs, owner: type) -> Callable[P, T]: ...
    def __get__(self, verbs: _SyncVerbs | None, owner: type) -> Self | Callable[P, T]:
        if verbs is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return verbs._begin(self._verb, *args, **kwargs).wait()

        return update_wrapper(call, self._verb.__get__(verbs))


class SyncQueueVerbs(_SyncVerbs):
    """Read queues, pause, resume and tune them."""

    all = _plain(QueueVerbs.all)
    apply = _plain(QueueVerbs.apply)
    pause = _plain(QueueVerbs.pause)
    resume = _plain(QueueVerbs.resume)
    pause_all = _plain(QueueVerbs.pause_all)
    resume_all = _plain(QueueVerbs.resume_all)
    all_paused = _plain(QueueVerbs.all_paused)
    tune = _plain(QueueVerbs.tune)


class SyncTaskVerbs(_SyncVerbs):
    """Pause tasks and resume them."""

    paused = _plain(TaskVerbs.paused)
    apply = _plain(TaskVerbs.apply)
    pause = _plain(TaskVerbs.pause)
    resume = _plain(TaskVerbs.resume)


class SyncScheduleVerbs(_SyncVerbs):
    """Create, change, question and run schedules."""

    all = _plain(ScheduleVerbs.all)
    get = _plain(ScheduleVerbs.get)
    create = _plain(ScheduleVerbs.create)
    edit = _plain(ScheduleVerbs.edit)
    apply = _plain(ScheduleVerbs.apply)
    pause = _plain(ScheduleVerbs.pause)
    resume = _plain(ScheduleVerbs.resume)
    delete = _plain(ScheduleVerbs.delete)
    trigger = _plain(ScheduleVerbs.trigger)
    preview = _plain(ScheduleVerbs.preview)
    history = _plain(ScheduleVerbs.history)
    backfill = _plain(ScheduleVerbs.backfill)


class SyncWorkerVerbs(_SyncVerbs):
    """Read who is working."""

    all = _plain(WorkerVerbs.all)


class SyncAuditVerbs(_SyncVerbs):
    """Read who changed what."""

    page = _plain(AuditVerbs.page)


class SyncClient(_SyncVerbs):
    """Every verb of `Client`, without `await`."""

    def __init__(self, app: Begins) -> None:
        super().__init__(app, lambda client: client)
        self.queues = SyncQueueVerbs(app, lambda client: client.queues)
        self.tasks = SyncTaskVerbs(app, lambda client: client.tasks)
        self.schedules = SyncScheduleVerbs(app, lambda client: client.schedules)
        self.workers = SyncWorkerVerbs(app, lambda client: client.workers)
        self.audit = SyncAuditVerbs(app, lambda client: client.audit)

    insert = _plain(Client.insert)
    insert_many = _plain(Client.insert_many)
    get = _plain(Client.get)
    page = _plain(Client.page)
    count = _plain(Client.count)
    explain = _plain(Client.explain)
    apply = _plain(Client.apply)
    cancel = _plain(Client.cancel)
    requeue = _plain(Client.requeue)
    reprioritise = _plain(Client.reprioritise)
    move = _plain(Client.move)
    reschedule = _plain(Client.reschedule)
    edit = _plain(Client.edit)
    resume = _plain(Client.resume)
    delete = _plain(Client.delete)
    apply_all = _plain(Client.apply_all)
    cancel_all = _plain(Client.cancel_all)
    requeue_all = _plain(Client.requeue_all)
    delete_all = _plain(Client.delete_all)
    move_all = _plain(Client.move_all)
    reprioritise_all = _plain(Client.reprioritise_all)
    reschedule_all = _plain(Client.reschedule_all)
    resume_all = _plain(Client.resume_all)

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
