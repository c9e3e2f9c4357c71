"""Which tasks ask people by `ctx.invite`, found in their code before any of their jobs runs.

A worker without signing keys can sign no token, and a job would find that out in the middle of its
run. Only a call on the function's own context is found, not one in a function that it calls: this
is for a warning, which must be right whenever it comes.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType

from holdfast.context import Context
from holdfast.handlers.registry import Handler

ASKS = Context.invite.__name__


def tasks_that_ask(handlers: Iterable[Handler]) -> list[str]:
    return sorted(one.name for one in handlers if _asks(one))


def _asks(handler: Handler) -> bool:
    code = getattr(inspect.unwrap(handler.function), "__code__", None)
    name = handler.signature.context_name
    if name is None or not isinstance(code, CodeType):
        return False
    return any(_calls_on(each, name) for each in _all_of(code) if ASKS in each.co_names)


def _all_of(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those that are defined inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _all_of(inner)


def _calls_on(code: CodeType, context: str) -> bool:
    """Whether it reads `context.invite`: the name is read right before the attribute. Some releases
    of Python read two names at once."""
    read: object = None
    for one in dis.get_instructions(code):
        if one.argval == ASKS and read == context:
            return True
        read = one.argval[-1] if isinstance(one.argval, tuple) else one.argval
    return False
