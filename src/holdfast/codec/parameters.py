"""A handler's parameters, with their annotations resolved to types.

`inspect` knows the kinds and defaults of parameters, `typing` knows their types, also from string
annotations. Both are put together here, and the parameter that takes the context is found.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, NoReturn

from holdfast.errors import BadTask

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class ContextPlace:
    """Which parameter takes the context: the one at `index`, or the keyword-only one of this name
    if `index` is None."""

    name: str
    index: int | None


def resolve(
    fn: Callable[..., Any], task: str, context_type: type | None
) -> tuple[list[Parameter], Any]:
    """The parameters with their annotations as types, and the return type."""
    target: Any = fn.func if isinstance(fn, functools.partial) else fn
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        hints = typing.get_type_hints(target, _names(target, context_type), include_extras=True)
        parameters = inspect.signature(fn).parameters.values()
    except NameError as exc:
        advice = "define it at module level, and import it outside 'if TYPE_CHECKING'"
        raise BadTask(task, f"the annotation {exc.name!r} cannot be resolved: {advice}") from exc
    except (TypeError, ValueError) as exc:
        raise BadTask(task, f"its signature cannot be read: {exc}") from exc
    returns = hints.get("return", Any)
    typed = [p.replace(annotation=_stored_as(p, hints.get(p.name, Any))) for p in parameters]
    return typed, Any if returns in (NoReturn, typing.Never) else returns


def _names(target: Any, context_type: type | None) -> dict[str, Any]:
    """The function's globals, and the context's class, which the function's module may import only
    for type checking."""
    own: dict[str, Any] = getattr(inspect.unwrap(target), "__globals__", {})
    return {context_type.__name__: context_type, **own} if context_type else own


def _stored_as(parameter: Parameter, annotation: Any) -> Any:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return tuple[annotation, ...]
    if parameter.kind is Parameter.VAR_KEYWORD:
        unpacked = typing.get_origin(annotation) is typing.Unpack
        return typing.get_args(annotation)[0] if unpacked else dict[str, annotation]
    return annotation


def find_context(parameters: Sequence[Parameter], context_type: type | None) -> ContextPlace | None:
    """The first parameter that the worker fills in, if the function has one."""
    for index, parameter in enumerate(parameters):
        if context_type and _without_none(parameter.annotation) == (context_type,):
            by_index = parameter.kind in POSITIONAL
            return ContextPlace(parameter.name, index if by_index else None)
    return None


def _without_none(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return (annotation,)
    return tuple(kind for kind in typing.get_args(annotation) if kind is not types.NoneType)


def is_required(parameter: Parameter) -> bool:
    """Whether a call must pass this parameter. `*args` and `**kwargs` may always be empty."""
    variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return parameter.default is Parameter.empty and not variadic
