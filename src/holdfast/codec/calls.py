"""What an enqueuing program needs of a task's codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class CallCodec(Protocol):
    """How the calls of a task become JSON, and how its results come back."""

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The JSON object `{parameter: value}` to store."""
        ...

    def check(self, text: str) -> None:
        """Refuse arguments that come as JSON and do not fit."""
        ...

    def decode_result(self, text: str) -> Any: ...
