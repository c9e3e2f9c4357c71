"""Reads the source of the package as a tree: for tests that hold the code to its own rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its path below `src/holdfast`."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {str(file.relative_to(PACKAGE)): ast.parse(file.read_text("utf-8")) for file in files}


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """The classes that a module defines at its top level."""
    return (node for node in tree.body if isinstance(node, ast.ClassDef))


def methods(owner: ast.ClassDef) -> set[str]:
    """The public methods that a class writes itself."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.name
        for node in owner.body
        if isinstance(node, functions) and not node.name.startswith("_")
    }
