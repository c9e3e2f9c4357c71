"""No connection asks the server for the types of arrays."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import asyncpg
import pytest

from holdfast.store.postgres.array_types import ARRAYS, tell_array_types
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.pool import Connection
from tests.stores.postgres.shared import connected, opened


async def test_no_script_has_a_type_that_the_driver_would_ask_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver asks by a query that costs the server more than most verbs, once for each script
    with a new type, on each connection."""
    asked, missing = list[object](), dict[str, object]()
    introspect = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]

    async def noted(connection: Any, types: object, timeout: object) -> Any:
        asked.append(types)
        return await introspect(connection, types, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", noted)

    async def prepare_all(session: Session) -> int:
        prepared = 0
        for verb, script in session._scripts.items():
            # All but those of several statements, and those that a verb fills in.
            with suppress(asyncpg.PostgresSyntaxError):
                await session.connection.prepare(script)
                prepared += 1
            if asked:
                missing[verb] = asked.pop()
        return prepared

    async with opened(url) as store:
        assert await store._connections.run(prepare_all) > 200
    assert missing == {}


async def test_the_types_are_those_of_the_server(url: str) -> None:
    async with connected(url) as connection:
        found = await connection.fetch(
            "select typname, oid, typelem, typdelim from pg_type where typname = any ($1)",
            list(ARRAYS),
        )
    assert {row["typname"]: (row["oid"], row["typelem"]) for row in found} == ARRAYS
    assert {row["typdelim"] for row in found} == {b","}


class Changed:
    """What a driver may become, as far as it is not public."""

    def get_settings(self) -> Changed:
        return self

    def register_data_types(self, types: Any) -> None:
        raise KeyError(types[0]["something new"])


@pytest.mark.parametrize("inside", [{}, {"_protocol": None}, {"_protocol": Changed()}])
def test_a_driver_that_has_changed_inside_is_told_nothing(inside: dict[str, object]) -> None:
    tell_array_types(cast(Connection, type("Driver", (), inside)()))
