"""One `initdb` for all Postgres servers of a run.

It takes half a second of CPU, and a run starts some twenty servers. What it makes is the same each
time, so the first server of a run makes it and leaves a copy, which the others take: a tenth of the
time. A server of other programs has a copy of its own. Programs that tests start make theirs.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from pathlib import Path

from holdfast.testing.servers import ThrowawayPostgres

_make_data = ThrowawayPostgres._make_data


def copy_data_from(folder: Path) -> None:
    """Whoever comes first leaves the copy in this folder, which all processes of the run share."""

    def made_or_copied(server: ThrowawayPostgres) -> None:
        programs = str(server._binaries.folder).encode()
        copy = folder / f"postgres-{hashlib.sha256(programs).hexdigest()[:8]}"
        with copy.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not copy.exists():
                _make_data(server)
                _copy(server.data, half := copy.with_suffix(".half"))
                half.rename(copy)
                return
        _copy(copy, server.data)

    ThrowawayPostgres._make_data = made_or_copied  # type: ignore[assignment,method-assign]


def _copy(source: Path, target: Path) -> None:
    """With owners and modes: Postgres refuses data that others may read."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
