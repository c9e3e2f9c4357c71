"""A handler may fork. What its child must not be, is a second worker under the same name.

On Linux an epoll is one thing in both processes. A child that leaves tidily closes its copy of
the loop, and everything that this unregisters is no longer heard by the parent: threads that
come back, signals, answers of the store. So each epoll of the child is replaced by an empty one.
And a child that comes out of its handler has nothing left to do: it ends there.
"""

from __future__ import annotations

import os
import select
import traceback
from contextlib import suppress
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")
EPOLL = "anon_inode:[eventpoll]"

process = os.getpid()
"""This process, without a call to the system: a look after every job must cost nothing."""


def part_from_parent() -> None:
    """In the child. Where there is no such folder, nothing of the kind is inherited either."""
    with suppress(OSError):
        for link in DESCRIPTORS.iterdir():
            with suppress(OSError):
                if str(link.readlink()) == EPOLL:
                    _replace(int(link.name))


def leave(error: BaseException | None) -> None:
    """End the child as a program would that ends like this."""
    match error:
        case None | SystemExit(code=None):
            os._exit(0)
        case SystemExit(code=int(code)):
            os._exit(code)
    traceback.print_exception(error)
    os._exit(1)


def _replace(descriptor: int) -> None:
    with select.epoll() as empty:
        os.dup2(empty.fileno(), descriptor, inheritable=False)


def _in_child() -> None:
    global process
    process = os.getpid()


os.register_at_fork(after_in_child=_in_child)
