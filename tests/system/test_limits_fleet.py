"""Rates and budgets over several real processes. `make chaos` takes the large ones."""

from __future__ import annotations

from holdfast.app import App
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


async def test_four_processes_together_keep_a_rate(fleet: Fleet, app: App) -> None:
    used = await rate_is_kept(fleet, app, most=40, seconds=2.5)
    assert used > 0.8, f"{used:.0%} of the rate was used"


async def test_four_processes_never_begin_beyond_a_budget_and_its_books_balance(
    fleet: Fleet, app: App
) -> None:
    await budget_balances(fleet, app, hard=1_200, kills=2)


async def test_a_deploy_exceeds_no_total_and_costs_no_attempt(fleet: Fleet, app: App) -> None:
    used = await deploy_over_a_total(fleet, app, total=6, workers=3)
    assert used > 0.6, f"{used:.0%} of the total ran"


async def test_a_flood_of_one_tenant_keeps_no_other_waiting(fleet: Fleet, app: App) -> None:
    seen = await flood(fleet, app, heavy=3_000, tenants=10, each=10)
    assert seen.beside < 2 * seen.alone + 1.0, seen


async def test_keys_are_served_by_their_weights(fleet: Fleet, app: App) -> None:
    shares = await served_by_weight(fleet, app, [1, 2, 4], jobs=100)
    assert all(abs(share - 1) < 0.2 for share in shares), shares
