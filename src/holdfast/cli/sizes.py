"""Sizes as people write them: 512M, 2G."""

from __future__ import annotations

import re

import click

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)


class Size(click.ParamType[int]):
    """Bytes; K, M, G and T are powers of 1024."""

    name = "size"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = SIZE.match(value.strip())
        if found is None:
            self.fail(f"{value!r} is no size: write it as 512M or 2G", param, ctx)
        return int(float(found[1]) * UNITS[found[2].upper()])
