"""The array types of the scripts, told to the driver.

The driver knows the plain types of Postgres by heart, and of arrays only `text[]`. For the others
it asks the server, when a statement that has one is first used on a connection. That happens three
or four times, by a query that costs the server more than the claim which waits for the answer. But
the numbers of these types are the same on every server.
"""

from __future__ import annotations

from typing import Any

from holdfast.store.postgres.pool import Connection

ARRAYS = {
    # array: (its number, the number of its elements' type)
    "_bool": (1000, 16),
    "_bytea": (1001, 17),
    "_int2": (1005, 21),
    "_int4": (1007, 23),
    "_int8": (1016, 20),
    "_float8": (1022, 701),
    "_timestamptz": (1185, 1184),
    "_uuid": (2951, 2950),
}


def _as_the_server_would_tell(name: str, oid: int, element: int) -> dict[str, object]:
    nothing = dict.fromkeys(("basetype", "range_subtype", "attrtypoids", "attrnames"))
    about = {"oid": oid, "ns": "pg_catalog", "name": name, "kind": b"b"}
    return {**nothing, **about, "elemtype": element, "elemdelim": b","}


_TOLD = [_as_the_server_would_tell(name, *oids) for name, oids in ARRAYS.items()]


def tell_array_types(connection: Connection) -> None:
    """By a part of the driver that is not public. A driver in which it has changed asks the server,
    as if nothing were told."""
    driver: Any = connection
    try:
        driver._protocol.get_settings().register_data_types(_TOLD)
    except (AttributeError, KeyError, TypeError):
        return
