"""A real PgBouncer in front of a throwaway Postgres, for the whole suite of a store.

`HOLDFAST_TEST_POOLER` names the program. Connections are lent for a transaction at a time, which
is how most services run it, and the mode that breaks sessions, LISTEN and prepared statements.
"""

from __future__ import annotations

import socket
import subprocess
import time
from urllib.parse import urlsplit

from holdfast.testing.servers import ServerFailed, ThrowawayPostgres, find_postgres
from holdfast.testing.servers.ports import free_port

PROGRAM_VARIABLE = "HOLDFAST_TEST_POOLER"
PATIENCE_SECONDS = 10.0

_BEHIND: dict[int, int] = {}
"""The port of each server, by the port of the pooler in front of it."""

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
logfile = {folder}/pooler.log
"""


def direct(url: str) -> str:
    """The same database without the pooler, for connections that a test opens by itself."""
    parts = urlsplit(url)
    port = _BEHIND.get(parts.port or 0)
    if port is None:
        return url
    return parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}", query="").geturl()


class PooledPostgres(ThrowawayPostgres):
    """Databases are made on the server itself, and their URLs lead through the pooler."""

    def __init__(self, program: str) -> None:
        super().__init__(find_postgres())
        self._program = program
        self._pooler: subprocess.Popen[bytes] | None = None
        self._port = 0

    def start(self) -> None:
        super().start()
        if self._pooler is None:
            self._pooler = self._start_pooler()

    def stop(self) -> None:
        if self._pooler is not None:
            self._pooler.terminate()
            self._pooler.wait()
            self._pooler = None
        super().stop()

    def new_database(self, *, template: str | None = None) -> str:
        if template is not None:  # the pooler keeps connections to it, and it must have none
            name = urlsplit(template).path.lstrip("/")
            self._psql(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = :'name';",
                name=name,
            )
        url = urlsplit(super().new_database(template=template))
        through = url._replace(netloc=f"{url.username}@127.0.0.1:{self._port}")
        return through._replace(query="pooler=true").geturl()

    def _start_pooler(self) -> subprocess.Popen[bytes]:
        self._port = free_port("PgBouncer")
        settings = self.directory / "pooler.ini"
        server = urlsplit(self.url)
        _BEHIND[self._port] = server.port or 0
        settings.write_text(
            SETTINGS.format(
                server=server.port, user=server.username, own=self._port, folder=self.directory
            )
        )
        self._account.own(self.directory)
        pooler = subprocess.Popen(
            [self._program, "-q", str(settings)], user=self._account.uid, group=self._account.gid
        )
        give_up = time.monotonic() + PATIENCE_SECONDS
        while pooler.poll() is None and time.monotonic() < give_up:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return pooler
            time.sleep(0.02)
        pooler.kill()
        raise ServerFailed("starting the pooler", f"see {self.directory}/pooler.log")
