"""How the result of a step's function is written: by its return annotation, as that of a task."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NoReturn

from holdfast.codec.results import ResultType
from holdfast.codec.types import adapter_for, unsupported
from holdfast.errors import BadOption

KEPT = 1_000
"""Annotations whose result types are remembered. A function may be made anew for each call, but its
annotation is the same text or the same class."""

ANYTHING = ResultType(Any, None)
_BY_TEXT: dict[tuple[str, str], ResultType] = {}


def result_type(function: Callable[..., Any]) -> ResultType:
    """The result type of a function, a method, a partial or a task."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "function", function)
    annotations = getattr(function, "__annotations__", None)
    if not annotations or "return" not in annotations:
        return ANYTHING
    found = annotations["return"]
    if isinstance(found, str):
        return _by_text(found, str(getattr(function, "__module__", "")), function)
    try:
        return _by_annotation(found)
    except TypeError:  # an annotation that cannot be a key, such as one with a list in it
        return _made(found)


def _by_text(text: str, module: str, function: Callable[..., Any]) -> ResultType:
    """The module and the text say what is meant; the function is only where to look it up."""
    known = _BY_TEXT.get((module, text))
    if known is None:
        if len(_BY_TEXT) >= KEPT:
            _BY_TEXT.clear()
        known = _BY_TEXT[module, text] = _by_annotation(_read(text, module, function))
    return known


def _read(text: str, module: str, function: Callable[..., Any]) -> Any:
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(_bare(text), names, include_extras=True)["return"]
    except Exception as error:
        # Any exception: the text is code of the user's module.
        problem = f"an annotation that {module} can read, or none"
        raise BadOption("the result of a step's function", problem, text) from error


def _bare(text: str) -> Callable[[], None]:
    def function() -> None: ...

    function.__annotations__ = {"return": text}
    return function


@lru_cache(KEPT)
def _by_annotation(annotation: Any) -> ResultType:
    return _made(annotation)


def _made(annotation: Any) -> ResultType:
    if annotation in (NoReturn, typing.Never):
        return ANYTHING
    adapter = adapter_for(annotation)
    problem = None if adapter else unsupported(annotation)
    if problem is not None:
        expected = f"an annotation that JSON can carry ({problem})"
        raise BadOption("the result of a step's function", expected, annotation)
    return ResultType(annotation, adapter)
