"""Limits.take, give, adjust and reset: what handlers and operators do to buckets."""

from __future__ import annotations

import pytest

from holdfast.client.limits import LimitVerbs
from holdfast.errors import BadOption
from holdfast.limits.model import Budget, Concurrency, Rate
from holdfast.store.contract.limits import Take
from tests.conformance.builders import Scene
from tests.conformance.limiting import begun, bucket, costing, define, limited, of, through


async def test_a_take_of_a_rate_is_granted_while_there_is_room(scene: Scene) -> None:
    await define(scene, github=Rate(5, per=64))
    taken = await scene.store.limits.take(
        [Take("github:", 3), Take("github:", 3), Take("github:", 2)]
    )
    assert [one.granted for one in taken] == [True, False, True]
    assert taken[1].wait is not None
    assert 64 <= taken[1].wait <= 66
    assert taken[1].refused is None


async def test_takes_and_jobs_share_a_rate(scene: Scene) -> None:
    await define(scene, github=Rate(5, per=64, burst=5))
    await begun(scene, 3, "github:")
    [taken] = await scene.store.limits.take([Take("github:", 3)])
    assert (taken.granted, taken.wait) == (False, 64 / 5)
    scene.clock.advance(64 / 5)
    assert (await scene.store.limits.take([Take("github:", 3)]))[0].granted
    await scene.enqueue(**through("github:"))
    assert await scene.claim(1) == []


async def test_a_take_of_a_budget_is_spent(scene: Scene) -> None:
    await define(scene, tokens=Budget(10, every=600))
    first, second = await scene.store.limits.take([Take("tokens:a", 7), Take("tokens:a", 7)])
    assert (first.granted, second.granted) == (True, False)
    assert second.wait == (await bucket(scene, "tokens:a")).resets_in
    assert (await bucket(scene, "tokens:a")).spent == 7


async def test_a_take_along_a_path_is_all_or_none(scene: Scene) -> None:
    await define(scene, tokens=Budget(10))
    await scene.store.limits.override("tokens", "acme", Budget(12))
    ml, ops = (Take(f"tokens:acme/{team}", 8, ("tokens:acme",)) for team in ("ml", "ops"))
    taken = await scene.store.limits.take([ml, ops])
    assert [one.granted for one in taken] == [True, False]
    assert taken[1].wait is None, "only an operator gives more"
    found = await scene.store.limits.get(["tokens:acme", "tokens:acme/ml", "tokens:acme/ops"])
    assert [one.spent for one in found] == [8, 8, 0]


async def test_what_can_never_be_granted_is_refused(scene: Scene) -> None:
    await define(scene, github=Rate(5, per=64), tenant=Concurrency(3))
    takes = [Take("none:"), Take("tenant:"), Take("github:", 6), Take("github:")]
    none, tenant, many, one = await scene.store.limits.take(takes)
    assert none.refused is not None
    assert "not defined" in none.refused
    assert tenant.refused is not None
    assert "lease" in tenant.refused
    assert many.refused is not None
    assert "5" in many.refused
    assert one.granted


async def test_a_retired_limit_grants_every_take(scene: Scene) -> None:
    await define(scene, github=Rate(1, per=64))
    await scene.store.limits.retire(["github"])
    taken = await scene.store.limits.take([Take("github:")] * 3)
    assert all(one.granted for one in taken)


async def test_taking_nothing_answers_nothing(scene: Scene) -> None:
    assert await scene.store.limits.take([]) == []
    await scene.store.limits.give([])
    assert await scene.store.limits.reset([]) == []
    assert await scene.store.limits.alarms(10) == []


@pytest.mark.parametrize("rate", [Rate(2, per=64), Rate(2, per=64, burst=2)])
async def test_what_is_given_back_may_be_taken_again(scene: Scene, rate: Rate) -> None:
    await define(scene, github=rate)
    [taken] = await scene.store.limits.take([Take("github:", 2)])
    job = await scene.enqueue(**through("github:"))
    assert await scene.claim(1) == []
    await scene.store.limits.give([Take("github:", 1, at=taken.at)])
    assert of(await scene.claim(1)) == [job]


async def test_a_budget_takes_back_what_is_given(scene: Scene) -> None:
    await define(scene, tokens=Budget(10))
    [taken] = await scene.store.limits.take([Take("tokens:a", 10)])
    await scene.store.limits.give([Take("tokens:a", 4, at=taken.at)])
    assert (await bucket(scene, "tokens:a")).spent == 6


async def test_a_topped_up_budget_lets_more_begin(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, every=600))
    await scene.enqueue(**costing(tokens=100))
    [held] = await scene.claim(1)
    await scene.finish(held)
    job = await scene.enqueue(**costing(tokens=50))
    assert await scene.claim(1) == []
    found = await scene.store.limits.adjust("tokens:", 50)
    assert (found.spent, found.room) == (50, 50)
    assert of(await scene.claim(1)) == [job]
    assert (await scene.store.limits.adjust("tokens:", -60)).spent == 110
    scene.clock.advance(600)
    assert (await bucket(scene, "tokens:")).spent == 0


@pytest.mark.parametrize("name", ["github:", "tenant:", "none:"])
async def test_only_a_budget_is_topped_up(scene: Scene, name: str) -> None:
    await define(scene, github=Rate(1, per=64), tenant=Concurrency(1))
    with pytest.raises(BadOption, match="budget"):
        await scene.store.limits.adjust(name, 50)


@pytest.mark.parametrize(
    "settings", [Rate(1, per=64), Rate(1, per=64, burst=1), Budget(1)], ids=str
)
async def test_a_reset_forgets_what_was_spent_and_what_began(
    scene: Scene, settings: Rate | Budget
) -> None:
    await define(scene, some=settings)
    [held] = await begun(scene, 1, "some:")
    await scene.finish(held)
    job = await scene.enqueue(**through("some:"))
    assert await scene.claim(1) == []
    [found] = await scene.store.limits.reset(["some:"])
    assert (found.spent, found.room) == (0, 1)
    assert of(await scene.claim(1)) == [job]


async def test_a_concurrency_is_not_reset(scene: Scene) -> None:
    await limited(scene, tenant=1)
    with pytest.raises(BadOption, match="ends"):
        await scene.store.limits.reset(["tenant:"])


async def test_the_name_of_totals_is_no_limit_s(scene: Scene) -> None:
    with pytest.raises(BadOption, match="queue"):
        await scene.store.limits.put("queue", Concurrency(1))
    with pytest.raises(BadOption, match="queue"):
        await limited(scene, queue=1)


async def test_a_limit_that_is_not_defined_is_set_only_with_create(scene: Scene) -> None:
    verbs = LimitVerbs(scene.store)
    with pytest.raises(BadOption, match=r"one that is defined .*create=True.* got 'tenannt'"):
        await verbs.set("tenannt", most=5, by="ann")
    assert (await verbs.all(), await verbs.history("tenannt")) == ([], [])
    made = await verbs.set("tenannt", most=5, create=True, by="ann")
    assert made.settings == Concurrency(5)
    assert (await verbs.set("tenannt", most=6)).settings == Concurrency(6)


async def test_what_operators_did_to_a_limit_is_told(scene: Scene) -> None:
    verbs = LimitVerbs(scene.store)
    await verbs.set("tenant", most=5, create=True, by="ann")
    await verbs.set("tenant", key="acme", most=9, by="bob")
    await verbs.set("tenant", key="bits", most=1, by="ann")
    await verbs.set("other", most=1, create=True, by="ann")
    await verbs.weigh("tenant", 3, by="ann")
    await verbs.retire("tenant", by="cleo")
    acts = await verbs.history("tenant")
    assert [(one.by, one.verb) for one in acts] == [
        ("cleo", "limits.retire"),
        ("ann", "limits.set"),
        ("bob", "limits.set"),
        ("ann", "limits.set"),
    ]
    assert [one.by for one in await verbs.history("tenant", "acme")] == ["cleo", "bob", "ann"]
    assert [one.by for one in await verbs.history("tenant", page=1)] == ["cleo"]
    assert await verbs.history("never") == []
