"""The msgspec Structs into which the arguments of a task are bound and read, made from its
parameters. Types that msgspec does not know go through an adapter."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, ValidationError

from holdfast.codec.parameters import POSITIONAL, is_required
from holdfast.codec.types import Adapter, adapter_for, decode_custom, encode_custom, unsupported
from holdfast.errors import BadTask

_SCALARS = (types.NoneType, bool, int, float, str, bytes)
ENCODER = msgspec.json.Encoder(enc_hook=encode_custom)


def arguments_struct(
    task: str,
    parameters: Sequence[Parameter],
    adapters: Mapping[str, Adapter],
    default_of: Callable[[Parameter], Any],
) -> type[Struct]:
    """A Struct that binds arguments as the function does: keyword-only fields come last."""

    def fields(positional: bool) -> list[Any]:
        return [
            (p.name, kind) if is_required(p) else (p.name, kind, default_of(p))
            for p in parameters
            if (p.kind in POSITIONAL) is positional
            for kind in [Raw if p.name in adapters else p.annotation]
        ]

    try:
        base = msgspec.defstruct("Arguments", fields(True), forbid_unknown_fields=True, gc=False)
        return msgspec.defstruct("Arguments", fields(False), bases=(base,), kw_only=True)
    except (TypeError, RuntimeError) as exc:
        raise BadTask(task, f"{exc}: rename the parameter") from exc


def own_default(parameter: Parameter) -> Any:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return ()
    if parameter.kind is Parameter.VAR_KEYWORD:
        return msgspec.field(default_factory=dict)
    if type(parameter.default) in _SCALARS:
        return parameter.default
    # A factory gives the same object as a plain call would. msgspec itself would copy a mutable
    # default, or refuse it.
    return msgspec.field(default_factory=lambda: parameter.default)


def reader_of(
    arguments: type[Struct], adapters: Mapping[str, Adapter]
) -> Callable[[str | bytes], Struct]:
    """Reads JSON into this Struct: in C, unless a parameter has an adapter."""
    decode = msgspec.json.Decoder(arguments, dec_hook=decode_custom).decode
    return partial(_read_adapted, decode, adapters) if adapters else decode


def _read_adapted(
    decode: Callable[[str | bytes], Struct], adapters: Mapping[str, Adapter], text: str | bytes
) -> Struct:
    arguments = decode(text)
    for name, adapter in adapters.items():
        raw = getattr(arguments, name)
        if isinstance(raw, Raw):
            setattr(arguments, name, _adapted(name, adapter, raw))
    return arguments


def _adapted(name: str, adapter: Adapter, raw: Raw) -> Any:
    try:
        return adapter.read(bytes(raw))
    except ValueError as exc:
        raise ValidationError(f"{exc} - at `$.{name}`") from exc


def passed(sent: Struct) -> dict[str, Any]:
    """The arguments that were given, by the names of their parameters."""
    values = zip(sent.__struct_fields__, msgspec.structs.astuple(sent), strict=True)
    return {name: value for name, value in values if value is not UNSET}


def is_plain(parameter: Parameter) -> bool:
    """Whether JSON brings its values as they are, its default included."""
    is_one = parameter.kind in (*POSITIONAL, Parameter.KEYWORD_ONLY)
    return (
        is_one
        and parameter.annotation in (int, str)
        and (is_required(parameter) or type(parameter.default) in (int, str, types.NoneType))
    )


def adapters_of(task: str, parameters: Sequence[Parameter]) -> dict[str, Adapter]:
    found = {p.name: adapter_of(task, f"parameter {p.name!r}", p.annotation) for p in parameters}
    return {name: adapter for name, adapter in found.items() if adapter}


def adapter_of(task: str, where: str, annotation: Any) -> Adapter | None:
    """The adapter that an annotation needs, or None. Refuses an annotation that cannot be read
    back from JSON."""
    try:
        adapter = adapter_for(annotation)
    except Exception as exc:
        # Any exception: pydantic runs code of the user's classes to build its schema.
        raise BadTask(task, f"{where}: {exc}") from exc
    problem = None if adapter else unsupported(annotation)
    if problem is None:
        return adapter
    advice = "annotate what JSON can tell apart: plain data, a dataclass, tagged msgspec Structs"
    raise BadTask(task, f"{where}: {problem}: {advice}")
