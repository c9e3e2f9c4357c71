"""When to look at `PRAGMA data_version` again.

A look every few milliseconds costs an idle process 1% of a core, nearly all of it for waking
up. On Linux the kernel tells when the write-ahead log is written to (inotify), so an idle
process sleeps and still hears of a commit within a millisecond. That is only a hint: the log is
written a moment before the commit can be seen. So the watcher looks several times after a hint,
and once a second without any. On other systems, or where inotify is refused, it polls.
A watcher that dozes looks once a second only: many processes dozing on one file are not all
woken by every commit.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

from holdfast.events import logger

IN_MODIFY = 0x2
LOOK_AGAIN_SECONDS = 0.002  # for a commit whose log was written but which could not be seen yet
LOOKS = 4  # after a hint
GAP_LOOKS = 2  # looks without a hint after which the pauses are short again
DOZE_SECONDS = 1.0  # between looks without any hint
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.0005, 0.008
BRISK_PAUSE_SECONDS, CALM_PAUSE_SECONDS, BRISK_FOR_SECONDS = 0.004, 0.010, 2.0


class Changes(Protocol):
    """Tells a watcher when to look again.

    `pause` returns when it is time; `stirred` says that the last look found a change. `stop`
    ends a pause from any thread. `doze` makes the next pauses long, or short again.
    """

    def pause(self, stirred: bool) -> None: ...
    def doze(self, dozes: bool) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def changes_of(path: Path) -> Changes:
    """The best way this system has to follow the log of a database that is already open."""
    if sys.platform == "linux":
        try:
            return InotifyChanges(path.with_name(path.name + "-wal"))
        except OSError as refused:
            logger.info(
                "sqlite watcher polls instead of inotify: %s",
                refused,
                extra={"error": str(refused)},
            )
    return PolledChanges()


class PolledChanges:
    """Short pauses for two seconds after a change, longer ones then."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._calm_at = 0.0
        self._dozes = False

    def pause(self, stirred: bool) -> None:
        moment = time.monotonic()
        if stirred:
            self._calm_at = moment + BRISK_FOR_SECONDS
        awake = BRISK_PAUSE_SECONDS if moment < self._calm_at else CALM_PAUSE_SECONDS
        self._stopped.wait(DOZE_SECONDS if self._dozes else awake)

    def doze(self, dozes: bool) -> None:
        self._dozes = dozes

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._stopped.set()


class InotifyChanges:
    """Waits for the kernel's hints. While hints come without a gap the pauses grow, because a busy
    writer in the same process causes most of them itself and should not be slowed."""

    def __init__(self, log: Path) -> None:
        self._bell_lock = threading.Lock()
        self._descriptor = _inotify(log)
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._both = _poll_of(self._descriptor, self._bell)
        self._bell_alone = _poll_of(self._bell)
        self._quiet = LOOKS
        self._streak = 0
        self._dozes = False
        self._closed = False

    def pause(self, stirred: bool) -> None:
        if self._dozes:
            self._heard(DOZE_SECONDS, self._bell_alone)
        elif self._heard(LOOK_AGAIN_SECONDS if self._quiet < LOOKS else DOZE_SECONDS, self._both):
            self._quiet = 0
            time.sleep(min(SHORTEST_PAUSE_SECONDS * 2**self._streak, LONGEST_PAUSE_SECONDS))
            self._heard(
                0, self._both
            )  # hints of the sleep: the look that follows sees their writes
            self._streak = min(self._streak + 1, 8)
        else:
            self._quiet += 1
            if self._quiet >= GAP_LOOKS:
                self._streak = 0

    def stop(self) -> None:
        self._ring()

    def doze(self, dozes: bool) -> None:
        """Ends the current pause, so that the next one waits in the new way."""
        if dozes != self._dozes:
            self._dozes = dozes
            self._ring()

    def _ring(self) -> None:
        with self._bell_lock:
            if not self._closed:
                os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        with self._bell_lock:
            if not self._closed:
                self._closed = True
                os.close(self._descriptor)
                os.close(self._bell)

    def _heard(self, seconds: float, ears: select.poll) -> bool:
        heard = [descriptor for descriptor, _ in ears.poll(seconds * 1000)]
        for descriptor in heard:
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.read(descriptor, 65_536)
        return bool(heard)


def _poll_of(*descriptors: int) -> select.poll:
    """`select.select` fails in a process with many open files."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return poll


def _inotify(path: Path) -> int:
    import ctypes  # only what listens needs it, which most programs do not

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1 failed")
    if libc.inotify_add_watch(descriptor, os.fsencode(path), IN_MODIFY) < 0:
        failed = OSError(ctypes.get_errno(), "inotify_add_watch failed", str(path))
        os.close(descriptor)
        raise failed
    return descriptor
