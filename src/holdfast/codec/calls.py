"""What an enqueuing program needs of a task's codec."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from holdfast.codec.messages import NO_NAN, clean, unwritable
from holdfast.codec.types import encode_custom, has_nan, plain
from holdfast.errors import BadArguments
from holdfast.job.sealed import told_apart

ENCODER = msgspec.json.Encoder(enc_hook=encode_custom)


class CallCodec(Protocol):
    """How the calls of a task become JSON, and how its results come back."""

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The JSON object `{parameter: value}` to store."""
        ...

    def encode_some(
        self, known: Mapping[str, Any], holed: Mapping[str, Any], later: Collection[str] = ()
    ) -> str:
        """The JSON object of a call some of whose values are still to come. Those that are known
        are proven to fit; the others have holes, or are left out (`later`), and are not."""
        ...

    def check(self, text: str) -> None:
        """Refuse arguments that come as JSON and do not fit."""
        ...

    def some(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Some arguments of a call, by the names of their parameters."""
        ...

    def has(self, text: str, name: str, value: object) -> bool:
        """Whether a stored call has this value of a parameter."""
        ...

    def decode_result(self, text: str) -> Any: ...


class UntypedCalls:
    """The codec of a task whose function is not in this program. The worker, which has the
    function, checks the arguments."""

    def __init__(self, task: str) -> None:
        self._task = task

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        self.some(args, kwargs)
        try:
            text = ENCODER.encode(kwargs)
        except Exception as exc:
            # Any exception: serializers are the user's code.
            raise BadArguments(self._task, unwritable(exc)) from exc
        if b"null" in text and has_nan(plain(kwargs)):
            raise BadArguments(self._task, NO_NAN)
        return told_apart(text.decode())

    def encode_some(
        self, known: Mapping[str, Any], holed: Mapping[str, Any], later: Collection[str] = ()
    ) -> str:
        return self.encode((), {**known, **holed})

    def some(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if args:
            problem = "its function is not in this program: give arguments by name"
            raise BadArguments(self._task, f"{problem}, such as enqueue(to=…)")
        return dict(kwargs)

    def has(self, text: str, name: str, value: object) -> bool:
        stored = msgspec.json.decode(text, type=dict[str, Any])
        if name not in stored:
            return False
        try:
            return bool(msgspec.json.decode(ENCODER.encode(value)) == stored[name])
        except Exception:  # noqa: BLE001 - an object that only lives in this program
            return bool(value == stored[name])

    def check(self, text: str) -> None:
        try:
            msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError) as exc:
            problem = f"the arguments are not a JSON object: {clean(str(exc))}"
            raise BadArguments(self._task, problem) from exc

    def decode_result(self, text: str) -> Any:
        return msgspec.json.decode(text)
