"""What every server for tests offers, whatever its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ServerFailed(RuntimeError):
    """A command on a test server failed; carries what it said."""

    def __init__(self, attempt: str, output: str) -> None:
        super().__init__(f"{attempt} failed:\n{output.strip()}")
        self.output = output


class ServerForTests(ABC):
    """A server that serves inside a `with` block."""

    @abstractmethod
    def start(self) -> None:
        """Serve, or leave nothing behind. Safe to call twice."""

    @abstractmethod
    def stop(self) -> None:
        """Leave nothing behind. Safe to call twice."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
