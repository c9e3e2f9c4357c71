"""What a store must do: small Protocols, one per noun, bundled by `Store`.

Rules that hold for every verb, on every backend:

- A verb takes a batch and applies it atomically, in one round trip where the
  backend can; an empty batch does nothing. Answers come in the order asked.
- Times that decide anything come from the store's clock (`Store.now`); a
  `ManualClock` given at opening replaces it everywhere.
- A job is in exactly one place at any committed moment. Moves are guarded by
  the job's fence; a refused move changes nothing and says what is true.
- A verb that finds the store out of reach raises `StoreUnavailable`; all verbs
  may be repeated after that, because each is idempotent or guarded.
- A store that answers and cannot serve (login, grants, schema, memory) raises
  `StoreRefuses`. `RowRefused` means that a value in the batch cannot be stored,
  and nothing else: who gets it may give that row up.
- Sweeps take `after`, an opaque cursor (the last id of the page before), so
  that one item which cannot be mended never hides those behind it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from holdfast.store.contract.audit import Audit
from holdfast.store.contract.failures import Failures
from holdfast.store.contract.flows import Flows
from holdfast.store.contract.health import Health
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.limits import Limits
from holdfast.store.contract.operations import Operations
from holdfast.store.contract.queues import Queues
from holdfast.store.contract.records import Capability
from holdfast.store.contract.schedules import Schedules
from holdfast.store.contract.shelf import Shelf
from holdfast.store.contract.signals import Signals
from holdfast.store.contract.steps import Steps
from holdfast.store.contract.streams import Streams
from holdfast.store.contract.telemetry import Telemetry
from holdfast.store.contract.wakeups import Wakeups
from holdfast.store.contract.workers import Workers


class Store(Protocol):
    """One opened store. The composition root opens it; everything else receives it."""

    @property
    def jobs(self) -> Jobs: ...
    @property
    def queues(self) -> Queues: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def flows(self) -> Flows: ...
    @property
    def steps(self) -> Steps: ...
    @property
    def signals(self) -> Signals: ...
    @property
    def streams(self) -> Streams: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def operations(self) -> Operations: ...
    @property
    def shelf(self) -> Shelf: ...
    @property
    def telemetry(self) -> Telemetry: ...
    @property
    def failures(self) -> Failures: ...
    @property
    def wakeups(self) -> Wakeups: ...
    @property
    def health(self) -> Health: ...
    @property
    def kind(self) -> str: ...
    @property
    def capabilities(self) -> frozenset[Capability]: ...
    @property
    def durability(self) -> str:
        """What a crash can and cannot lose, in a sentence for people."""
        ...

    async def open(self) -> None:
        """Connect and check the schema (SQLite migrates itself)."""
        ...

    async def close(self) -> None:
        """Give back every connection and thread. Safe to call twice."""
        ...

    def sibling(self) -> Store:
        """A second, unopened store on the same data with connections of its own, for a
        thread whose loop must not depend on this one (the heartbeat)."""
        ...

    async def now(self) -> datetime:
        """The store's clock, aware UTC."""
        ...

    async def migrate(self) -> list[str]:
        """Apply what is missing, in order; returns the names applied. Safe to run from
        several processes at once, and on a store that is not opened yet."""
        ...

    def migration_sql(self) -> str:
        """All migrations as one script, to be read or run by hand."""
        ...
