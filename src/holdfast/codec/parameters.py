"""A handler's parameters, with their annotations resolved to types.

`inspect` knows the kinds and defaults of parameters, `typing` knows their types, also from string
annotations. Both are put together here, and the parameters that a worker fills in are found: the
context and the resources.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any, NoReturn

import msgspec

from holdfast.errors import BadTask
from holdfast.resources import Resource

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class ContextPlace(msgspec.Struct, frozen=True):
    """Which parameter takes the context: the one at `index`, or the keyword-only one of this name
    if `index` is None."""

    name: str
    index: int | None


class FilledIn(msgspec.Struct, frozen=True):
    """The parameters that are no arguments of a job. `in_order` says how many arguments of a job
    can be passed by their position: those before the first resource."""

    context: ContextPlace | None
    resources: Mapping[str, Resource]
    in_order: int

    def __contains__(self, name: str) -> bool:
        return name in self.resources or (self.context is not None and self.context.name == name)


def resolve(
    fn: Callable[..., Any], task: str, context_type: type | None
) -> tuple[list[Parameter], Any]:
    """The parameters with their annotations as types, and the return type."""
    target: Any = fn.func if isinstance(fn, functools.partial) else fn
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        parameters = inspect.signature(fn).parameters.values()
        names = _names(target, context_type)
        hints = typing.get_type_hints(_to_read(target, parameters), names, include_extras=True)
    except NameError as exc:
        advice = "define it at module level, and import it outside 'if TYPE_CHECKING'"
        raise BadTask(task, f"the annotation {exc.name!r} cannot be resolved: {advice}") from exc
    except (TypeError, ValueError) as exc:
        raise BadTask(task, f"its signature cannot be read: {exc}") from exc
    returns = hints.get("return", Any)
    typed = [p.replace(annotation=_stored_as(p, hints.get(p.name, Any))) for p in parameters]
    return typed, Any if returns in (NoReturn, typing.Never) else returns


def _to_read(target: Any, parameters: Iterable[Parameter]) -> Any:
    """What to read annotations from: the function, or if it takes resources a function with all
    other annotations. The class of a resource may be imported only for type checking."""
    resources = {p.name for p in parameters if isinstance(p.default, Resource)}
    if not resources:
        return target
    own = inspect.get_annotations(inspect.unwrap(target))
    found = types.FunctionType((lambda: None).__code__, {})
    found.__annotations__ = {name: it for name, it in own.items() if name not in resources}
    return found


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


def find_filled_in(
    parameters: Sequence[Parameter], task: str, context_type: type | None
) -> FilledIn:
    """The parameters that the worker fills in: the first one that is annotated with the context's
    class, and every one whose default is a `Resource`."""
    context: ContextPlace | None = None
    resources: dict[str, Resource] = {}
    in_order = 0
    for index, parameter in enumerate(parameters):
        if isinstance(parameter.default, Resource):
            resources[parameter.name] = parameter.default
            _require_keyword(parameter, task)
        elif context is None and _is_context(parameter, context_type):
            by_index = parameter.kind in POSITIONAL and not resources
            context = ContextPlace(parameter.name, index if by_index else None)
        else:
            _require_argument(parameter, task, resources)
            in_order += parameter.kind in POSITIONAL and not resources
    return FilledIn(context, resources, in_order)


def _is_context(parameter: Parameter, context_type: type | None) -> bool:
    return context_type is not None and _without_none(parameter.annotation) == (context_type,)


def _require_keyword(parameter: Parameter, task: str) -> None:
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise BadTask(
            task,
            f"parameter {parameter.name!r}: a resource is passed by name: put it behind the '/'",
        )


def _require_argument(parameter: Parameter, task: str, resources: Mapping[str, Resource]) -> None:
    """Refuse an argument of a job that could not be passed, or that was meant as a resource."""
    name = parameter.name
    if parameter.kind is Parameter.VAR_POSITIONAL and resources:
        raise BadTask(task, f"parameter {next(iter(resources))!r}: put it behind '*{name}'")
    marks = [
        mark
        for mark in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(mark, Resource)
    ]
    if marks:
        raise BadTask(
            task, f"parameter {name!r}: write the resource as its default: {name}: … = {marks[0]}"
        )


def _without_none(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return (annotation,)
    return tuple(kind for kind in typing.get_args(annotation) if kind is not types.NoneType)


def is_required(parameter: Parameter) -> bool:
    """Whether a call must pass this parameter. `*args` and `**kwargs` may always be empty."""
    variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return parameter.default is Parameter.empty and not variadic
