"""A migrated, empty database for each test of what is particular to Postgres."""

from __future__ import annotations

import pytest

from tests.support.backends import PostgresDatabase


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    return PostgresDatabase(request)


@pytest.fixture
async def url(database: PostgresDatabase) -> str:
    return await database.empty()
