"""A migrated, empty database for each test of what is particular to Postgres."""

from __future__ import annotations

import pytest

from tests.support.backends import PostgresDatabase, warm_postgres

LOOK_AT_SESSIONS_OR_PLANS = {
    "test_connections",
    "test_limit_plans",
    "test_line_starts",
    "test_listening",
    "test_old_snapshots",
    "test_plans",
    "test_pool",
    "test_read_only",
    "test_settling",
    "test_worker_connections",
}
"""Files whose tests count connections, end them, or measure how much a statement reads."""


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    """With sessions of its own and the server's own plans where a test is about these. The other
    files are about what statements do, and share the warm sessions of all suites."""
    name = request.module.__name__.rpartition(".")[2]
    looks = name in LOOK_AT_SESSIONS_OR_PLANS
    return PostgresDatabase(request) if looks else warm_postgres(request)


@pytest.fixture
async def url(database: PostgresDatabase) -> str:
    return await database.empty()
