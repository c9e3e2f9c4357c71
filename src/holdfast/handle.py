"""What an enqueue answers with: a handle on the job, by which its caller follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from holdfast.enqueue.options import Seconds
from holdfast.errors import Refused
from holdfast.handlers.eager import EagerJobs
from holdfast.job.ids import JobId
from holdfast.job.record import How, Inserted, Job
from holdfast.job.signal import Sent
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.sync import SyncClient
    from holdfast.insights.life import Life
    from holdfast.job.stream import Frame

R = TypeVar("R", covariant=True)


class FollowsJobs(Protocol):
    """What a handle needs of the app."""

    @property
    def client(self) -> Client: ...
    @property
    def sync(self) -> SyncClient: ...
    @property
    def eager_jobs(self) -> EagerJobs: ...


class HasResults(Protocol[R]):
    """What a handle needs of the task of its job."""

    @property
    def name(self) -> str: ...
    @property
    def app(self) -> FollowsJobs: ...
    def read_result(self, text: str | None) -> R: ...


class JobHandle(msgspec.Struct, Generic[R], eq=False):
    """One enqueued job: its id, how the enqueue went, and its result once there is one.

    `created` is False if another job held the unique key and the handle is on that job.
    """

    _task: HasResults[R]
    _inserted: Inserted

    @property
    def id(self) -> JobId:
        return self._inserted.id

    @property
    def how(self) -> How:
        return self._inserted.how

    def __repr__(self) -> str:
        return f"<{self._task.name} job {self.id} ({self.how})>"

    @property
    def created(self) -> bool:
        return self.how in ("created", "replaced")

    async def result(self, timeout: Seconds | None = None) -> R:
        """Wait for the job to end. Returns what the function returned; raises a typed error if
        the job ended without a result."""
        return self._task.read_result(await self.result_json(timeout))

    async def result_json(self, timeout: Seconds | None = None) -> str | None:
        """The same as JSON text."""
        if (ran := self._ran) is not None:
            return _result_at_once(ran)
        return await self._task.app.client.result_json(self.id, timeout)

    async def get(self) -> Job:
        """Everything the store holds about the job."""
        return self._ran or await self._task.app.client.get(self.id)

    async def life(self) -> Life:
        """Everything that happened to the job."""
        if (ran := self._ran) is not None:
            return _life_at_once(ran)
        return await self._task.app.client.life(self.id)

    async def cancel(self) -> JobState:
        """Cancel the job: a waiting job ends now, a running job is told to. Returns its state."""
        if (ran := self._ran) is not None:
            return ran.state
        return await self._task.app.client.cancel(self.id)

    async def signal(self, name: str, value: Any = None, *, key: str | None = None) -> Sent:
        """Send a signal to the job: see `client.signals.send`."""
        if (ran := self._ran) is not None:
            raise _ended_at_once(ran)
        return await self._task.app.client.signals.send(self.id, name, value, key=key)

    async def stream(
        self, name: str, *, after: str | None = None, follow: bool = True
    ) -> AsyncIterator[Frame]:
        """The frames of a stream of the job as they come: see `client.streams.follow`. A job that
        ran where it was enqueued has none."""
        if self._ran is None:
            streams = self._task.app.client.streams
            async for frame in streams.follow(self.id, name, after=after, follow=follow):
                yield frame

    def result_sync(self, timeout: Seconds | None = None) -> R:
        """`result` for programs without an event loop."""
        ran, sync = self._ran, self._task.app.sync
        text = sync.result_json(self.id, timeout) if ran is None else _result_at_once(ran)
        return self._task.read_result(text)

    def get_sync(self) -> Job:
        """`get` for programs without an event loop."""
        return self._ran or self._task.app.sync.get(self.id)

    def life_sync(self) -> Life:
        """`life` for programs without an event loop."""
        ran = self._ran
        return self._task.app.sync.life(self.id) if ran is None else _life_at_once(ran)

    def cancel_sync(self) -> JobState:
        """`cancel` for programs without an event loop."""
        if (ran := self._ran) is not None:
            return ran.state
        return self._task.app.sync.cancel(self.id)

    def signal_sync(self, name: str, value: Any = None, *, key: str | None = None) -> Sent:
        """`signal` for programs without an event loop."""
        if (ran := self._ran) is not None:
            raise _ended_at_once(ran)
        return self._task.app.sync.signals.send(self.id, name, value, key=key)

    def stream_sync(
        self, name: str, *, after: str | None = None, follow: bool = True
    ) -> Iterator[Frame]:
        """`stream` for programs without an event loop."""
        if self._ran is None:
            streams = self._task.app.sync.streams
            yield from streams.follow(self.id, name, after=after, follow=follow)

    @property
    def _ran(self) -> Job | None:
        """The job, if it ran where it was enqueued (`holdfast.worker.eager`)."""
        return self._task.app.eager_jobs.find(self.id)


def _result_at_once(ran: Job) -> str | None:
    from holdfast.client.results import result_at_once

    return result_at_once(ran)


def _ended_at_once(ran: Job) -> Refused:
    return Refused(f"job {ran.id} is {ran.state}: only a live job can be sent a signal")


def _life_at_once(ran: Job) -> Life:
    from holdfast.insights.life import life_of

    return life_of(ran, ())
