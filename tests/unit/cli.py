"""A folder, a store in it, and the command line on top: what the command tests share."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner

from holdfast.cli.program import program
from holdfast.clock import ManualClock
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.support.backends import opened
from tests.support.logging_restored import logging_restored

T = TypeVar("T")
_numbers = itertools.count()

SHOP = """
from holdfast import App, Context

app = App({url!r})
other = "not an app"


@app.task(name="send", queue="mail", priority=3)
async def send(to: str, copies: int = 1) -> str:
    return to * copies
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output is one JSON document and nothing else, or this raises."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where commands are typed: a folder of its own, and one store file in it."""

    folder: Path
    url: str

    def run(self, *arguments: str, width: int = 120) -> Answer:
        with logging_restored():
            ran = CliRunner().invoke(program, arguments, env={"COLUMNS": str(width)})
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return Answer(ran.exit_code, ran.stdout, ran.stderr)

    def on_store(self, *arguments: str, width: int = 120) -> Answer:
        return self.run(*arguments, "--url", self.url, width=width)

    def json(self, *arguments: str, code: int = 0) -> Any:
        answer = self.on_store(*arguments, "--json")
        assert answer.code == code, answer.err
        return answer.json

    def reveal(self, job_id: str) -> Any:
        """A job with the values that nobody has published rules for."""
        return self.json("jobs", "show", job_id, "--reveal", "--reason", "a test")

    def seed(self, work: Callable[[Scene], Awaitable[T]]) -> T:
        """Do something to the store through its own verbs, as of now."""

        async def run() -> T:
            async with opened(self.url) as store:
                return await work(await Scene.on(store, ManualClock()))

        return asyncio.run(run())

    def look(self, work: Callable[[Store], Awaitable[T]]) -> T:
        async def run() -> T:
            async with opened(self.url) as store:
                return await work(store)

        return asyncio.run(run())

    def shop(self) -> str:
        """An app in a module of its own, so that no test meets another's import."""
        name = f"shop_{next(_numbers)}"
        (self.folder / f"{name}.py").write_text(SHOP.format(url=self.url))
        return name


def desk_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("HOLDFAST_URL", "HOLDFAST_APP"):
        monkeypatch.delenv(name, raising=False)
    return Desk(folder, f"sqlite:///{folder / 'jobs.db'}")
