"""The way from a context to the worker that runs its attempt."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol

from holdfast.errors import HoldfastError
from holdfast.job.requests import Answer, Request

StopReason = Literal["cancel", "timeout", "deadline", "hand_back", "lost"]
STOP_CHECK_SECONDS = 0.1
"""How soon a thread that waits sees that its attempt should stop."""


class AttemptLost(HoldfastError):
    """The attempt is no longer this worker's own: what it writes is refused."""

    def __init__(self, job_id: str, fence: int) -> None:
        super().__init__(
            f"job {job_id}: the attempt with fence {fence} was taken away (its lease or its "
            "time ran out, or it was ended); stop here, whatever it still writes is refused"
        )
        self.job_id = job_id
        self.fence = fence


class AttemptLink(Protocol):
    """The way from a context to the worker (or the test) that runs its attempt."""

    @property
    def must_stop(self) -> bool:
        """Cancel was requested, the attempt is lost or out of time, or the worker leaves."""
        ...

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it must stop; None while it may go on."""
        ...

    @property
    def is_over(self) -> bool:
        """The attempt is lost, or was ended without waiting for its handler."""
        ...

    async def ask(self, request: Request) -> Answer:
        """Send one request, and wait for its answer."""
        ...

    def ask_sync(self, request: Request) -> Answer:
        """The same for a handler outside the event loop."""
        ...

    async def finish_within(self, connection: object, result: object) -> bool:
        """End the attempt as succeeded in the open transaction of this connection. False if the
        attempt is not this worker's any more."""
        ...

    def finish_within_sync(self, connection: object, result: object) -> bool:
        """The same for a handler outside the event loop."""
        ...


def pause_in_thread(check_stop: Callable[[], None], seconds: float) -> None:
    """Wait in this thread. A stop cannot wake a thread, so the wait calls `check_stop` now and
    then, which raises when the attempt should stop."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        check_stop()
        time.sleep(min(left, STOP_CHECK_SECONDS))
