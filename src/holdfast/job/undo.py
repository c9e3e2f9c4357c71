"""Which task undoes what was done, as it is kept with a step or a node."""

from __future__ import annotations

import msgspec


class Undo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task that undoes: `param` is its parameter that gets the result of what is undone."""

    task: str
    param: str
    queue: str
    policy: str
    priority: int = 0
    tags: tuple[str, ...] = ()
    headers: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Undo)


def encode_undo(undo: Undo) -> str:
    return _encoder.encode(undo).decode()


def decode_undo(text: str) -> Undo:
    return _decoder.decode(text)
