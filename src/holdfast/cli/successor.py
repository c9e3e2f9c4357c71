"""How a worker that leaves so that another takes its place becomes that other by itself.

The process runs its own command again: same process id, new code, fresh memory. So a supervisor is
not needed for it, and one that is there (systemd, Kubernetes) sees no restart and no back-off.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from pathlib import Path


class Terminal:
    """The terminal that this program was started in, if any. A closed terminal sends SIGHUP, which
    otherwise means: take new code."""

    def __init__(self) -> None:
        self._had_one = _has_terminal()

    @property
    def is_lost(self) -> bool:
        return self._had_one and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Successor:
    """Made before any code of the user is imported, so that what that code does at the exit of the
    interpreter is done before: `atexit` calls back in reverse order."""

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._terminal = Terminal()
        self.wanted = False
        atexit.register(self._begin)

    def _begin(self) -> None:
        if not self.wanted or self._terminal.is_lost:
            return
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(self._folder)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
