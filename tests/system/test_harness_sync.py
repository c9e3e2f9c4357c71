"""The harness of tests without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast import AlreadyOpen, App, Context, JobState, NotOpen, Retry
from holdfast.testing import DrainFailed, Harness, SyncHarness

app = App("postgres://nobody.invalid/nothing")  # a harness never touches it


@app.task(queue="mail")
def send(to: str) -> str:
    if to == "down":
        raise ConnectionError("no server")
    return f"to {to}"


@app.task(retry=Retry.never())
def sign_up(to: str) -> None:
    send.using(delay=300).enqueue_sync(to)


def test_a_plain_test_enqueues_drains_and_moves_the_clock() -> None:
    before = set(threading.enumerate())
    with SyncHarness(app) as harness:
        sign_up.enqueue_sync("a")
        assert harness.drain().of(sign_up).states == {JobState.SUCCEEDED: 1}
        job = harness.assert_enqueued(send.using(delay=300), to="a")
        harness.assert_not_enqueued(send, to="b")
        assert [found.id for found in harness.enqueued(send)] == [job.id]
        assert harness.drain().attempts == 0
        harness.advance(minutes=5)
        harness.drain()
        assert send.job(job.id).result_sync() == "to a"
        assert app.sync.count() == {JobState.SUCCEEDED: 2}
    for thread in set(threading.enumerate()) - before:
        thread.join(5)  # one that was told to end may still be about to
    assert set(threading.enumerate()) <= before


def test_a_failure_is_raised_in_the_test() -> None:
    with SyncHarness(app) as harness:
        send.enqueue_sync("down")
        with pytest.raises(DrainFailed) as caught:
            harness.drain()
        assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_second_harness_and_a_closed_one_say_what_is_wrong() -> None:
    with SyncHarness(app) as harness:
        with pytest.raises(AlreadyOpen), SyncHarness(app):
            raise AssertionError("two stores at once")
        assert harness.drain().attempts == 0
    with pytest.raises(NotOpen, match="with SyncHarness"):
        harness.drain()


def test_each_harness_starts_empty_and_the_next_one_may_have_a_loop() -> None:
    for _ in range(2):
        with SyncHarness(app) as harness:
            assert harness.enqueued() == []
            send.enqueue_sync("a")


async def test_the_app_is_free_for_an_asynchronous_test_afterwards() -> None:
    async with Harness(app) as harness:
        await send.enqueue("a")
        assert (await harness.drain()).attempts == 1


def test_the_plugin_offers_an_opened_one(sync_harness_for: Callable[..., SyncHarness]) -> None:
    harness = sync_harness_for(app, tolerance=5)
    send.enqueue_sync("a")
    assert harness.drain().attempts == 1


def test_a_plain_test_answers_as_the_people_whom_a_job_asks() -> None:
    people = App("sqlite://")

    @people.task()
    def release(ctx: Context) -> bool:
        return ctx.invite("leads", of=["ann", "bob"]).quorum_sync(2).granted

    with SyncHarness(people) as harness:
        job = release.enqueue_sync()
        harness.drain()
        assert harness.answer(job.id, "leads", "ann").approve
        vote = harness.answer(job.id, "leads", "bob", approve=False, note="not yet")
        assert (vote.approve, vote.note) == (False, "not yet")
        harness.drain()
        assert job.result_sync() is False
    assert people.settings.signing_keys is None, "the keys were the harness's own"
