"""Finds every event that the code emits, by reading its source.

An event is a call of `events.info`, `warning`, `error` or `debug`, also through a name that one of
these was assigned to. Its name is a literal, a choice between literals, one of a table of the
module, or an f-string, which is found as a pattern with `*`. Its fields are keywords, or the keys
of a dictionary that a function of the module writes out. What cannot be read from the source is an
error.
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
        for one in _of(function, tree, path)
    ]


def _of(function: Function, tree: ast.Module, path: str) -> Iterator[Emitted]:
    assigned = _written_out(tree) | dict(_assigned(function))
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and (levels := _levels(call.func, assigned)):
            where = f"{path}:{call.lineno}"
            fields = frozenset().union(*(_fields(one, assigned, where) for one in call.keywords))
            for name in _names(call.args[0], assigned, where):
                yield Emitted(name, levels, fields, where)


def _written_out(tree: ast.Module) -> dict[str, ast.expr]:
    """The tables of a module, and what each of its functions returns if that is a dictionary."""
    found = {
        name: value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name, value in _assigned(node)
    }
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name, body=[*_, ast.Return(value=ast.Dict() as returned)]):
                found[name] = returned
    return found


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=names), ast.Tuple(elts=values):
            for one, its in zip(names, values, strict=True):
                yield from _pairs(one, its)


def _fields(keyword: ast.keyword, assigned: dict[str, ast.expr], where: str) -> frozenset[str]:
    """The names of the fields that one keyword, or `**` of a dictionary, gives."""
    if keyword.arg is not None:
        return frozenset({keyword.arg})
    given = keyword.value
    while not isinstance(given, ast.Dict):
        name = given.func if isinstance(given, ast.Call) else given
        if not isinstance(name, ast.Name) or name.id not in assigned:
            raise AssertionError(f"{where}: the event's fields cannot be read: write them out")
        given = assigned[name.id]
    return frozenset(str(key.value) for key in given.keys if isinstance(key, ast.Constant))


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
        case ast.Dict(values=values):
            for value in values:
                yield from _names(value, assigned, where)
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name in assigned:
            yield from _names(assigned[name], assigned, where)
        case _:
            raise AssertionError(f"{where}: the event's name cannot be read: write it out")
