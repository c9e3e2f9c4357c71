"""What every part of one worker is given, as one object."""

from __future__ import annotations

from functools import cached_property

import msgspec

from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.events import Events
from holdfast.handlers.code import code_of
from holdfast.handlers.registry import Registry
from holdfast.store.contract.store import Store
from holdfast.worker.options import WorkerOptions


class WorkerSetup(msgspec.Struct, frozen=True, dict=True):
    """The same store, tasks, options and events for all parts of a worker. They also share one
    `outage`, so that a store out of reach is reported once, whichever part notices it first."""

    store: Store
    registry: Registry
    options: WorkerOptions
    events: Events
    outage: Outage
    replicas: Replicas

    @cached_property
    def code(self) -> str:
        """Which code this worker runs. It takes a while to find out, so it is asked for only by a
        thread that keeps nobody waiting, or for a job whose arguments do not fit."""
        return code_of(self.registry)
