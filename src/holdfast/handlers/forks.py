"""A handler may fork. Its child must not become a second worker under the same name.

On Linux parent and child share one epoll. A child that leaves tidily closes its copy of the loop,
and that unregisters the parent's descriptors too: the parent would no longer hear threads that
return, signals, or answers of the store. So each epoll of the child is replaced by an empty one.
A child that returns from its handler has nothing left to do and ends there.
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
"""The id of this process, kept so that the check after every job needs no system call."""


def part_from_parent() -> None:
    """Called in the child. Systems without this folder have no epoll to inherit."""
    with suppress(OSError):
        for link in DESCRIPTORS.iterdir():
            with suppress(OSError):
                if str(link.readlink()) == EPOLL:
                    _replace(int(link.name))


def leave(error: BaseException | None) -> None:
    """End the child with the exit code of a program that ends with this error."""
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
