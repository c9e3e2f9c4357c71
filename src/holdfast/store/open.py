"""A URL becomes a store. The only module that knows which backends exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.clock import Clock, SystemClock
from holdfast.errors import BadOption, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.encryption.keyring import Keyring
    from holdfast.store.contract.store import Store

SCHEMES = "sqlite:///file.db, sqlite:// (in memory), postgres://… or valkey://…"
VALKEY = frozenset(
    name + tail for name in ("valkey", "redis", "valkeys", "rediss") for tail in ("", "+sentinel")
)

PORTS = (
    "an address such as postgres://user:password@host:5432/name, in which the signs / ? # @ of a "
    "password are written %2F %3F %23 %40"
)
_PORT = re.compile(r":([^:\]]+)\Z")
"""What stands behind the colon of a host; an address in brackets has colons of its own."""

KNOWN = VALKEY | {"sqlite", "postgres", "postgresql"}


def check_url(url: object) -> None:
    """Refuse what no store has as its URL, before anything is opened."""
    if not isinstance(url, str):
        raise BadOption("store URL", f"one of {SCHEMES}", url)
    scheme = url.partition("://")[0]
    if scheme not in KNOWN:
        raise BadOption("store URL", f"one of {SCHEMES}{_advice(url, scheme)}", _shown(url))
    if scheme != "sqlite" and not _is_address(url.partition("://")[2]):
        raise BadOption("store URL", PORTS, _shown(url))


def _is_address(rest: str) -> bool:
    """Whether every port is a number, and no `@` stands behind the hosts. Otherwise a sign in the
    password has cut the URL short: a driver would take the password for a port, and say so."""
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in rest[len(hosts) :].partition("?")[0]:
        return False
    ports = (_PORT.search(host) for host in hosts.rpartition("@")[2].split(","))
    return all(port is None or (port[1].isascii() and port[1].isdigit()) for port in ports)


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    may_create: bool = True,
    keys: Keyring | None = None,
    unencrypted: Collection[str] = (),
) -> Store:
    """Choose the backend by the URL's scheme; the store is returned unopened. Without `may_create`,
    opening a SQLite file that holds no store is an error, and the file is left as it was. With
    `keys` the store encrypts what it is given, but for what `unencrypted` names.

    Backends are imported here and only when asked for, so that a program on
    SQLite needs no database driver.
    """
    store = _backend(url, clock, may_create)
    if keys is None:
        return store
    from holdfast.store.sealed.store import SealedStore

    return SealedStore(store, keys, unencrypted)


def _backend(url: str, clock: Clock | None, may_create: bool) -> Store:
    check_url(url)
    clock = clock or SystemClock()
    match url.partition("://")[0]:
        case "sqlite":
            from holdfast.store.sqlite.store import SqliteStore

            return SqliteStore(url, clock=clock, may_create=may_create)
        case "postgres" | "postgresql":
            try:
                from holdfast.store.postgres.store import PostgresStore
            except ModuleNotFoundError as missing:
                raise HoldfastError(
                    "a postgres:// store needs its driver: pip install 'holdfast[postgres]'"
                ) from missing
            return PostgresStore(url, clock=clock)
        case scheme:
            try:
                from holdfast.store.valkey.store import ValkeyStore
            except ModuleNotFoundError as missing:
                raise HoldfastError(
                    f"a {scheme}:// store needs its driver: pip install 'holdfast[valkey]'"
                ) from missing
            return ValkeyStore(url, clock=clock)


def _advice(url: str, scheme: str) -> str:
    """What to write instead, where it can be told from what was written."""
    plain, plus, driver = scheme.partition("+")
    if plus and plain in ("sqlite", "postgres", "postgresql"):
        return f"; leave out '+{driver}': the store has a driver of its own"
    if "://" in url or "@" in url or not url:
        return ""
    return f"; for a file write 'sqlite:///{url.removeprefix('sqlite:').lstrip('/')}'"


def _shown(url: str) -> str:
    """What was written, but for what may be a password."""
    scheme, there, _ = url.partition("://")
    if there:
        return f"{scheme}://…"
    return f"{url.partition(':')[0]}:…" if "@" in url else url


async def drop_store(url: str) -> None:
    """Remove a store on a server with every job in it, as the demo does with its own schema or
    namespace."""
    scheme = url.partition("://")[0]
    if scheme in VALKEY:
        from holdfast.store.valkey.store import ValkeyStore

        await ValkeyStore(url).drop()
        return
    if scheme not in ("postgres", "postgresql"):
        raise BadOption("a store to drop", "a postgres:// or valkey:// URL", f"{scheme}://…")
    from holdfast.store.postgres.store import PostgresStore

    await PostgresStore(url).drop()
