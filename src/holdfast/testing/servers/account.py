"""Whom a server runs as.

Postgres refuses to run as root. Where the tests are root, as in most containers, its programs run
as an account without rights.
"""

import os
import pwd
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

# "nobody" exists everywhere; "postgres" wherever a package made it, and reads better in `ps`.
UNPRIVILEGED = ("postgres", "nobody", "daemon")


class Account(msgspec.Struct, frozen=True):
    """The user and group a server's programs are started as; None where they are the caller's."""

    uid: int | None = None
    gid: int | None = None

    @classmethod
    def for_servers(cls) -> "Account":
        if os.geteuid() != 0:
            return cls()
        for name in UNPRIVILEGED:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_uid, entry.pw_gid)
        raise LookupError(f"running as root, and none of {', '.join(UNPRIVILEGED)} exists")

    def temporary_folder(self) -> Path:
        """Root's own TMPDIR may be closed to others; /tmp is open to all."""
        return Path(tempfile.gettempdir()) if self.uid is None else Path("/tmp")

    def own(self, path: Path) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def run(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """Run to its end, out of reach of a Ctrl-C meant for the caller."""
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
        )

    def can_run(self, program: str) -> bool:
        try:
            return self.run([program, "--version"], cwd=Path("/"), env={}).returncode == 0
        except PermissionError:
            return False
