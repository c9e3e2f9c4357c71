"""Two who change one flow: whoever comes first, the other one finds what is true.

A store makes all changes of one flow serial. Here each order is taken by two programs in turn. On
Postgres `tests/stores/postgres/test_flow_races.py` forces the same pairs to overlap, by locks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest

from holdfast.flow.errands import do_errand
from holdfast.flow.model import CloseWhat, FlowState, Grown, Reopening
from holdfast.job.outcome import decide
from holdfast.job.what import What
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.conformance.test_flows_extend import grown
from tests.support.backends import siblings
from tests.support.flaky import FlakyStore, Line
from tests.support.flows import Trip

Step = Callable[[], Awaitable[object]]
ORDERS = pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first", "second"])
Order = tuple[int, int]


@pytest.fixture
async def other(scene: Scene) -> AsyncIterator[Scene]:
    """The same scene through a store of another program."""
    async with siblings(scene.store, 1) as [store]:
        yield scene.through(store)


async def in_order(order: Order, *steps: Step) -> None:
    for place in order:
        await steps[place]()


async def end(scene: Scene, trip: Trip, name: str) -> None:
    [job] = await scene.store.jobs.live([trip.ids[name]])
    [verdict] = await scene.store.jobs.finish([decide(job, RETURNED)])
    assert verdict.accepted


@ORDERS
async def test_two_who_end_the_upstreams_of_a_join_release_it_once(
    scene: Scene, other: Scene, order: Order
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a", "b"]})
    await trip.claim()
    await in_order(order, partial(end, scene, trip, "a"), partial(end, other, trip, "b"))
    assert await trip.states() == {"a": "succeeded", "b": "succeeded", "z": "ready"}
    totals = await scene.store.telemetry.totals()
    assert sum(total.jobs for total in totals if total.what is What.RELEASED) == 1


@ORDERS
async def test_a_growth_and_the_end_of_its_upstream_miss_each_other_never(
    scene: Scene, other: Scene, order: Order
) -> None:
    trip = await Trip.begin(scene, {"a": [], "x": [], "z": ["a"]})
    await trip.claim()
    growth = grown(trip, await scene.live(trip.ids["a"]), {"b": ["x"]}, z=["b"])

    async def extend() -> None:
        assert await other.store.flows.extend([growth]) == [Grown.GROWN]

    await in_order(order, extend, partial(end, scene, trip, "x"))
    expected = {"a": "running", "b": "ready", "x": "succeeded", "z": "blocked"}
    assert await trip.states() == expected


@ORDERS
async def test_a_release_and_a_cancel_leave_one_truth(
    scene: Scene, other: Scene, order: Order
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.claim()
    close = partial(other.store.flows.close, [trip.id], CloseWhat.ALL)
    await in_order(order, partial(end, scene, trip, "a"), close)
    assert (await trip.states())["b"] == ("ready" if order == (0, 1) else "blocked")
    for errand in await other.store.flows.errands(10):
        await do_errand(other.store, errand)
    assert await trip.states() == {"a": "succeeded", "b": "cancelled"}
    assert (await trip.info()).state is FlowState.CANCELLED


@ORDERS
async def test_a_retry_and_the_end_of_another_node_both_count(
    scene: Scene, other: Scene, order: Order
) -> None:
    """`c` waits for both: the retry counts it anew, whether the other upstream has ended or not."""
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["b"], "d": ["c"]})
    await trip.end("a", end=FAILED)
    plan = Reopening(flow=trip.id, epoch=(await trip.info()).epoch, ready=(trip.ids["a"],))
    reopen = partial(other.store.flows.reopen, [plan])
    await in_order(order, reopen, partial(end, scene, trip, "b"))
    expected = {"a": "ready", "b": "succeeded", "c": "ready", "d": "blocked"}
    assert await trip.states() == expected
    assert (await trip.info()).open == 3


@ORDERS
async def test_a_flow_is_either_pruned_or_retried(scene: Scene, other: Scene, order: Order) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a", end=FAILED)
    plan = Reopening(flow=trip.id, epoch=(await trip.info()).epoch, ready=(trip.ids["a"],))
    scene.clock.advance(201)
    answers: list[object] = []

    async def reopen() -> None:
        answers.append(await other.store.flows.reopen([plan]))

    async def prune() -> None:
        answers.append(await scene.store.flows.prune(10))

    await in_order(order, reopen, prune)
    assert answers == ([[trip.id], 0] if order == (0, 1) else [1, []])
    there = order == (0, 1)
    assert len(await scene.store.flows.get([trip.id])) == there
    assert (await scene.state(trip.ids["a"]) is not None) == there


async def test_a_node_that_is_claimed_while_its_flow_is_cancelled_is_told(scene: Scene) -> None:
    """Between the look of whoever does the errand and its write."""
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.close()
    [errand] = await scene.store.flows.errands(10)
    line = Line()
    line.first["finish"] = trip.claim
    await do_errand(FlakyStore(scene.store, line), errand)
    assert (await scene.live(trip.ids["a"])).cancel_requested
    assert await trip.states() == {"a": "running", "b": "cancelled"}


async def test_an_errand_that_is_done_twice_at_once_does_no_harm(
    scene: Scene, other: Scene
) -> None:
    """Two reconcilers hear of the same errand."""
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.close()
    [errand] = await scene.store.flows.errands(10)
    line = Line()
    line.first["finish"] = partial(do_errand, other.store, errand)
    await do_errand(FlakyStore(scene.store, line), errand)
    assert set((await trip.states()).values()) == {"cancelled"}
    assert (await trip.info()).state is FlowState.CANCELLED
    assert await scene.store.telemetry.recount() == []
