"""Jobs with limits, for the scenes of conformance tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.passing import joined, joined_costs
from holdfast.job.record import Claimed
from holdfast.job.ties import Tie
from holdfast.limits.model import BucketInfo, Concurrency, Settings
from tests.conformance.builders import Scene


def through(
    *buckets: str, fair: str | None = None, labels: Sequence[str] = (), weight: int = 1
) -> dict[str, Any]:
    """The options of a job that passes these buckets."""
    line = joined(buckets, labels=labels, fair=fair)
    return {"buckets": line, "ties": int(Tie.PERMITS), "weight": weight}


def costing(**units: int) -> dict[str, Any]:
    """The options of a job that passes the buckets without keys of these limits, at these costs."""
    return at_cost({f"{limit}:": cost for limit, cost in units.items()})


def at_cost(units: Mapping[str, int]) -> dict[str, Any]:
    """The options of a job that passes these buckets at these costs."""
    return {**through(*units), "costs": joined_costs(units)}


async def limited(scene: Scene, **most: int) -> None:
    """Define concurrency limits."""
    await scene.store.limits.declare({name: Concurrency(n) for name, n in most.items()})


async def define(scene: Scene, **limits: Settings) -> None:
    await scene.store.limits.declare(limits)


async def bucket(scene: Scene, name: str) -> BucketInfo:
    [found] = await scene.store.limits.get([name])
    return found


async def in_use(scene: Scene, name: str) -> int:
    return (await bucket(scene, name)).in_use


async def begun(scene: Scene, count: int, *buckets: str, **options: Any) -> list[Claimed]:
    """So many jobs that pass these buckets, enqueued and claimed."""
    jobs = await scene.enqueue_many(count, **through(*buckets), **options)
    claimed = await scene.claim(count, options.get("queue", "default"))
    assert {job.id for job in claimed} == set(jobs)
    return claimed


async def nothing_is_wrong(scene: Scene) -> None:
    """The counts of all buckets are those of the leases."""
    recounted = await scene.store.limits.recount(1000)
    assert recounted.wrong == ()


def of(claimed: list[Claimed]) -> list[JobId]:
    return [job.id for job in claimed]
