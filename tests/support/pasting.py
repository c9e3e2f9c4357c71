"""A reader who pastes a page word by word: programs into files, commands into a terminal.

A page is read as it is written for people:

- a `python` block is a program. It is saved under the name that the sentence before it says,
  ``Save this as `shop.py`:``; a program without a name is run at once.
- an `sh` block is typed into the terminal. `export` lasts. `holdfast worker` is typed into a second
  terminal: it runs on until the next one is started, or until the end of the page.
- a `text` block is what the commands before it print. `…` stands for anything within a line, and
  lines may be left out.
- a block with `HOLDFAST_URL=` chooses a store. It is typed before everything else, and only by
  readers who have that kind of store.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PATIENCE = 60
FENCED = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED_AS = re.compile(r"Save this as `([\w.]+)`:\s*\Z")
EXPORT = re.compile(r"^export (\w+)=(\S+)$", re.MULTILINE)
CHOOSES_A_STORE = re.compile(r"^export HOLDFAST_URL=(\w+)://\S+$", re.MULTILINE)
WORKER = "holdfast worker"


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    text: str
    saved_as: str | None = None

    @property
    def store(self) -> str | None:
        """The kind of store that this block chooses, if it does."""
        chosen = CHOOSES_A_STORE.search(self.text) if self.kind == "sh" else None
        return chosen[1] if chosen else None


def blocks_of(page: str) -> Iterator[Block]:
    for match in FENCED.finditer(page):
        saved = SAVED_AS.search(page, 0, match.start())
        yield Block(match[1], match[2], saved[1] if saved else None)


class Reader:
    """Has a folder, a virtual environment, and a store of some kind."""

    def __init__(self, folder: Path, environment: Mapping[str, str], url: str | None) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._url = url
        self._said = ""
        self._worker: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def paste(self, page: str) -> None:
        """Do all that the page says; a command that fails or says something else is an error."""
        blocks = list(blocks_of(page))
        choosing = [block for block in blocks if block.store]
        assert {block.store for block in choosing} == {"postgres", "valkey"}
        for block in choosing:
            if self._url and self._url.startswith(f"{block.store}://"):
                self._type(CHOOSES_A_STORE.sub(f"export HOLDFAST_URL={self._url}", block.text))
        try:
            for block in blocks:
                if not block.store:
                    self._follow(block)
        finally:
            self._stop_worker()

    def _follow(self, block: Block) -> None:
        match block.kind:
            case "python" if block.saved_as:
                (self._folder / block.saved_as).write_text(block.text)
            case "python":
                (self._folder / "unnamed.py").write_text(block.text)
                self._type("python unnamed.py")
            case "sh" if block.text.startswith(WORKER):
                self._stop_worker()
                self._start_worker(block.text)
            case "sh":
                self._type(block.text)
            case _:
                check(self._said, block.text)

    def _type(self, commands: str) -> None:
        done = subprocess.run(
            ["bash", "-euc", commands],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        self._said = done.stdout
        self._environment |= dict(EXPORT.findall(commands))
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{self._logged()}"

    def _start_worker(self, command: str) -> None:
        self._log = (self._folder / "worker.log").open("w")
        self._worker = subprocess.Popen(
            command.split(),
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _stop_worker(self) -> None:
        """Ctrl-C, after which the worker leaves in good order."""
        if self._worker is None or self._log is None:
            return
        self._worker.send_signal(signal.SIGINT)
        code = self._worker.wait(PATIENCE)
        self._log.close()
        self._worker = self._log = None
        assert code == 0, self._logged()

    def _logged(self) -> str:
        log = self._folder / "worker.log"
        return log.read_text() if log.exists() else "no worker was started"


def check(said: str, shown: str) -> None:
    """Whether each line that a page shows was printed, in the same order."""
    printed = iter(squeezed(said))
    for line in squeezed(shown):
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        assert any(pattern.fullmatch(one) for one in printed), f"{line!r} is not in:\n{said}"


def squeezed(text: str) -> list[str]:
    """Its lines, with the widths of columns taken out."""
    return [" ".join(line.split()) for line in text.splitlines()]
