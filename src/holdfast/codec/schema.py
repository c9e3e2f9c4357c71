"""The JSON Schema of a task's arguments, for forms and for people without the task's code.

It holds no default of a field: a default may be a secret, and the code says it anyway.
"""

from __future__ import annotations

from typing import Any

import msgspec

_LEFT_OUT = frozenset({"default", "examples"})
_MAPS = frozenset({"properties", "$defs"})
"""What stands in these is named by the program, and may be called anything."""
_SCALARS: tuple[tuple[type, str], ...] = (
    *((str, "string"), (bool, "boolean"), (int, "integer"), (float, "number")),
)


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any] | None:
    """The schema; None if msgspec has no words for a type. A parameter that another library reads
    is described as anything."""
    try:
        whole = msgspec.json.schema(arguments, schema_hook=_described)
        bare: dict[str, Any] = _bare(whole, is_map=False)
        return bare
    except Exception:  # noqa: BLE001 - a class of the user may break what describes it
        return None


def _described(kind: Any) -> dict[str, Any]:
    for base, word in _SCALARS:
        if isinstance(kind, type) and issubclass(kind, base):
            return {"type": word}
    return {"type": "string"} if hasattr(kind, "__fspath__") else {}


def _bare(schema: Any, *, is_map: bool) -> Any:
    if isinstance(schema, list):
        return [_bare(one, is_map=False) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _bare(value, is_map=not is_map and name in _MAPS)
        for name, value in schema.items()
        if is_map or name not in _LEFT_OUT
    }
