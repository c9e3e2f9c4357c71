"""How often reconcilers sweep, how much they take at once, and for which worker they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.job import checks
from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.job.policy import DAY

if TYPE_CHECKING:
    from holdfast.encryption.keyring import Keyring


def _nobody() -> None:
    """No worker runs in this process."""


class ReconcileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of all reconcilers, in seconds unless the name says otherwise.

    The defaults keep a lone idle replica below one statement a second. Polls of the worker wake
    `lapsed_leases` when a worker has died, and `errands` while there are some. `promotion` and
    `deadline` sleep until the next due time, at most for their interval; if something is due
    earlier, a poll wakes them. In a fleet each replica waits longer (`Replicas`).

    `owner` is the name under which leadership is held. `worker` gives the id of this process's
    worker at this moment: a worker that lost its lease gets a new id. `signing_keys` prove votes.
    """

    batch: int = 500
    lapsed_leases: float = 5.0
    attempt_timeout: float = 10.0
    timeout_slack: float = 5.0
    deadline: float = 30.0
    promotion: float = 30.0
    retention: float = 60.0
    tally: float = 10.0
    rollup: float = 30.0
    errands: float = 30.0
    flow_drift: float = 30.0
    parent_drift: float = 30.0
    signal_drift: float = 30.0
    votes: float = 30.0
    unserved: float = 30.0
    stream_trim: float = 60.0
    live_kept: float = 60.0
    buckets: float = 30.0
    budgets: float = 30.0
    worker_registry: float = 30.0
    worker_kept: float = 60.0
    audit_kept: float = 90 * DAY
    operations_kept: float = 7 * DAY
    failures_kept: float = 90 * DAY
    most_failures: int = 2_000
    grace: float = 10.0
    owner: WorkerId = msgspec.field(default_factory=new_worker_id)
    worker: Callable[[], WorkerId | None] = _nobody
    signing_keys: Keyring | None = None

    def __post_init__(self) -> None:
        checks.count("reconcile.batch", self.batch)
        checks.count("reconcile.most_failures", self.most_failures)
        for name, kind in self.__annotations__.items():
            if kind == "float":
                zero, value = name in _MAY_BE_ZERO, getattr(self, name)
                checks.seconds(f"reconcile.{name}", value, zero=zero)


_MAY_BE_ZERO = frozenset({"timeout_slack", "worker_kept", "grace"})
