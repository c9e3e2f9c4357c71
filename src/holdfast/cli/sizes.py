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
