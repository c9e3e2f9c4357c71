"""Twenty thousand jobs through two hundred keys while a worker is killed every second."""

from __future__ import annotations

import pytest

from holdfast.app import App
from tests.support.limit_kills import Size, at_least_so_many, survive_kills
from tests.support.limit_loads import (
    budget_balances,
    deploy_over_a_total,
    flood,
    rate_is_kept,
    served_by_weight,
)
from tests.support.processes import Fleet
from tests.system.test_limits_kills import app, fleet

__all__ = ["app", "fleet"]
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

LONG = Size(keys=200, jobs=20_000, within=300.0)


async def test_two_hundred_keys_never_show_a_fourth_at_once(fleet: Fleet, app: App) -> None:
    at_least_so_many(await survive_kills(fleet, app, LONG), 10)


async def test_a_rate_of_500_a_second_is_kept_and_used(fleet: Fleet, app: App) -> None:
    used = await rate_is_kept(fleet, app, most=500, seconds=30.0)
    assert used >= 0.97, f"{used:.1%} of the rate was used"


async def test_a_rate_of_100_a_second_is_kept_for_a_minute(fleet: Fleet, app: App) -> None:
    """An observer outside counts the starts of each window."""
    assert await rate_is_kept(fleet, app, most=100, seconds=60.0) >= 0.97


async def test_a_budget_of_10_000_units_balances_to_the_unit(fleet: Fleet, app: App) -> None:
    await budget_balances(fleet, app, hard=10_000, kills=10)


async def test_a_deploy_of_eight_workers_keeps_a_total_of_20(fleet: Fleet, app: App) -> None:
    used = await deploy_over_a_total(fleet, app, total=20, workers=8)
    assert used >= 0.9, f"{used:.1%} of the total ran"


async def test_200_000_jobs_of_one_tenant_keep_no_other_waiting(fleet: Fleet, app: App) -> None:
    seen = await flood(fleet, app, heavy=200_000, tenants=50, each=100)
    assert seen.beside <= 2 * seen.alone, seen


async def test_weights_of_1_2_and_4_are_served_within_5_percent(fleet: Fleet, app: App) -> None:
    shares = await served_by_weight(fleet, app, [1, 2, 4], jobs=2_000)
    assert all(abs(share - 1) <= 0.05 for share in shares), shares
