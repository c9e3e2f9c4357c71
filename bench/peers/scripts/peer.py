"""What a peer's script has to offer to be measured."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module

URL = os.environ.get("PEER_URL", "")
"""An empty database, server or file."""


class Peer(ABC):
    """Verbs of synchronous queues are coroutines too, which costs them a tenth of a microsecond."""

    async def prepare(self) -> None:  # noqa: B027 - many need no schema
        """Make the schema."""

    async def open(self) -> None:  # noqa: B027 - many have nothing to open
        """Connect the client."""

    async def close(self) -> None:  # noqa: B027
        """Let go of what `open` made."""

    @abstractmethod
    async def enqueue(self, number: int) -> None:
        """One job; returns when the store has it."""

    @abstractmethod
    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """By the fastest documented way."""

    async def settle(self) -> None:  # noqa: B027 - only some stores have statistics
        """Called when the jobs are in, before the workers start."""

    @abstractmethod
    async def has_finished(self, jobs: int) -> bool:
        """Whether the store shows every job finished; asked once all handlers ran."""

    def worker_command(self) -> Sequence[str]:
        """A program of the peer's, or `work` in a process of its own."""
        module = type(self).__module__
        return (sys.executable, "-m", "bench.peers.scripts.run", module, "work", "0")

    async def work(self) -> None:
        raise RuntimeError(f"{type(self).__name__} brings its own worker program")


def peer_in(module: str) -> Peer:
    """A script's only Peer, imported by its full name so that jobs carry the same path in every
    process."""
    imported = import_module(module)
    [found] = [
        value
        for value in vars(imported).values()
        if isinstance(value, type) and value.__module__ == module and issubclass(value, Peer)
    ]
    return found()


def chunks(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
