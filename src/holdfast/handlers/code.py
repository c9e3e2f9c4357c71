"""Which code a worker runs, as one short text, so that others know whether theirs is the same."""

from __future__ import annotations

import re
from hashlib import blake2b
from types import CodeType

import msgspec

from holdfast.codec.parameters import is_required
from holdfast.codec.signature import Signature
from holdfast.handlers.registry import Handler, Registry

DIGEST_BYTES = 8
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def code_of(registry: Registry) -> str:
    """A digest of what all tasks take and do. Programs of one release have the same, whichever
    process asks, and in whichever order they declare their tasks."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for name in sorted(registry):
        handler = registry[name]
        digest.update(f"\n{name}: {form_of(handler.signature)}".encode("utf-8", "replace"))
        digest.update(_body(handler))
    return digest.hexdigest()


def form_of(signature: Signature) -> str:
    """What a task takes. The schema says it down to the fields of the program's own classes; where
    there is none, the annotations must do. Defaults say nothing of what can be read."""
    schema = signature.schema()
    if schema is not None:
        return msgspec.json.encode(schema, order="deterministic").decode()
    return " ".join(
        f"{one.name}{'' if is_required(one) else '?'}: {_ADDRESS.sub('', repr(one.annotation))}"
        for one in signature.parameters.parameters.values()
    )


def _body(handler: Handler) -> bytes:
    """A class of another library may change what it reads while the task takes it as before. Most
    releases change some function too."""
    code = getattr(handler.function, "__code__", None)
    return code.co_code if isinstance(code, CodeType) else b""
