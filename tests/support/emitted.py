"""Finds every event that the code emits, by reading its source.

An event is a call of `events.info`, `warning`, `error` or `debug`, also through a name that one of
these was assigned to. Its name is a literal, a choice between literals, or an f-string, which is
found as a pattern with `*`. A name that cannot be read from the source is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.support.source import modules

LEVELS = frozenset({"debug", "info", "warning", "error"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Emitted:
    """One call that emits an event. `name` may be a pattern."""

    name: str
    levels: frozenset[str]
    fields: frozenset[str]
    where: str


@cache
def emitted() -> list[Emitted]:
    return [
        one
        for path, tree in modules().items()
        for function in ast.walk(tree)
        if isinstance(function, Function)
        for one in _of(function, path)
    ]


def _of(function: Function, path: str) -> Iterator[Emitted]:
    assigned = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and (levels := _levels(call.func, assigned)):
            where = f"{path}:{call.lineno}"
            fields = frozenset(keyword.arg or "**" for keyword in call.keywords)
            for name in _names(call.args[0], assigned, where):
                yield Emitted(name, levels, fields, where)


def _levels(called: ast.expr, assigned: dict[str, ast.expr]) -> frozenset[str]:
    """At which levels this call emits; none if it is no event."""
    if isinstance(called, ast.Name) and called.id in assigned:
        found = ast.walk(assigned[called.id])
        return frozenset().union(*(_level(node) for node in found if isinstance(node, ast.expr)))
    return _level(called)


def _level(node: ast.expr) -> frozenset[str]:
    if isinstance(node, ast.Attribute) and node.attr in LEVELS:
        holder = node.value
        held_as = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
        if held_as.lstrip("_") == "events":
            return frozenset({node.attr})
    return frozenset()


def _names(node: ast.expr, assigned: dict[str, ast.expr], where: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=str() as name):
            yield name
        case ast.JoinedStr(values=parts):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts
            )
        case ast.IfExp(body=one, orelse=other):
            yield from _names(one, assigned, where)
            yield from _names(other, assigned, where)
        case ast.Name(id=name) if name in assigned:
            yield from _names(assigned[name], assigned, where)
        case _:
            raise AssertionError(f"{where}: the event's name cannot be read: write it out")
