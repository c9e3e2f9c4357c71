"""Which parts of a task's arguments and result are marked as secret by their annotations.

A mark becomes a path, as `redact=` of a task writes it: `Annotated[str, Secret]` on a parameter
`token` is the path `token`, on a field of a model it is the way to that field. A list adds no name
to a path, and the values of a dict are any name (`*`).
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from inspect import Parameter
from typing import Any

import msgspec

from holdfast.errors import BadTask
from holdfast.job.redacted_json import ANY, ANY_DEPTH, Path
from holdfast.job.redaction import RETURN, Rules
from holdfast.job.secret import Secret

_MARKED: Any = typing.Annotated[Any, Secret]
_FIELD_MARKS = ("__dataclass_fields__", "__attrs_attrs__", "_field_defaults")
"""What a dataclass, a class of attrs and a named tuple have."""
Field = tuple[str, Any]
"""The name of a field in JSON, and its annotation."""


def declared_paths(
    task: str, texts: tuple[str, ...], parameters: Iterable[str]
) -> tuple[Path, ...]:
    """The paths of `redact=`. A path must begin with a parameter, so that a slip of the pen does
    not show what was to be hidden."""
    known = [*parameters, RETURN]
    paths = [tuple(text.split(".")) for text in texts]
    for text, path in zip(texts, paths, strict=True):
        if not all(path):
            raise BadTask(task, f"redact={text!r}: write names with one '.' between them")
        if path[0] not in (*known, ANY, ANY_DEPTH):
            raise BadTask(task, f"redact={text!r} must begin with one of {', '.join(known)}")
    return tuple(paths)


def rules_of(
    declared: tuple[Path, ...], parameters: Mapping[str, Parameter], returns: Any
) -> Rules:
    """Everything that is hidden of the jobs of a task: what it declares, and what is marked."""
    marked = [
        path
        for name, parameter in parameters.items()
        for path in _marked(parameter.annotation, (name,))
    ]
    return Rules(tuple(dict.fromkeys((*declared, *marked, *_marked(returns, (RETURN,))))))


def _marked(annotation: Any, path: Path) -> list[Path]:
    search = _Search()
    found = list(search.walk(annotation, path, {}))
    # A class that contains itself has the same fields again at any depth.
    deep = [
        (*loop, ANY_DEPTH, *one[len(loop) :])
        for loop in search.loops
        for one in found
        if one[: len(loop)] == loop
    ]
    return [*found, *deep]


class _Search:
    """Walks over annotations. `loops` are the paths of classes that contain themselves."""

    def __init__(self) -> None:
        self.loops: dict[Path, None] = {}

    def walk(self, annotation: Any, path: Path, above: Mapping[Any, Path]) -> Iterator[Path]:
        if _is_marked(annotation):
            yield path
        elif isinstance(annotation, typing.NewType):
            yield from self.walk(annotation.__supertype__, path, above)
        elif hasattr(annotation, "__value__"):  # a `type` statement
            yield from self.walk(annotation.__value__, path, above)
        elif (fields := _fields(annotation)) is not None:
            yield from self._inside(annotation, fields, path, above)
        else:
            yield from self._arguments(annotation, path, above)

    def _inside(
        self, kind: Any, fields: list[Field], path: Path, above: Mapping[Any, Path]
    ) -> Iterator[Path]:
        if kind in above:
            self.loops[above[kind]] = None
            return
        for name, annotation in fields:
            for found in self.walk(annotation, (*path, name), {**above, kind: path}):
                yield path if _is_list(kind) else found

    def _arguments(self, annotation: Any, path: Path, above: Mapping[Any, Path]) -> Iterator[Path]:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            arguments = arguments[:1]
        elif _fields(origin) is not None:
            # A generic class: nobody says here which of its fields has which argument.
            yield from self.walk(origin, path, above)
            if any(True for one in arguments for _ in _Search().walk(one, path, above)):
                yield path
            return
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            path = (*path, ANY)
        for one in arguments:
            yield from self.walk(one, path, above)


def _is_marked(annotation: Any) -> bool:
    return any(map(_is_mark, getattr(annotation, "__metadata__", ())))


def _is_mark(mark: object) -> bool:
    return mark is Secret or isinstance(mark, Secret)


def _is_list(kind: Any) -> bool:
    """Whether objects of this class are lists in JSON, so that its fields have no names there."""
    config = getattr(kind, "__struct_config__", None)
    return issubclass(kind, tuple) if config is None else bool(config.array_like)


def _fields(kind: Any) -> list[Field] | None:
    """The fields of a class as JSON names them; None for anything else."""
    if not isinstance(kind, type):
        return None
    if (of_pydantic := getattr(kind, "__pydantic_fields__", None)) is not None:
        return [(_alias(name, field), _annotation(field)) for name, field in of_pydantic.items()]
    if issubclass(kind, msgspec.Struct):
        names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    elif typing.is_typeddict(kind) or any(hasattr(kind, mark) for mark in _FIELD_MARKS):
        names = {name: name for name in _hints(kind)}
    else:
        return None
    hints = _hints(kind)
    return [(encoded, hints.get(name, Any)) for name, encoded in names.items()]


def _hints(kind: type) -> dict[str, Any]:
    """The annotations of a class. One that cannot be resolved counts as secret, because it may
    be."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):
        own: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            own |= vars(base).get("__annotations__", {})
        return {name: _MARKED if isinstance(one, str) else one for name, one in own.items()}


def _alias(name: str, field: Any) -> str:
    return str(field.serialization_alias or field.alias or name)


def _annotation(field: Any) -> Any:
    """The annotation of a field of pydantic, which keeps the marks beside it."""
    marked = any(map(_is_mark, field.metadata))
    return _MARKED if marked else field.annotation
