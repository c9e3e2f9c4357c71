"""PgQueuer with a limit that holds nobody up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from bench.peers.scripts.pgqueuer import PgQueuerPeer


class OneLimit(PgQueuerPeer):
    options: ClassVar[Mapping[str, int]] = {"concurrency_limit": 1_000}
