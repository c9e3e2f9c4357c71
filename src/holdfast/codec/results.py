"""What a function returns as JSON, typed by its return annotation."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from holdfast.codec.messages import NO_NAN, clean, unwritable
from holdfast.codec.types import Adapter, decode_custom, encode_custom, has_nan, plain
from holdfast.job.sealed import MARK, told_apart

_MARK = MARK.encode()
_ENCODER = msgspec.json.Encoder(enc_hook=encode_custom)


class Misfit(ValueError):
    """A result that JSON cannot carry, or a stored result that does not fit the annotation."""


class ResultType:
    """Writes and reads the results of one annotation. An annotation that msgspec cannot read has an
    `adapter`."""

    def __init__(self, annotation: Any, adapter: Adapter | None) -> None:
        self._adapter = adapter
        self._decoder = msgspec.json.Decoder(Raw if adapter else annotation, dec_hook=decode_custom)

    def encode(self, value: object) -> str:
        """The result as JSON. Whether it fits the annotation is not asked."""
        if value is None:
            return "null"
        try:
            adapter = self._adapter
            text = adapter.write(value) if adapter else _ENCODER.encode(value)
            lost = b"null" in text and has_nan(adapter.plain(value) if adapter else _plain(value))
        except Exception as exc:
            # Any exception: serializers are the user's code.
            raise Misfit(unwritable(exc, "use plain data, such as an id")) from exc
        if lost:
            raise Misfit(NO_NAN)
        return told_apart(text.decode()) if text.startswith(_MARK) else text.decode()

    def decode(self, text: str | bytes) -> Any:
        """A stored result, as the annotation types it."""
        try:
            value = self._decoder.decode(text)
            return self._adapter.read(bytes(value)) if self._adapter else value
        except Exception as exc:
            # Any exception: `__post_init__` and validators are the user's code.
            raise Misfit(clean(str(exc))) from exc


def _plain(value: object) -> Any:
    """What a child of a pool returns is JSON already, in which nothing was lost."""
    return None if isinstance(value, Raw) else plain(value)
