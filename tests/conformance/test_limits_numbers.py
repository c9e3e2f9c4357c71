"""Large numbers are counted alike by every store: whole, up to a bound that all of them keep."""

from __future__ import annotations

from holdfast.job.passing import MOST_COUNTED, MOST_UNITS
from holdfast.limits.model import Budget
from holdfast.store.contract.limits import Take
from holdfast.store.contract.records import SpendReport
from tests.conformance.builders import Scene
from tests.conformance.limiting import at_cost, bucket, costing, define, in_use, nothing_is_wrong


async def test_what_is_spent_is_whole_up_to_the_bound_and_stays_there(scene: Scene) -> None:
    await define(scene, tokens=Budget(MOST_UNITS))
    limits = scene.store.limits
    for _ in range(9):
        await limits.adjust("tokens:", -MOST_UNITS)
    await limits.adjust("tokens:", -1)
    assert (await bucket(scene, "tokens:")).spent == 9 * MOST_UNITS + 1
    await limits.adjust("tokens:", -MOST_UNITS)
    assert (await bucket(scene, "tokens:")).spent == MOST_COUNTED
    await limits.adjust("tokens:", 1)
    assert (await bucket(scene, "tokens:")).spent == MOST_COUNTED - 1
    await limits.reset(["tokens:"])
    for _ in range(10):
        await limits.adjust("tokens:", MOST_UNITS)
    assert (await bucket(scene, "tokens:")).spent == -MOST_COUNTED


async def test_a_job_that_spends_more_than_can_be_counted_ends(scene: Scene) -> None:
    await define(scene, tokens=Budget(MOST_UNITS))
    jobs = [await scene.enqueue(**costing(tokens=1)) for _ in range(3)]
    held = await scene.claim(10)
    for one in held:
        report = SpendReport(one.id, one.fence, {"tokens": MOST_COUNTED})
        assert await scene.store.jobs.report_spend([report]) == [True]
        await scene.finish(one)
    assert {(await scene.job(job)).state for job in jobs} == {"succeeded"}
    found = await bucket(scene, "tokens:")
    assert (found.spent, found.in_use, found.room) == (MOST_COUNTED, 0, 0)
    await nothing_is_wrong(scene)


async def test_the_largest_costs_and_takes_are_exact(scene: Scene) -> None:
    await define(scene, tokens=Budget(MOST_UNITS))
    await scene.enqueue(**costing(tokens=MOST_UNITS - 1))
    [held] = await scene.claim(10)
    assert await in_use(scene, "tokens:") == MOST_UNITS - 1
    one, two = await scene.store.limits.take([Take("tokens:", 1), Take("tokens:", 1)])
    assert (one.granted, two.granted) == (True, False)
    await scene.finish(held)
    assert (await bucket(scene, "tokens:")).spent == MOST_UNITS
    await nothing_is_wrong(scene)


async def test_a_level_without_an_amount_adds_up_its_keys_exactly(scene: Scene) -> None:
    await define(scene, tokens=Budget(MOST_UNITS))
    cost = MOST_UNITS - 1
    for n in range(9):
        await scene.enqueue(**at_cost({"tokens:a": cost, f"tokens:a/{n}": cost}))
    held = await scene.claim(10)
    assert len(held) == 9
    assert await in_use(scene, "tokens:a") == 9 * cost
    for one in held:
        await scene.finish(one)
    assert (await bucket(scene, "tokens:a")).spent == 9 * cost
    await nothing_is_wrong(scene)
