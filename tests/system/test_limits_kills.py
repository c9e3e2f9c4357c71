"""Workers killed while their jobs hold permits: no limit is exceeded and no permit is lost.

The outside log is what handlers wrote into the diary. `make chaos` takes more keys, more jobs and
more kills.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.app import App
from tests.support.limit_kills import (
    Size,
    at_least_so_many,
    limited_fleet,
    naive_workers_exceed,
    seat_at,
    survive_kills,
)
from tests.support.limited import MOST
from tests.support.processes import Fleet

SHORT = Size(keys=30, jobs=800, milliseconds=(10, 40), every=0.3, most_kills=2)


@pytest.fixture
def fleet(shared_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with limited_fleet(shared_url, tmp_path) as fleet:
        yield fleet


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[App]:
    async with seat_at(fleet) as app:
        yield app


async def test_no_limit_is_exceeded_and_no_permit_lost_when_workers_are_killed(
    fleet: Fleet, app: App
) -> None:
    at_least_so_many(await survive_kills(fleet, app, SHORT), 2)


async def test_the_same_log_shows_it_when_workers_count_before_they_claim(
    fleet: Fleet, app: App
) -> None:
    """What the test before would say of a claim that is not exact."""
    assert max((await naive_workers_exceed(fleet, app, SHORT)).values()) > MOST
