"""What all verbs on jobs share: the connections, and where claims may start to scan."""

from __future__ import annotations

from datetime import datetime

from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.skip_points import SkipPoints


class JobVerbs:
    """The base of each part of `PostgresJobs`. A verb that may put a job in front of where the
    last claim began makes the skip points forget."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel
        self._skip_points = SkipPoints()

    def _now(self) -> datetime | None:
        """The time to believe: None, or what a test's clock says."""
        return self._connections.clock.override()
