"""Fairness between keys: turns by weight, one share for one key."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.errors import BadOption
from holdfast.job.ids import JobId
from tests.conformance.builders import RAISED, Scene
from tests.conformance.limiting import limited, nothing_is_wrong, of, through

QUANTUM = 4


async def backlog(scene: Scene, count: int, **weights: int) -> dict[JobId, str]:
    """Jobs of keys of fairness, without limits."""
    found: dict[JobId, str] = {}
    for key, weight in weights.items():
        jobs = await scene.enqueue_many(count, **through(fair=key, weight=weight))
        found |= dict.fromkeys(jobs, key)
    return found


async def served(scene: Scene, keys: dict[JobId, str], claims: int, size: int = 7) -> Counter[str]:
    counted: Counter[str] = Counter()
    for _ in range(claims):
        claimed = await scene.claim(size)
        counted.update(keys[job] for job in of(claimed))
        for job in claimed:
            await scene.finish(job)
    return counted


async def test_a_key_of_fairness_needs_no_limit(scene: Scene) -> None:
    jobs = await scene.enqueue_many(3, **through(fair="acme"))
    claimed = await scene.claim(10)
    assert of(claimed) == jobs
    await scene.finish(claimed[0], RAISED)
    for job in claimed[1:]:
        assert (await scene.finish(job)).accepted
    assert (await scene.store.limits.recount(10)).buckets == 0
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    assert of(await scene.claim(10)) == jobs[:1]


async def test_a_key_with_many_jobs_does_not_keep_others_waiting(scene: Scene) -> None:
    await scene.enqueue_many(200, **through(fair="heavy"))
    await scene.claim(20)
    light = await scene.enqueue(**through(fair="light"))
    claimed = of(await scene.claim(10))
    assert light in claimed


async def test_equal_keys_are_served_equally(scene: Scene) -> None:
    keys = await backlog(scene, 60, a=1, b=1, c=1)
    counted = await served(scene, keys, 15)
    assert sum(counted.values()) == 105
    assert max(counted.values()) - min(counted.values()) <= 2 * QUANTUM


async def test_weights_are_kept(scene: Scene) -> None:
    keys = await backlog(scene, 150, a=1, b=2, c=4)
    counted = await served(scene, keys, 25)
    total = sum(counted.values())
    for key, weight in (("a", 1), ("b", 2), ("c", 4)):
        assert abs(counted[key] - total * weight / 7) <= 2 * QUANTUM


async def test_one_key_has_one_share_however_many_lines_it_has(scene: Scene) -> None:
    await limited(scene, mail=1000, sms=1000, push=1000)
    keys: dict[JobId, str] = {}
    for limit in ("mail", "sms", "push"):
        jobs = await scene.enqueue_many(60, **through(f"{limit}:", fair="many"))
        keys |= dict.fromkeys(jobs, "many")
    keys |= dict.fromkeys(await scene.enqueue_many(60, **through("mail:", fair="one")), "one")
    counted = await served(scene, keys, 12)
    assert abs(counted["many"] - counted["one"]) <= 4 * QUANTUM
    await nothing_is_wrong(scene)


async def test_who_had_no_jobs_has_earned_nothing(scene: Scene) -> None:
    keys = await backlog(scene, 100, a=1)
    await served(scene, keys, 10)
    keys |= await backlog(scene, 100, late=1)
    counted = await served(scene, keys, 10)
    assert abs(counted["late"] - counted["a"]) <= 2 * 7, "two turns of a claim of 7"


async def test_an_operator_may_give_a_key_another_weight(scene: Scene) -> None:
    keys = await backlog(scene, 150, a=1, b=1)
    await scene.store.limits.weigh("a", 4)
    counted = await served(scene, keys, 20)
    assert abs(counted["a"] - 4 * counted["b"]) <= 6 * QUANTUM
    more = await scene.enqueue_many(50, **through(fair="a", weight=1))
    keys |= dict.fromkeys(more, "a")
    counted = await served(scene, keys, 10)
    assert counted["a"] > 2 * counted["b"], "it beats what jobs say"


async def test_a_weight_that_is_taken_back_is_the_jobs_again(scene: Scene) -> None:
    await scene.store.limits.weigh("a", 9)
    await scene.store.limits.weigh("a", None)
    keys = await backlog(scene, 60, a=1, b=1)
    counted = await served(scene, keys, 10)
    assert abs(counted["a"] - counted["b"]) <= 2 * QUANTUM


@pytest.mark.parametrize("weight", [0, -1, 1001])
async def test_a_weight_has_bounds(scene: Scene, weight: int) -> None:
    with pytest.raises(BadOption, match="weight"):
        await scene.store.limits.weigh("a", weight)


async def test_a_full_limit_of_one_line_holds_up_only_that_line_of_a_key(scene: Scene) -> None:
    await limited(scene, mail=1, sms=100)
    await scene.enqueue_many(3, **through("mail:", fair="a"))
    sms = await scene.enqueue_many(3, **through("sms:", fair="a"))
    claimed = [*of(await scene.claim(10)), *of(await scene.claim(10))]
    assert set(sms) < set(claimed)
    assert len(claimed) == 4
