"""Failures: the same cause has one fingerprint wherever it runs, and an operator's verbs on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from holdfast import BadOption, UnknownFailure
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.events import Events
from holdfast.handlers.registry import Handler
from holdfast.job.ends import Raised
from holdfast.job.fingerprint import fingerprint, places
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.operations import leg
from holdfast.schedule.providers import Providers
from holdfast.store.contract.audit import AuditFilter
from holdfast.store.contract.operations import OperationState
from holdfast.store.contract.store import Store
from tests.conformance.builders import TASK, Scene
from tests.support.failing import handle, on_loop
from tests.support.working import ONCE, Shop

ORDER = fingerprint(TASK, "LookupError", "order 1 not found")
NOBODY = "0" * 16


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    client = Client(store, Providers(), Events())
    yield client
    await client.aclose()


async def fail(scene: Scene, count: int = 1, message: str = "order {} not found") -> list[JobId]:
    ends = [Raised("LookupError", message.format(n), final=True) for n in range(count)]
    return [(await scene.ended(end)).id for end in ends]


async def test_loop_thread_and_child_process_give_one_fingerprint(sealed_store: Store) -> None:
    shop = Shop(sealed_store, process=handle)
    shop.registry.add(Handler.of("loop", on_loop()))
    shop.registry.add(Handler.of("thread", handle))
    jobs = {
        name: await shop.enqueue(name, n, policy=ONCE)
        for n, name in enumerate(("loop", "thread", "process"))
    }
    await shop.drain(processes=1)
    seen = set()
    for name, job_id in jobs.items():
        [error] = (await shop.get(job_id)).errors
        whole = (error.kind, error.message, error.traceback)
        assert error.fingerprint == fingerprint(name, *whole)
        assert places(error.traceback or "") == ["failing.py in look_up", "failing.py in handle"]
        seen.add(fingerprint("any", *whole))
    assert len(seen) == 1
    found = await sealed_store.failures.find()
    assert {(one.task, one.count, one.dead) for one in found} == {(name, 1, 1) for name in jobs}


async def test_failures_are_read_in_pages(scene: Scene, client: Client) -> None:
    for word in ("red", "green", "blue"):
        await fail(scene, message=word)
        scene.clock.advance(1)
    first = await client.failures.page(limit=2)
    rest = await client.failures.page(limit=2, cursor=first.next_cursor)
    shown = [one.sample.message for one in (*first.failures, *rest.failures)]
    assert (shown, rest.next_cursor) == (["blue", "green", "red"], None)
    late = await client.failures.page(since=scene.clock.now - timedelta(seconds=1))
    assert [one.sample.message for one in late.failures] == ["blue"]
    assert (await client.failures.page(task="other")).failures == ()
    for wrong in ("", "yesterday/" + NOBODY, "2026-01-01T00:00:00+00:00/x"):
        with pytest.raises(BadOption, match="next_cursor of the page before"):
            await client.failures.page(cursor=wrong)


async def test_a_mute_hides_a_failure_until_it_ends(scene: Scene, client: Client) -> None:
    await fail(scene)
    await client.failures.mute(ORDER, timedelta(hours=1), by="ann")
    assert (await client.failures.page()).failures == ()
    assert len((await client.failures.page(muted=True)).failures) == 1
    scene.clock.advance(3_600)
    assert len((await client.failures.page()).failures) == 1
    await client.failures.mute(ORDER, until=scene.clock.now + timedelta(days=400), by="ann")
    await client.failures.unmute(ORDER, by="ann")
    assert len((await client.failures.page()).failures) == 1


async def test_verbs_on_failures_are_in_the_audit(
    scene: Scene, client: Client, store: Store
) -> None:
    await fail(scene)
    until = scene.clock.now + timedelta(days=1)
    await client.failures.mute(ORDER, until=until, by="ann")
    await client.failures.unmute(ORDER, by="ben")
    await client.failures.note(ORDER, "ticket 7", by="cid")
    await client.failures.note(ORDER, None)
    acts = (await store.audit.page(AuditFilter(target=ORDER), 10)).entries
    assert {(act.by, act.verb, act.changed, act.outcome.value) for act in acts} == {
        ("ann", "failures.mute", 1, "done"),
        ("ben", "failures.unmute", 1, "done"),
        ("cid", "failures.note", 1, "done"),
    }
    assert (await client.failures.get(ORDER)).note is None


async def test_an_unknown_failure_is_refused_before_anything_is_written(
    scene: Scene, client: Client, store: Store
) -> None:
    await fail(scene)
    for wrong in (NOBODY, "no fingerprint"):
        with pytest.raises(UnknownFailure, match="holdfast failures list"):
            await client.failures.mute(wrong, by="ann")
        with pytest.raises(UnknownFailure):
            await client.failures.unmute(wrong, by="ann")
        with pytest.raises(UnknownFailure):
            await client.failures.note(wrong, "x", by="ann")
    with pytest.raises(BadOption, match="duration"):
        await client.failures.mute(ORDER, 0, by="ann")
    with pytest.raises(BadOption, match="until"):
        await client.failures.mute(ORDER, until=scene.clock.now.replace(tzinfo=None), by="ann")
    with pytest.raises(BadOption, match="note"):
        await client.failures.note(ORDER, "", by="ann")
    with pytest.raises(BadOption, match="fingerprint"):
        await client.failures.redrive("x")
    assert (await store.audit.page(AuditFilter(), 10)).entries == ()


async def test_a_redrive_is_an_operation_with_a_canary_and_a_way_back(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leg, "JOB_BATCH", 3)
    jobs = await fail(scene, 7)
    [other] = await fail(scene, message="mailbox full")
    preview = await client.failures.preview(ORDER)
    assert (preview.matched, preview.by_queue, preview.can_undo) == (7, {"default": 7}, True)

    begun = await client.failures.redrive(ORDER, canary=2, reason="mended", by="ann")
    waiting = await client.operations.follow(begun.id)
    assert (waiting.state, waiting.progress.changed) == (OperationState.WAITING, 2)
    await client.operations.go_on(begun.id, by="ann")
    done = await client.operations.follow(begun.id)
    assert (done.state, done.progress.changed, done.progress.failed) == (OperationState.DONE, 7, 0)
    assert await scene.states(jobs) == [JobState.READY] * 7
    assert await scene.state(other) is JobState.FAILED
    assert ((await client.failures.get(ORDER)).dead, (await client.failures.get(ORDER)).count) == (
        0,
        7,
    )

    undone = await client.operations.follow((await client.operations.undo(begun.id)).id)
    assert undone.progress.changed == 7
    assert await scene.states(jobs) == [JobState.CANCELLED] * 7


async def test_jobs_are_found_and_changed_by_fingerprint(scene: Scene, client: Client) -> None:
    jobs = await fail(scene, 3)
    await fail(scene, message="mailbox full")
    page = await client.page(where=f"fingerprint:{ORDER} state:failed")
    assert {job.id for job in page.jobs} == set(jobs)
    assert await client.count(fingerprint=ORDER) == {JobState.FAILED: 3}
    assert (await client.delete_all(fingerprint=ORDER)).changed == 3
    with pytest.raises(BadOption, match="16 hexadecimal digits"):
        await client.page(fingerprint="x")
