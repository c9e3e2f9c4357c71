"""What a new user gets: the built wheel in a fresh environment, and the pages of the first hour.

The wheel is built and installed without a word of the source tree, into an environment that has
what the wheel asks for and nothing else. The pages are then pasted word by word, on each
kind of store. That starts many interpreters: `make test` pastes the README on SQLite, `make long`
the README on servers and the first hour on SQLite, and `make chaos` the first hour on servers.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.pasting import Reader
from tests.support.spreading import folder_of_run

ROOT = Path(__file__).parents[2]
README, FIRST_HOUR = "README.md", "docs/first-hour.md"
SERVERS = ("postgres", "valkey")
PASTED = [
    (README, "sqlite"),
    *(pytest.param(README, kind, marks=pytest.mark.long) for kind in SERVERS),
    pytest.param(FIRST_HOUR, "sqlite", marks=pytest.mark.long),
    *(pytest.param(FIRST_HOUR, kind, marks=pytest.mark.chaos) for kind in SERVERS),
]
ADDRESS = "https://git.example.org/holdfast"
EXTRAS = ("postgres", "valkey")
QUIET_PIP = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
LINK = re.compile(r"\]\(([^)]*)\)")

pytestmark = [pytest.mark.first, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, made once for all test processes."""
    folder = folder_of_run(tmp_path_factory) / "fresh"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            install(folder)
            (folder / "ready").touch()
    return folder


def install(folder: Path) -> None:
    """Only what the wheel says it needs is there, and pip asks no index for more."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    repository = {"HOLDFAST_REPOSITORY": ADDRESS}
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, **repository)
    wheel = wheel_in(folder)
    lend(folder / "venv", needed(metadata_in(wheel), set(EXTRAS)) | {"pip"})
    lean = (f"{wheel}[{','.join(EXTRAS)}]", "--no-compile")  # few modules are ever imported
    run(folder / "venv/bin/pip", "install", "-q", *lean, **QUIET_PIP)


def needed(metadata: Message, extras: set[str]) -> set[str]:
    """The distributions that one asks for, with those that they ask for."""
    names: set[str] = set()
    for line in metadata.get_all("Requires-Dist", []):
        wanted = Requirement(line)
        if any(not wanted.marker or wanted.marker.evaluate({"extra": e}) for e in {*extras, ""}):
            theirs = distribution(wanted.name).read_text("METADATA") or ""
            names |= {wanted.name, *needed(Parser().parsestr(theirs), wanted.extras)}
    return names


def lend(venv: Path, names: set[str]) -> None:
    """Link what is installed beside the tests, in the versions of `constraints.txt`, into the
    environment, and give it the command `pip`: to install them anew takes pip ten seconds."""
    [site] = venv.glob("lib/python*/site-packages")
    for name in names:
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(str(found.locate_file(top)))
    command = venv / "bin/pip"
    command.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n')
    command.chmod(0o755)


def metadata_in(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        [name] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(opened.read(name).decode())


def wheel_in(folder: Path) -> Path:
    [wheel] = folder.glob("*.whl")
    return wheel


def run(*command: str | Path, **variables: str) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=clean() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def clean() -> dict[str, str]:
    """The environment of somebody who has never heard of the source tree."""
    ours = ("PYTHON", "HOLDFAST_", "VIRTUAL_ENV", "COV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def of(fresh: Path) -> dict[str, str]:
    """The environment is active, and `pip install` finds all there: it asks no index again."""
    path = f"{fresh / 'venv/bin'}{os.pathsep}{os.environ['PATH']}"
    return clean() | {"PATH": path, "COLUMNS": "120", **QUIET_PIP}


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """None is the reader's own folder, where a file appears by itself."""
    match request.param:
        case "postgres":
            yield request.getfixturevalue("postgres").new_database()
        case "valkey":
            yield request.getfixturevalue("valkey").new_namespace()
        case _:
            yield None


@pytest.mark.parametrize(("page", "url"), PASTED, indirect=["url"])
def test_a_page_of_the_first_hour_pasted_word_by_word(
    page: str, url: str | None, fresh: Path, tmp_path: Path
) -> None:
    Reader(tmp_path, of(fresh), url).paste((ROOT / page).read_text())


def test_the_wheel_alone_is_what_was_installed(fresh: Path, tmp_path: Path) -> None:
    found = subprocess.run(
        [fresh / "venv/bin/python", "-c", "import holdfast; print(holdfast.__file__)"],
        cwd=tmp_path,
        env=of(fresh),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(fresh / "venv"))


def test_no_link_is_dead_on_a_package_index(fresh: Path) -> None:
    metadata = metadata_in(wheel_in(fresh))
    links = LINK.findall(str(metadata.get_payload()))
    assert len(links) > 10
    version = metadata["Version"]
    begins = f"{ADDRESS}/blob/v{version}/"
    assert [link for link in links if not link.startswith(begins)] == []
    files = {link: link.removeprefix(begins).partition("#")[0] for link in links}
    assert [link for link, file in files.items() if not (ROOT / file).exists()] == []
    assert f"Source, {ADDRESS}" in metadata.get_all("Project-URL", [])
    assert metadata["Requires-Python"] == ">=3.11"
