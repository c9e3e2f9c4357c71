"""PgQueuer with a hundred entrypoints, each of which lets five run at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from bench.peers.scripts.pgqueuer import PgQueuerPeer


class HundredLimits(PgQueuerPeer):
    entrypoints = tuple(f"noop-{n}" for n in range(100))
    options: ClassVar[Mapping[str, int]] = {"concurrency_limit": 5}
