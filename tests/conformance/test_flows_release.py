"""What the end of a node does: it is done by whatever ends the node, in the same step."""

from __future__ import annotations

import itertools

import pytest

from holdfast.flow.model import CASCADE_LIMIT, FAILURE, ErrandKind, FlowState
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    Skipped,
    Snoozed,
    TimedOut,
    WorkerLost,
)
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.support.cascades import cut_off_at
from tests.support.flows import Trip, Waits, any_of, ended, every, failed, quorum

CANCELLED = Cancelled("not wanted")


async def test_a_node_is_released_when_all_it_needs_has_succeeded(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"]})
    await trip.end("a")
    assert await trip.state("c") is JobState.BLOCKED
    [gate] = (await trip.nodes())["c"].gates
    assert (gate.won, gate.lost, [edge.upstream for edge in gate.edges]) == (1, 0, [trip.ids["b"]])
    await trip.end("b")
    assert await trip.state("c") is JobState.READY
    assert (await trip.nodes())["c"].gates == ()


async def test_both_upstreams_of_a_join_end_in_one_batch(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"]})
    await trip.end("a", "b")
    assert await trip.state("c") is JobState.READY


async def test_what_is_released_is_claimed_with_its_ties_and_counted(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a")
    [claimed] = await scene.claim(10)
    assert (claimed.id, claimed.ties, claimed.ready_at) == (trip.ids["b"], 1, scene.clock.now)
    moves = {total.what.value: total.jobs for total in await scene.store.telemetry.totals()}
    assert (moves["released"], moves["enqueued"], moves["succeeded"]) == (1, 2, 1)
    assert await scene.store.telemetry.recount() == []


@pytest.mark.parametrize("width", [1, 4, 400])
async def test_a_node_releases_all_that_wait_for_it(scene: Scene, width: int) -> None:
    """However many they are: the worker is told of the node."""
    leaves = {f"leaf {n}": ["a"] for n in range(width)}
    trip = await Trip.begin(scene, {"a": [], **leaves, "last": [*leaves]})
    [claimed] = await scene.claim(10)
    told = await scene.store.flows.inputs([claimed.id])
    assert (told[claimed.id].flow, told[claimed.id].name) == (trip.id, "a")
    await scene.store.jobs.finish([decide(claimed, RETURNED)])
    states = await trip.states()
    assert {states.pop(name) for name in leaves} == {"ready"}
    assert states == {"a": "succeeded", "last": "blocked"}
    await trip.end(*leaves)
    assert await trip.state("last") is JobState.READY


async def test_a_node_with_a_delay_waits_for_it_after_its_release(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]}, delays={"b": 30.0})
    await trip.end("a")
    assert await trip.state("b") is JobState.SCHEDULED
    assert (await scene.job(trip.ids["b"])).due_at == scene.after(30)


@pytest.mark.parametrize(
    ("end", "to"),
    [(FAILED, "failed"), (CANCELLED, "cancelled"), (DeadlinePassed(), "expired")],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_whatever_else_ends_an_upstream_skips_who_needs_it(
    scene: Scene, end: End, to: str
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.end("a", end=end)
    assert await trip.states() == {"a": to, "b": "skipped", "c": "skipped"}
    assert (await scene.job(trip.ids["b"])).reason == f"'a' is {to}"
    assert (await scene.job(trip.ids["c"])).reason == "'b' is skipped"
    info = await trip.info()
    ended_as = FlowState.CANCELLED if to == "cancelled" else FlowState.FAILED
    assert (info.state, info.open, info.failed) == (ended_as, 0, 1)
    assert await scene.store.telemetry.recount() == []


async def test_a_retry_decides_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a", end=Snoozed(5.0))
    assert await trip.states() == {"a": "scheduled", "b": "blocked"}


async def test_a_lost_worker_and_a_timeout_end_a_node_as_any_failure(scene: Scene) -> None:
    once = {"a": {"policy": Policy(retry=Retry.never())}}
    for end in (WorkerLost("killed"), TimedOut(1.0)):
        trip = await Trip.begin(scene, {"a": [], "b": ["a"]}, node_options=once)
        await trip.end("a", end=end)
        assert await trip.states() == {"a": "failed", "b": "skipped"}


async def test_a_reclaimed_node_releases_too(scene: Scene) -> None:
    once = {"a": {"policy": Policy(retry=Retry.never())}}
    trip = await Trip.begin(scene, {"a": [], "b": failed("a")}, node_options=once)
    worker = await scene.hire(lease=5.0)
    await scene.claim(1, worker=worker)
    scene.clock.advance(10)
    [lapsed] = await scene.store.jobs.lapsed_leases(10)
    assert (await scene.reclaim(lapsed, WorkerLost("gone"))).accepted
    assert await trip.states() == {"a": "failed", "b": "ready"}


async def test_a_refused_end_decides_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    claimed = await scene.claim_one()
    await scene.finish(claimed, Snoozed(0.0))
    verdict = await scene.finish(claimed, RETURNED)
    assert not verdict.accepted
    assert await trip.state("b") is JobState.BLOCKED


GATES: list[tuple[Waits, list[str], End, str]] = [
    (any_of("a", "b"), ["a"], RETURNED, "ready"),
    (any_of("a", "b"), ["a"], FAILED, "blocked"),
    (any_of("a", "b"), ["a", "b"], FAILED, "skipped"),
    (quorum(2, "a", "b", "c"), ["a"], RETURNED, "blocked"),
    (quorum(2, "a", "b", "c"), ["a", "c"], RETURNED, "ready"),
    (quorum(2, "a", "b", "c"), ["a"], FAILED, "blocked"),
    (quorum(2, "a", "b", "c"), ["a", "b"], FAILED, "skipped"),
    (failed("a", "b"), ["b"], FAILED, "ready"),
    (failed("a", "b"), ["b"], RETURNED, "blocked"),
    (failed("a", "b"), ["a", "b"], RETURNED, "skipped"),
    (failed("a"), ["a"], CANCELLED, "skipped"),
    (failed("a"), ["a"], DeadlinePassed(), "ready"),
    (ended("a", "b"), ["a", "b"], FAILED, "ready"),
    (ended("a", "b"), ["a"], CANCELLED, "blocked"),
    (ended("a"), ["a"], CANCELLED, "ready"),
    (["a", any_of("b", "c")], ["a"], RETURNED, "blocked"),
    (["a", any_of("b", "c")], ["b"], RETURNED, "blocked"),
    (["a", any_of("b", "c")], ["a", "c"], RETURNED, "ready"),
    (["a", any_of("b", "c")], ["a"], FAILED, "skipped"),
]


@pytest.mark.parametrize("case", range(len(GATES)))
async def test_a_gate_counts(scene: Scene, case: int) -> None:
    waits, names, end, state = GATES[case]
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": [], "z": waits})
    await trip.end(*names, end=end)
    assert await trip.state("z") == state


async def test_a_gate_that_was_met_is_not_met_again(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": any_of("a", "b")})
    await trip.end("a")
    await trip.end("z")
    await trip.end("b")
    assert await trip.states() == {"a": "succeeded", "b": "succeeded", "z": "succeeded"}
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_a_skip_that_a_handler_asks_for_fails_no_flow(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.end("a", end=Skipped("nothing to do"))
    assert await trip.states() == {"a": "skipped", "b": "skipped", "c": "skipped"}
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_a_failure_that_is_handled_fails_no_flow(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "mend": failed("a")})
    await trip.end("a", end=FAILED)
    await trip.end("mend")
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_a_flow_ends_with_its_last_node_and_is_kept_as_it_said(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": []})
    await trip.end("a")
    assert (await trip.info()).state is FlowState.RUNNING
    await trip.end("b", end=FAILED)
    info = await trip.info()
    assert (info.state, info.failed, info.open) == (FlowState.FAILED, 1, 0)
    assert (info.finished_at, info.expires_at) == (scene.clock.now, scene.after(200))


async def test_a_blocked_node_that_is_cancelled_counts_for_those_behind_it(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ended("b"), "d": ["b"]})
    await scene.store.jobs.finish([decide(await scene.live(trip.ids["b"]), CANCELLED)])
    assert await trip.states() == {"a": "ready", "b": "cancelled", "c": "ready", "d": "skipped"}
    await trip.end("a")
    await trip.end("c")
    assert (await trip.info()).state is FlowState.CANCELLED, "nobody did what 'd' was for"


async def test_a_blocked_node_ends_before_its_upstream_in_one_batch(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"], "d": []})
    await trip.claim()
    ends: dict[str, End] = {"b": CANCELLED, "a": RETURNED, "d": FAILED}
    jobs = {job.id: job for job in await scene.store.jobs.live(list(trip.ids.values()))}
    verdicts = await scene.store.jobs.finish(
        [decide(jobs[trip.ids[name]], end) for name, end in ends.items()]
    )
    assert [verdict.accepted for verdict in verdicts] == [True] * 3
    assert await trip.states() == {
        "a": "succeeded",
        "b": "cancelled",
        "c": "skipped",
        "d": "failed",
    }
    assert (await trip.info()).state is FlowState.FAILED


def chain(nodes: int) -> dict[str, Waits]:
    names = [f"n{n:04}" for n in range(nodes)]
    graph: dict[str, Waits] = {names[0]: []}
    return graph | {name: [before] for before, name in itertools.pairwise(names)}


async def test_a_chain_of_skips_ends_at_once(scene: Scene) -> None:
    trip = await Trip.begin(scene, chain(CASCADE_LIMIT))
    await trip.end("n0000", end=FAILED)
    assert (await trip.info()).state is FlowState.FAILED
    assert (await trip.info()).open == 0
    assert await scene.store.flows.errands(10) == []


async def test_a_node_that_was_skipped_for_no_bad_end_fails_by_a_skip_that_follows(
    scene: Scene,
) -> None:
    """In the order "good", "bad" the skips follow each other otherwise, and the flow ends alike."""
    graph: dict[str, Waits] = {
        "bad": [],
        "good": [],
        "other": [],
        "both": quorum(2, "bad", "good", wants=FAILURE),
        "two": quorum(2, "bad", "other", "both"),
        "all": quorum(3, "bad", "two", "good", wants=FAILURE),
    }
    trip = await Trip.begin(scene, graph)
    await trip.end("bad", end=FAILED)
    await trip.end("good")  # skips "both" and "all" at once, and then "two", for a failure
    assert (await trip.nodes())["all"].reason == "'good' is succeeded"
    await trip.end("other")
    assert {(await trip.states())[name] for name in ("both", "two", "all")} == {"skipped"}
    assert (await trip.nodes())["all"].reason == "'two' is skipped"
    assert (await trip.info()).state is FlowState.FAILED


async def test_a_long_chain_of_skips_ends_in_bounded_bites(scene: Scene) -> None:
    trip = await Trip.begin(scene, chain(3 * CASCADE_LIMIT))
    await trip.end("n0000", end=FAILED)
    left = [3 * CASCADE_LIMIT - 1]
    while owed := await scene.store.flows.errands(10):
        assert [(one.kind, one.flow) for one in owed] == [(ErrandKind.SETTLE, trip.id)]
        left.append((await trip.info()).open)
        await scene.store.flows.settle([trip.id])
        await scene.store.flows.done([owed[0].id])
    info = await trip.info()
    assert (info.state, info.open) == (FlowState.FAILED, 0)
    bites = [before - after for before, after in itertools.pairwise([*left, 0])]
    assert len(bites) == 3
    assert max(bites) <= CASCADE_LIMIT + 1


async def test_a_node_at_which_a_cascade_was_cut_off_is_counted_once(scene: Scene) -> None:
    """Its other upstream ends before the rest is settled."""
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": []})
    with cut_off_at(1):
        await trip.end("a", end=FAILED)
        await trip.end("b", end=FAILED)
    await scene.store.flows.settle([trip.id])
    assert (await trip.info()).open == 1, "e runs"
    assert (await trip.states())["d"] == "skipped"


async def test_nodes_are_kept_and_removed_with_their_flow(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a")
    scene.clock.advance(10 * 365 * 86_400.0 - 10)
    assert await scene.store.jobs.prune(100) == 0
    assert await scene.store.jobs.delete([trip.ids["a"]]) == []
    assert await scene.store.jobs.requeue([trip.ids["a"]]) == []
    await trip.end("b")
    assert await scene.store.flows.prune(10) == 0
    scene.clock.advance(101)
    assert await scene.store.flows.prune(10) == 1
    assert await scene.store.flows.get([trip.id]) == []
    assert await scene.states(list(trip.ids.values())) == [None, None]
    assert await scene.store.telemetry.recount() == []


async def test_jobs_of_no_flow_end_beside_nodes(scene: Scene) -> None:
    plain = await scene.enqueue()
    trip = await Trip.begin(scene, {"a": [], "b": every("a")})
    await trip.claim()
    jobs = await scene.store.jobs.live([plain, trip.ids["a"]])
    verdicts = await scene.store.jobs.finish([decide(job, RETURNED) for job in jobs])
    assert [verdict.accepted for verdict in verdicts] == [True, True]
    assert await trip.states() == {"a": "succeeded", "b": "ready"}
    assert await scene.state(plain) is JobState.SUCCEEDED


async def test_a_first_node_that_skips_itself_leaves_who_needs_another_waiting(
    scene: Scene,
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": any_of("a", "b"), "y": ["z"]})
    await trip.end("a", end=Skipped("nothing to do"))
    [gate] = (await trip.nodes())["z"].gates
    assert (gate.won, gate.lost, [edge.upstream for edge in gate.edges]) == (0, 1, [trip.ids["b"]])
    await trip.end("b", end=Skipped("nothing to do"))
    assert await trip.states() == dict.fromkeys("abyz", "skipped")
    assert (await trip.info()).state is FlowState.SUCCEEDED
