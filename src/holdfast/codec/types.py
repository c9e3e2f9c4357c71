"""Types that msgspec cannot write or read by itself, and values that JSON would lose.

msgspec handles almost every annotation. Three kinds are left:

- classes it does not know (paths, subclasses of str or int, pydantic models nested in a
  dataclass) go through `encode_custom` and `decode_custom`;
- annotations that another library or rule must read as a whole (anything that mentions pydantic,
  an enum whose values are neither all str nor all int) go through an `Adapter`;
- everything else is refused when the task is registered, by `unsupported`.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import EnumMeta
from typing import Any, Protocol
from uuid import UUID

import msgspec

_LEAVES = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)
_SCALARS: tuple[type, ...] = (str, int, float, bytes)


class Adapter(Protocol):
    """Reads and writes one whole annotation that msgspec cannot."""

    def write(self, value: object) -> bytes: ...

    def read(self, raw: bytes) -> Any: ...

    def plain(self, value: object) -> Any:
        """The value as dicts, lists and leaves of their own type, for `loss` to compare."""


class PydanticAdapter:
    """Leaves an annotation that mentions pydantic wholly to pydantic, with its aliases, unions,
    validators, and its own forms of bytes and floats."""

    def __init__(self, annotation: Any) -> None:
        # The annotation's author has imported pydantic; Holdfast itself never does.
        self._adapter: Any = sys.modules["pydantic"].TypeAdapter(annotation)

    def write(self, value: object) -> bytes:
        # No warnings here: a value of the wrong type is reported when it is read back.
        written: bytes = self._adapter.dump_json(
            value, by_alias=True, round_trip=True, warnings=False
        )
        return written

    def read(self, raw: bytes) -> Any:
        try:
            return self._adapter.validate_json(raw)
        except ValueError as exc:
            raise ValueError(_in_short(exc)) from exc

    def plain(self, value: object) -> Any:
        return self._adapter.dump_python(value, by_alias=True, round_trip=True, warnings=False)


class EnumAdapter:
    """An enum whose values may be of any type. A member is written as its value, and read by
    looking the value up."""

    def __init__(self, kind: EnumMeta, *, optional: bool) -> None:
        self._kind = kind
        self._members: dict[bytes, Any] = {
            msgspec.json.encode(member.value): member for member in list[Any](kind)
        }
        if optional:
            self._members[b"null"] = None

    def write(self, value: object) -> bytes:
        return msgspec.json.encode(value)

    def read(self, raw: bytes) -> Any:
        try:
            return self._members[msgspec.json.encode(msgspec.json.decode(raw))]
        except KeyError:
            raise ValueError(f"expected a value of {self._kind.__name__}") from None

    def plain(self, value: object) -> Any:
        return value


def adapter_for(annotation: Any) -> Adapter | None:
    """The adapter that an annotation needs, or None if msgspec and the hooks can read it."""
    if _mentions_pydantic(annotation):
        return PydanticAdapter(annotation)
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    rest = [part for part in parts if part is not types.NoneType]
    if len(rest) == 1 and isinstance(rest[0], EnumMeta) and not _msgspec_reads(rest[0]):
        return EnumAdapter(rest[0], optional=len(parts) > 1)
    return None


def encode_custom(value: Any) -> object:
    """msgspec's `enc_hook`: the JSON form of a value of a class that msgspec does not know."""
    if _is_pydantic(type(value)):
        return value.__pydantic_serializer__.to_python(
            value, mode="json", by_alias=True, round_trip=True
        )
    if _is_path(type(value)):
        return str(value)
    for base in _SCALARS:
        if isinstance(value, base):
            return base(value)
    # msgspec writes these by itself everywhere but in the keys of a dict.
    place = " as a key" if isinstance(value, tuple | frozenset | types.NoneType) else ""
    raise TypeError(f"{type(value).__qualname__}{place} has no JSON form")


def decode_custom(kind: Any, value: Any) -> object:
    """msgspec's `dec_hook`: a value of a class that msgspec does not know. Only classes that
    `unsupported` accepts arrive here."""
    if kind is object:
        return value
    if _is_pydantic(kind):
        return _validate(kind, value)
    if _is_path(kind):
        return kind(_expect(str, value))
    base = next(base for base in _SCALARS if issubclass(kind, base))
    return kind(_expect(base, value))


def unsupported(annotation: Any) -> str | None:
    """Why an annotation cannot be read back from JSON, or None if it can."""
    try:
        msgspec.json.Decoder(annotation, dec_hook=decode_custom)
        unknown = [kind for kind in _custom_kinds(annotation) if not _is_known(kind)]
    except (TypeError, RuntimeError) as exc:
        return str(exc).replace("`", "")
    if unknown:
        return f"{getattr(unknown[0], '__qualname__', unknown[0])} has no JSON form"
    return None


def plain(value: object) -> Any:
    """A value as dicts, lists and leaves of their own type, for `loss` to compare."""
    return msgspec.to_builtins(value, builtin_types=_LEAVES, enc_hook=encode_custom)


def has_nan(value: object) -> bool:
    """Whether a plain value contains a NaN or an infinity, which msgspec would write as null."""
    import json  # only values that JSON may lose come here

    try:
        json.dumps(value, allow_nan=False, skipkeys=True, default=str)
    except ValueError:
        return True
    return False


def loss(sent: Any, arrived: Any) -> str | None:
    """How the value that arrived differs from the value that was sent, in words and without showing
    either; None if nothing is lost.

    Containers are compared by content only, because in JSON a tuple becomes a list and an object
    becomes a dict. Leaves and keys must arrive unchanged.
    """
    if isinstance(sent, dict) and isinstance(arrived, dict):
        return _loss_in_dicts(sent, arrived)
    if isinstance(sent, list | tuple) and isinstance(arrived, list | tuple):
        return _loss_in_lists(sent, arrived)
    if sent == arrived or _unequal_by_nature(sent, arrived):
        return None
    if type(sent) is type(arrived):
        return f"{_kind(sent)} would arrive changed"
    return f"{_kind(sent)} would arrive as {_kind(arrived)}"


def _unequal_by_nature(sent: Any, arrived: Any) -> bool:
    """Whether two leaves are the same although Python never calls them equal. Such leaves are a
    Decimal NaN, and a time in the hour that a clock change skips or repeats, which equals no time
    of another zone (PEP 495)."""
    if isinstance(sent, datetime) and isinstance(arrived, datetime):
        return sent.isoformat() == arrived.isoformat()
    return bool(sent != sent and arrived != arrived)


def _loss_in_dicts(sent: dict[Any, Any], arrived: dict[Any, Any]) -> str | None:
    for key, value in sent.items():
        if key in arrived:
            found = loss(value, arrived[key])
        elif isinstance(key, str):
            found = f"{key!r} would not arrive"
        else:
            found = f"a key of type {type(key).__name__} would arrive as str"
        if found:
            return found
    return None


def _loss_in_lists(sent: Sequence[Any], arrived: Sequence[Any]) -> str | None:
    if len(sent) != len(arrived):
        return f"{len(sent)} elements would arrive as {len(arrived)}"
    found = _loss_in_pairs(sent, arrived)
    # The elements of a set may come back in another order.
    if found and _loss_in_pairs(sorted(sent, key=repr), sorted(arrived, key=repr)):
        return found
    return None


def _loss_in_pairs(sent: Iterable[Any], arrived: Iterable[Any]) -> str | None:
    return next(filter(None, map(loss, sent, arrived)), None)


def _kind(value: object) -> str:
    if isinstance(value, float) and has_nan(value):
        return repr(value)
    return "None" if value is None else type(value).__name__


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _is_pydantic(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def _is_path(kind: Any) -> bool:
    # Whoever has such a class has imported pathlib; most programs need not.
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and isinstance(kind, type) and issubclass(kind, pathlib.PurePath)


def _mentions_pydantic(annotation: Any) -> bool:
    return _is_pydantic(annotation) or any(map(_mentions_pydantic, typing.get_args(annotation)))


def _msgspec_reads(kind: EnumMeta) -> bool:
    try:
        msgspec.json.Decoder(kind)
    except TypeError:
        return False
    return True


def _validate(kind: Any, value: object) -> object:
    # Through text, because pydantic's strict types take a datetime as str from JSON only.
    try:
        return kind.__pydantic_validator__.validate_json(msgspec.json.encode(value))
    except ValueError as exc:
        raise ValueError(_in_short(exc)) from exc


def _expect(base: type, value: object) -> Any:
    try:
        return msgspec.convert(value, base)
    except msgspec.ValidationError as exc:
        # msgspec adds the place in the arguments to a ValueError only.
        raise ValueError(str(exc)) from exc


def _in_short(exc: Any) -> str:
    """Pydantic's messages without links, and without the input, which may be secret."""
    if not hasattr(exc, "errors"):
        return str(exc)
    return "; ".join(
        ".".join(map(str, error["loc"])) + f": {error['msg']}" if error["loc"] else error["msg"]
        for error in exc.errors(include_url=False, include_input=False)
    )


def _is_known(kind: Any) -> bool:
    if kind is object or _is_pydantic(kind) or _is_path(kind):
        return True
    return isinstance(kind, type) and issubclass(kind, _SCALARS)


def _custom_kinds(annotation: Any) -> Iterator[Any]:
    """Every class in an annotation, at any depth, that msgspec leaves to the hooks."""
    waiting: list[Any] = [msgspec.inspect.type_info(annotation)]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend(node)
        elif isinstance(node, msgspec.inspect.Field):
            waiting.append(node.type)
        elif isinstance(node, msgspec.inspect.CustomType):
            yield node.cls
        elif isinstance(node, msgspec.inspect.Type) and id(node) not in seen:
            seen.add(id(node))
            waiting.extend(getattr(node, name) for name in node.__struct_fields__)
