"""Jobs with steps to undo: a bad end owes it, and nothing comes between."""

from __future__ import annotations

import pytest

from holdfast.flow.errands import do_errand
from holdfast.flow.ids import undo_flow_id
from holdfast.flow.model import ErrandKind, Reopening
from holdfast.flow.undoing import NAME
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    HandedBack,
    Skipped,
    WasSuspended,
    WorkerLost,
)
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, Retention, encode_policy
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from holdfast.job.undo import Undo, encode_undo
from holdfast.job.unique import Unique
from tests.conformance.builders import FAILED, RETURNED, STEADY, Scene
from tests.support.flows import Trip

UNDO = encode_undo(Undo("release", "seat", "undo", encode_policy(STEADY)))
LATER = 10_000_000


async def done(scene: Scene, job: Claimed, *names: str) -> None:
    """The attempt has recorded these steps, which can be undone."""
    records = [
        StepRecord(job.id, job.fence, name, n, result=f'"{name}"', undo=UNDO)
        for n, name in enumerate(names, 1)
    ]
    assert all(await scene.store.steps.record(records))


async def owed(scene: Scene) -> list[tuple[str, str | None]]:
    found = await scene.store.flows.errands(100)
    return [(one.flow, one.job) for one in found if one.kind is ErrandKind.UNDO]


async def ended(scene: Scene, end: End = FAILED) -> JobId:
    job = await scene.running()
    await done(scene, job, "a", "b")
    assert (await scene.finish(await scene.live(job.id), end)).accepted
    return job.id


async def test_a_step_that_can_be_undone_says_so(scene: Scene) -> None:
    job = await scene.running()
    assert all(await scene.store.steps.record([StepRecord(job.id, job.fence, "x", 1, result="1")]))
    assert not (await scene.live(job.id)).ties & Tie.UNDO
    await done(scene, job, "a")
    assert (await scene.live(job.id)).ties & Tie.UNDO
    steps = (await scene.store.steps.load([job.id]))[job.id]
    assert {step.name: step.undo for step in steps} == {"a": UNDO, "x": None}


@pytest.mark.parametrize("end", [FAILED, Cancelled(), DeadlinePassed()])
async def test_a_bad_end_owes_that_the_steps_are_undone(scene: Scene, end: End) -> None:
    job = await ended(scene, end)
    assert await owed(scene) == [(undo_flow_id(job), job)]


@pytest.mark.parametrize(
    "end", [RETURNED, Skipped("nothing to do"), HandedBack(), WasSuspended(None)]
)
async def test_no_other_end_owes_it(scene: Scene, end: End) -> None:
    await ended(scene, end)
    assert await owed(scene) == []


async def test_a_suspended_job_that_is_cancelled_owes_it(scene: Scene) -> None:
    job = await ended(scene, WasSuspended(None))
    assert (await scene.finish(await scene.live(job), Cancelled())).accepted
    assert await owed(scene) == [(undo_flow_id(job), job)]


@pytest.mark.parametrize("crashes", [1, 2])
async def test_a_lost_worker_owes_it_only_if_no_attempt_is_left(scene: Scene, crashes: int) -> None:
    gone = await scene.hire()
    await scene.enqueue(policy=Policy(max_crashes=crashes))
    job = await scene.claim_one(worker=gone)
    await done(scene, job, "a")
    await scene.store.workers.deregister(gone)
    [lost] = await scene.store.jobs.lapsed_leases(10)
    assert (await scene.reclaim(lost, WorkerLost())).accepted
    is_final = crashes == 1
    assert await owed(scene) == [(undo_flow_id(job.id), job.id)] * is_final


async def test_an_end_that_was_decided_before_the_record_owes_it_too(scene: Scene) -> None:
    job = await scene.running()
    before = await scene.live(job.id)
    await done(scene, job, "a")
    assert not before.ties & Tie.UNDO
    assert (await scene.finish(before, FAILED)).accepted
    assert await owed(scene) == [(undo_flow_id(job.id), job.id)]


async def test_a_record_that_comes_with_a_bad_end_counts(scene: Scene) -> None:
    import msgspec

    job = await scene.running()
    record = StepRecord(job.id, job.fence, "a", 1, result="1", undo=UNDO)
    move = msgspec.structs.replace(decide(job, FAILED), steps=(record,))
    assert (await scene.store.jobs.finish([move]))[0].accepted
    assert await owed(scene) == [(undo_flow_id(job.id), job.id)]


async def test_a_job_that_is_replaced_by_its_unique_key_owes_it(scene: Scene) -> None:
    await scene.enqueue(unique=Unique("k", on_conflict="replace"))
    job = await scene.claim_one()
    await done(scene, job, "a")
    assert (await scene.finish(await scene.live(job.id), WasSuspended(None))).accepted
    await scene.enqueue(unique=Unique("k", on_conflict="replace"))
    assert await owed(scene) == [(undo_flow_id(job.id), job.id)]


async def test_the_errand_starts_a_chain_in_reverse_order_once(scene: Scene) -> None:
    job = await ended(scene)
    errands = await scene.store.flows.errands(10)
    for errand in (*errands, *errands):
        assert await do_errand(scene.store, errand)
    [flow] = await scene.store.flows.get([undo_flow_id(job)])
    assert (flow.name, flow.total, flow.parent) == (NAME, 2, job)
    assert await scene.store.flows.children([job]) == {job: [flow.id]}
    first = (await scene.claim(5, "undo", tasks=["release"]))[0]
    assert first.args == '{"seat":"b"}'
    assert await scene.claim(5, "undo", tasks=["release"]) == []
    assert (await scene.finish(first, FAILED)).accepted
    [second] = await scene.claim(5, "undo", tasks=["release"])
    assert second.args == '{"seat":"a"}', "the end of an undo releases the next, whatever it is"
    assert (await scene.finish(second)).accepted
    [flow] = await scene.store.flows.get([flow.id])
    assert (flow.state, flow.failed) == ("failed", 1), "an undo that failed is a dead letter"
    assert await owed(scene) == []


async def test_a_job_is_not_removed_before_its_undo_has_begun(scene: Scene) -> None:
    policy = Policy(retention=Retention(0, 0, 0))
    job = await scene.running(policy=policy)
    await done(scene, job, "a")
    assert (await scene.finish(await scene.live(job.id), FAILED)).accepted
    scene.clock.advance(LATER)
    assert await scene.store.jobs.prune(10) == 0
    assert await scene.store.jobs.delete([job.id]) == []
    for errand in await scene.store.flows.errands(10):
        await do_errand(scene.store, errand)
    [undo] = await scene.claim(5, "undo", tasks=["release"])
    assert (await scene.finish(undo)).accepted
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(10)])
    assert await scene.store.jobs.prune(10) == 1
    assert await scene.store.flows.prune(10) == 1, "what undid it goes with it"
    assert await scene.store.jobs.get([undo.id]) == []


async def test_a_job_that_is_undone_is_not_requeued(scene: Scene) -> None:
    job = await ended(scene)
    assert await scene.store.jobs.requeue([job]) == []
    for errand in await scene.store.flows.errands(10):
        await do_errand(scene.store, errand)
    assert await scene.store.jobs.requeue([job]) == []
    assert (await scene.job(job)).state is JobState.FAILED


async def test_a_success_may_be_requeued_and_has_nothing_to_undo_then(scene: Scene) -> None:
    job = await ended(scene, RETURNED)
    assert await scene.store.jobs.requeue([job]) == [job]
    again = await scene.claim_one()
    assert not again.ties & Tie.UNDO
    assert (await scene.finish(again, FAILED)).accepted
    assert await owed(scene) == []


async def done_otherwise(scene: Scene, before: Claimed, *names: str, undo: str | None) -> Claimed:
    """The next attempt records these steps anew, as code of another version does."""
    assert (await scene.finish(before, HandedBack())).accepted
    again = await scene.claim_one()
    records = [
        StepRecord(again.id, again.fence, name, n, result='"anew"', version="2", undo=undo)
        for n, name in enumerate(names, 11)
    ]
    assert all(await scene.store.steps.record(records))
    return again


async def do_errands(scene: Scene) -> None:
    for errand in await scene.store.flows.errands(10):
        assert await do_errand(scene.store, errand)
    assert await scene.store.flows.errands(10) == []


async def with_nothing_left_to_undo(scene: Scene) -> JobId:
    """A job that failed. Its first attempt recorded a step with undo, its second without."""
    job = await scene.running(policy=Policy(retention=Retention(0, 0, 0)))
    await done(scene, job, "a")
    again = await done_otherwise(scene, job, "a", undo=None)
    assert (await scene.finish(again, FAILED)).accepted
    return job.id


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_job_with_nothing_left_to_undo_is_removed(scene: Scene, is_done: bool) -> None:
    job, other = await with_nothing_left_to_undo(scene), await with_nothing_left_to_undo(scene)
    if is_done:
        await do_errands(scene)
    assert await scene.store.jobs.delete([job]) == [job]
    scene.clock.advance(LATER)
    assert await scene.store.jobs.prune(10) == 1
    assert await scene.store.jobs.get([other]) == []
    await do_errands(scene)
    assert await scene.store.flows.get([undo_flow_id(job), undo_flow_id(other)]) == []


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_job_with_nothing_left_to_undo_is_requeued(scene: Scene, is_done: bool) -> None:
    job = await with_nothing_left_to_undo(scene)
    if is_done:
        await do_errands(scene)
    assert await scene.store.jobs.requeue([job]) == [job]
    again = await scene.claim_one()
    assert not again.ties & Tie.UNDO
    await do_errands(scene)
    assert await scene.store.flows.get([undo_flow_id(job)]) == []


async def test_a_node_with_nothing_left_to_undo_is_reopened(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"p": [], "q": ["p"]})
    node = await scene.claim_one()
    await done(scene, node, "a")
    again = await done_otherwise(scene, node, "a", undo=None)
    assert (await scene.finish(again, FAILED)).accepted
    plan = Reopening(flow=trip.id, epoch=(await trip.info()).epoch, ready=(node.id,))
    assert await scene.store.flows.reopen([plan]) == [trip.id]


async def test_what_was_not_recorded_anew_is_undone(scene: Scene) -> None:
    job = await scene.running()
    await done(scene, job, "a", "b")
    again = await done_otherwise(scene, job, "b", undo=None)
    assert (await scene.finish(again, FAILED)).accepted
    assert await scene.store.jobs.requeue([job.id]) == []
    assert await scene.store.jobs.delete([job.id]) == []
    await do_errands(scene)
    [undo] = await scene.claim(5, "undo", tasks=["release"])
    assert undo.args == '{"seat":"a"}'


async def test_a_step_that_a_later_attempt_can_undo_is_undone_with_its_result(scene: Scene) -> None:
    job = await scene.running()
    record = StepRecord(job.id, job.fence, "a", 1, result="1")
    assert await scene.store.steps.record([record]) == [True]
    again = await done_otherwise(scene, job, "a", undo=UNDO)
    assert (await scene.finish(again, FAILED)).accepted
    assert await scene.store.jobs.requeue([job.id]) == []
    await do_errands(scene)
    [undo] = await scene.claim(5, "undo", tasks=["release"])
    assert undo.args == '{"seat":"anew"}'


async def test_a_node_that_is_undone_is_not_reopened(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"p": [], "q": ["p"]})
    node = await scene.claim_one()
    await done(scene, node, "a")
    assert (await scene.finish(await scene.live(node.id), FAILED)).accepted
    assert await owed(scene) == [(undo_flow_id(node.id), node.id)]
    epoch = (await trip.info()).epoch
    plan = Reopening(flow=trip.id, epoch=epoch, ready=(node.id,))
    assert await scene.store.flows.reopen([plan]) == []
