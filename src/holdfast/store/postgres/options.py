"""What a postgres:// URL says: where to connect, and how.

Options of ours ride in the query string beside those of the driver:

    ?schema=holdfast        the schema that holds the tables
    &pool_size=3            most connections at once, beside the listener's and the heartbeat's
    &statement_timeout=30   seconds any one call may take
    &key_timeout=5          seconds an enqueue waits for a unique key in an open transaction
    &pooler=true            behind a transaction pooler: nothing is kept in a session
    &listen=false           do not LISTEN; polling alone finds work
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

import msgspec

from holdfast.errors import BadOption
from holdfast.store.url_options import flag, number

_SCHEMA = re.compile(r"^[a-z_][a-z0-9_]{0,62}$")
_OURS = frozenset({"schema", "pool_size", "statement_timeout", "key_timeout", "pooler", "listen"})


class Options(msgspec.Struct, frozen=True):
    """A parsed URL. `dsn` holds the password and is never shown; `where` never holds it."""

    dsn: str
    where: str
    schema: str
    pool_size: int
    statement_timeout: float
    key_timeout: float
    pooler: bool
    listen: bool

    @classmethod
    def of(cls, url: str) -> Options:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        schema = _schema(query.get("schema", "holdfast"))
        pooler = flag(query, "pooler", default=False)
        theirs = urlencode({key: value for key, value in query.items() if key not in _OURS})
        return cls(
            dsn=parts._replace(scheme="postgresql", query=theirs).geturl(),
            where=f"{_redacted(parts)} (schema {schema})",
            schema=schema,
            pool_size=int(number(query, "pool_size", 3, least=1)),
            statement_timeout=number(query, "statement_timeout", 30, least=0.1),
            key_timeout=number(query, "key_timeout", 5, least=0.1),
            pooler=pooler,
            listen=flag(query, "listen", default=not pooler) and not pooler,
        )

    @property
    def channel(self) -> str:
        """The channel of this schema: short enough that with `_few` behind it, it is an identifier
        of Postgres for every schema."""
        return f"holdfast_{self.schema}"[:59]


def _schema(name: str) -> str:
    if not _SCHEMA.match(name):
        raise BadOption("schema", "1 to 63 of a-z, 0-9 and _, not starting with a digit", name)
    return name


def _redacted(parts: SplitResult) -> str:
    """The URL without its password, query and everything else that might be a secret."""
    host = parts.netloc.rpartition("@")[2] or "localhost"
    user = f"{parts.username}@" if parts.username else ""
    return f"postgres://{user}{host}{parts.path}"
