"""What a valkey:// URL says: where to connect, and how.

    valkey://user:password@host:6379/0        redis:// is the same; valkeys:// and rediss:// use TLS
    valkey://host1,host2?cluster=true         a cluster, by any of its nodes
    valkey+sentinel://host1,host2/service/0   the master that these sentinels name
                                              (also ?sentinel=service)

Options ride in the query string:

    ?namespace=holdfast    begins the name of every key
    &partitions=1          a power of two, fixed when the store is first used
    &pool_size=8           most connections at once in a cluster; one server needs only one
    &timeout=30            seconds that a call may take
    &listen=false          do not subscribe; polling alone finds work
    &ssl_ca_certs=…        and ssl_certfile, ssl_keyfile, ssl_cert_reqs, ssl_check_hostname
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from holdfast.errors import BadOption
from holdfast.store.url_options import flag, number

PORT, SENTINEL_PORT = 6379, 26379
MOST_PARTITIONS = 4096

_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_OURS = frozenset(
    {"namespace", "partitions", "pool_size", "timeout", "listen", "cluster", "sentinel"}
)
_TLS = frozenset(
    {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
)


class Options(msgspec.Struct, frozen=True):
    """A parsed URL. `where` may be shown to people: it never holds the password."""

    hosts: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    database: int
    tls: bool
    tls_settings: dict[str, Any]
    cluster: bool
    sentinel: str | None
    namespace: str
    partitions: int
    pool_size: int
    timeout: float
    listen: bool
    where: str

    def tag(self, partition: int) -> str:
        """What every key of a partition begins with; the braces make it one cluster slot."""
        return f"{{{self.namespace}:{partition}}}"

    def __repr__(self) -> str:
        return f"Options({self.where!r})"

    @classmethod
    def of(cls, url: str) -> Options:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        unknown = set(query) - _OURS - _TLS
        if unknown:
            listed = ", ".join(sorted(_OURS | _TLS))
            raise BadOption("option in the store URL", f"one of {listed}", sorted(unknown)[0])
        credentials, _, netloc = parts.netloc.rpartition("@")
        user, _, password = credentials.partition(":")
        sentinel, database = _path(parts.scheme, parts.path, query)
        namespace = _namespace(query.get("namespace", "holdfast"))
        cluster = flag(query, "cluster", default=False)
        if cluster and (sentinel or database):
            raise BadOption("a cluster's URL", "without a database or sentinel", parts.path)
        return cls(
            hosts=_hosts(netloc, SENTINEL_PORT if sentinel else PORT),
            username=unquote(user) or None,
            password=unquote(password) or None,
            database=database,
            tls=parts.scheme.partition("+")[0] in ("valkeys", "rediss"),
            tls_settings=_tls(query),
            cluster=cluster,
            sentinel=sentinel,
            namespace=namespace,
            partitions=_partitions(query.get("partitions", "1")),
            pool_size=int(number(query, "pool_size", 8, least=1)),
            timeout=number(query, "timeout", 30, least=0.1),
            listen=flag(query, "listen", default=True),
            where=f"{parts.scheme}://{netloc or 'localhost'}{parts.path} (namespace {namespace})",
        )


def _hosts(netloc: str, port: int) -> tuple[tuple[str, int], ...]:
    found = []
    for one in netloc.split(","):
        parts = urlsplit(f"//{one}")
        try:
            found.append((parts.hostname or "localhost", parts.port or port))
        except ValueError:
            raise BadOption("port in the store URL", "a number up to 65535", one) from None
    return tuple(found)


def _path(scheme: str, path: str, query: dict[str, str]) -> tuple[str | None, int]:
    """Read what follows the hosts: a database, or with sentinels a service and then a database."""
    words = [unquote(word) for word in path.split("/") if word]
    sentinel = query.get("sentinel")
    if scheme.endswith("+sentinel") and sentinel is None:
        if not words:
            raise BadOption("a sentinel's URL", "one that names a service: …://hosts/service", path)
        sentinel = words.pop(0)
    database = words.pop(0) if words else "0"
    if words or not database.isdigit():
        raise BadOption("database in the store URL", "a number, as in valkey://host/0", path)
    return sentinel, int(database)


def _namespace(name: str) -> str:
    if not _NAMESPACE.match(name):
        raise BadOption("namespace", "1 to 64 letters, digits or _ . -", name)
    return name


def _partitions(text: str) -> int:
    count = int(text) if text.isdigit() else 0
    if not 1 <= count <= MOST_PARTITIONS or count & (count - 1):
        raise BadOption("partitions", f"a power of two from 1 to {MOST_PARTITIONS}", text)
    return count


def _tls(query: dict[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {key: query[key] for key in _TLS & query.keys()}
    if "ssl_check_hostname" in settings:
        settings["ssl_check_hostname"] = flag(query, "ssl_check_hostname", default=True)
    return settings
