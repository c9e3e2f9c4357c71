"""How often reconcilers look, how much they take at once, and who they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from holdfast.errors import BadOption
from holdfast.job import WorkerId, new_worker_id


def _nobody() -> None:
    """No worker runs in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """Settings of all reconcilers; seconds where nothing else is said.

    The defaults keep an idle fleet below two statements a second per replica:
    only lease expiry looks that often, because nothing announces a death;
    promotion and deadline sleep until the next due time, at most their interval,
    which only matters when the wakeup that told of an earlier one was lost.
    `worker` gives the worker of this process, under whatever name it holds its lease now.
    """

    batch: int = 500
    lease_expiry: float = 1.5
    attempt_timeout: float = 10.0
    timeout_slack: float = 5.0
    deadline: float = 10.0
    promotion: float = 5.0
    retention: float = 60.0
    worker_registry: float = 30.0
    worker_kept: float = 60.0
    grace: float = 10.0
    owner: WorkerId = field(default_factory=new_worker_id)
    worker: Callable[[], WorkerId | None] = _nobody

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise BadOption("reconcile.batch", "at least 1", self.batch)
        for each in fields(self):
            if each.type == "float":
                self._require_seconds(each.name, zero=each.name in _MAY_BE_ZERO)

    def _require_seconds(self, name: str, *, zero: bool) -> None:
        seconds = getattr(self, name)
        if not 0 <= seconds < float("inf") or (seconds == 0 and not zero):
            expected = "0 or more seconds" if zero else "more than 0 seconds"
            raise BadOption(f"reconcile.{name}", expected, seconds)


_MAY_BE_ZERO = frozenset({"timeout_slack", "worker_kept", "grace"})
