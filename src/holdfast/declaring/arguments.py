"""The arguments of a node, some of which may be outputs of other nodes.

An output has no value yet: the worker puts it in. So a call is written with the outputs left out,
and each output is known by its path among the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Raw

from holdfast.codec.parameters import POSITIONAL
from holdfast.codec.signature import Signature
from holdfast.declaring.nodes import MapNode, Node, NodeGroup, Output
from holdfast.errors import BadArguments, BadFlow
from holdfast.flow.inputs import Path
from holdfast.task import Task

_NO_LISTS = (str, bytes, bytearray, Mapping)
"""What Python can loop over, and is no list of elements."""
_HOLDERS = (Output, Node, NodeGroup, list, tuple, dict)


def may_have_outputs(values: Iterable[Any]) -> bool:
    """Whether one of these values is or may hold an output. Most calls have none, and need not be
    looked at closely."""
    return any(isinstance(value, _HOLDERS) for value in values)


def outputs_in(arguments: Mapping[str, Any]) -> list[tuple[Path, Output]]:
    """Every output among the arguments of a call, also in lists and dicts, with its path."""
    found: list[tuple[Path, Output]] = []
    for name, value in arguments.items():
        _collect(value, (name,), found)
    return found


def _collect(value: Any, path: Path, found: list[tuple[Path, Output]]) -> None:
    match value:
        case Output():
            found.append((path, value))
        case MapNode():
            raise BadFlow(f"argument {path[0]!r} is {value!r}: pass its results, {value!r}.outputs")
        case Node() | NodeGroup():
            raise BadFlow(f"argument {path[0]!r} is {value!r}: pass its result, {value!r}.output")
        case list() | tuple():
            for index, one in enumerate(value):
                _collect(one, (*path, index), found)
        case dict():
            for key, one in value.items():
                _collect(one, (*path, key), found)


def _without_outputs(value: Any) -> Any:
    """The same with None wherever a result is missing."""
    match value:
        case Output():
            return None
        case list() | tuple():
            return [_without_outputs(one) for one in value]
        case dict():
            return {key: _without_outputs(one) for key, one in value.items()}
    return value


def encoded(
    task: Task[..., Any],
    arguments: dict[str, Any],
    outputs: Sequence[tuple[Path, Output]],
    *,
    over: str | None = None,
) -> str:
    """The arguments of a node as JSON. Where results are missing, the rest is checked alone.
    `over`: the parameter that is the element of a map, and is left out."""
    missing = {str(path[0]) for path, _ in outputs}
    if not missing and over is None:
        return task.codec.encode((), arguments)
    known = {name: value for name, value in arguments.items() if name not in missing}
    holed = {name: _without_outputs(arguments[name]) for name in missing}
    return task.codec.encode_some(known, holed, () if over is None else (over,))


def elements(task: Task[..., Any], over: str, items: Any) -> list[Raw] | None:
    """The elements of a list as JSON, each proven to fit the parameter `over`. None for the output
    of a node, whose elements are not known yet."""
    if outputs := outputs_in({"items": items}):
        if isinstance(items, Output):
            return None
        problem = "an element of a map cannot be, only the whole list can"
        raise BadArguments(task.name, f"{outputs[0][1]!r} is not known yet: {problem}")
    is_list = isinstance(items, Iterable) and not isinstance(items, _NO_LISTS)
    if not is_list or not isinstance(task.codec, Signature):
        raise BadArguments(task.name, f"a map takes a list, got {type(items).__name__}")
    found: list[Raw] = []
    for item in items:
        try:
            found.append(Raw(task.codec.encode_one(over, item)))
        except BadArguments as error:
            problem = f"element {len(found)} of the map: {error.problem}"
            raise BadArguments(task.name, problem) from error
    return found


def without_first(
    task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The name of the first parameter, and the arguments of the others."""
    codec = task.codec
    known = codec.parameters.parameters if isinstance(codec, Signature) else {}
    first = next(iter(known), "")
    if not isinstance(codec, Signature) or not first or known[first].kind not in POSITIONAL:
        raise BadFlow(f"flow.map needs a task of this program with a parameter: {task!r}")
    if first in kwargs:
        raise BadArguments(task.name, f"{first!r} is the element of the map: leave it out")
    arguments = codec.some((None, *args), kwargs)
    del arguments[first]
    return first, dict(arguments)
