"""Sizes as people write them: 512M, 2G."""

from __future__ import annotations

import re

import click

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)


def size(text: str) -> int:
    """The type of an option: bytes; K, M, G and T are powers of 1024."""
    found = SIZE.match(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is no size: write it as 512M or 2G")
    return int(float(found[1]) * UNITS[found[2].upper()])


def size_text(size: int | None) -> str:
    """Bytes as people read them.

    >>> [size_text(size) for size in (None, 900, 52_000_000, 3 * 2**30)]
    ['–', '900 B', '50 M', '3.0 G']
    """
    if size is None:
        return "–"
    for unit in ("G", "M", "K"):
        if size >= UNITS[unit]:
            number = size / UNITS[unit]
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{size} B"
