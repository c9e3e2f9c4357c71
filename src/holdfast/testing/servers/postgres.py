"""Postgres for tests: what every server offers, and the one that the environment names."""

import os
import secrets
import subprocess
from abc import abstractmethod
from typing import Literal
from urllib.parse import urlsplit

from holdfast.testing.servers.server import ServerFailed, ServerForTests

URL_VARIABLE = "HOLDFAST_TEST_POSTGRES_URL"

StopMode = Literal["smart", "fast", "immediate"]


class PostgresServer(ServerForTests):
    """A server that hands out empty databases."""

    url: str
    _strategy = ""
    """How to copy a template, where the server may be told."""

    def __init__(self, psql: str) -> None:
        self._psql_program = psql
        self._databases: set[str] = set()

    @abstractmethod
    def halt(self, mode: StopMode = "immediate") -> None:
        """Begin an outage: stop serving, keep the data."""

    @abstractmethod
    def resume(self) -> None:
        """End an outage: serve again, at the same address."""

    def restart(self, mode: StopMode = "immediate") -> None:
        self.halt(mode)
        self.resume()

    def new_database(self, *, template: str | None = None) -> str:
        """The URL of a fresh database: an empty one, or a copy of the one at URL `template`.

        A template must have no connections while it is copied.
        """
        name = f"holdfast_test_{secrets.token_hex(6)}"
        source = _database_of(template) if template else "template0"
        create = f'create database :"name" template :"source" {self._strategy}'
        self._psql(create, name=name, source=source)
        self._databases.add(name)
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def drop_database(self, url: str) -> None:
        """Drop it even while others are connected, as the leavings of a killed worker are."""
        name = _database_of(url)
        self._psql('drop database if exists :"name" with (force)', name=name)
        self._databases.discard(name)

    def _psql(self, script: str, **values: str) -> None:
        """psql and no driver, so that this package needs none and works in any kind of program."""
        settings = [f"--set={name}={value}" for name, value in values.items()]
        done = subprocess.run(
            [self._psql_program, "-Xqw", "-v", "ON_ERROR_STOP=1", *settings, self.url],
            input=script,
            capture_output=True,
            text=True,
            env=environment(),
        )
        if done.returncode:
            raise ServerFailed(script, done.stderr)


class GivenPostgres(PostgresServer):
    """A server that somebody else runs; only the databases made here are ours to remove."""

    def __init__(self, url: str, psql: str) -> None:
        super().__init__(psql)
        self.url = url

    def start(self) -> None:
        self._psql("select 1")

    def stop(self) -> None:
        for name in tuple(self._databases):
            self.drop_database(f"/{name}")

    def halt(self, mode: StopMode = "immediate") -> None:
        raise ServerFailed(f"halting the server of {URL_VARIABLE}", "it is not ours to stop")

    def resume(self) -> None:
        raise ServerFailed(f"resuming the server of {URL_VARIABLE}", "it is not ours to start")


def _database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


def environment() -> dict[str, str]:
    """The caller's, less what would lead a Postgres program to another server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C", "PGCONNECT_TIMEOUT": "10"}
