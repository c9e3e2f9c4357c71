"""The oldest version of every package that `pyproject.toml` allows a user to have.

It prints `constraints.txt` with these versions in place of the newest, for `make oldest`: a lower
bound that was never tried is a guess.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

USERS = ("postgres", "valkey", "otel", "reload", "speed")
"""Extras of users. The others are tools of ours, and may be as new as they like."""

FOLLOWS = ("opentelemetry-sdk", "opentelemetry-semantic-conventions")
"""What tests need of the same release as a package of users: pip finds that by itself."""


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    allowed = [*project["dependencies"], *(one for extra in USERS for one in extras[extra])]
    oldest = dict(_bounds(allowed))
    for line in Path("constraints.txt").read_text().splitlines():
        name = line.partition("==")[0]
        if name in FOLLOWS:
            continue
        print(f"{name}=={oldest.pop(name)}" if name in oldest else line)
    for name, version in oldest.items():
        print(f"{name}=={version}")


def _bounds(requirements: list[str]) -> Iterator[tuple[str, str]]:
    for requirement in requirements:
        bound = re.match(r"([\w-]+)>=([\d.]+)", requirement)
        assert bound, f"{requirement} names no oldest version"
        yield bound[1], bound[2]


if __name__ == "__main__":
    main()
