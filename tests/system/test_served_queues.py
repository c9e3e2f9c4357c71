"""Which queues a worker serves: by default those of the app's own tasks, and patterns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import App, Slots
from holdfast.errors import BadOption
from holdfast.events import Event
from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.store.contract.records import Want
from tests.support.waiting import wait_until


def shop(url: str = "sqlite://") -> App:
    app = App(url)

    @app.task(name="send", queue="mail")
    async def send(to: str) -> str:
        return to

    @app.schedule("0 3 * * *", queue="nightly")
    @app.task(name="count")
    async def count() -> int:
        return 1

    return app


def unserved(app: App) -> list[Event]:
    found: list[Event] = []
    app.events.subscribe(
        lambda event: found.append(event) if event.name == "worker.queue_unserved" else None
    )
    return found


async def test_a_worker_serves_the_queues_of_tasks_and_schedules() -> None:
    app = shop()
    warned = unserved(app)
    async with app, app.worker() as worker:
        [row] = await app.client.workers.all()
        assert row.queues == {"mail": 50, "default": 50, "nightly": 50}
        job = await app.tasks["send"].enqueue("ann")
        await worker.drain()
        assert await job.result() == "ann"
    assert warned == []


async def test_an_app_without_tasks_serves_the_default_queue() -> None:
    app = App("sqlite://")
    async with app, app.worker():
        [row] = await app.client.workers.all()
        assert row.queues == {"default": 50}


async def test_a_queue_of_the_app_that_nobody_serves_is_named_at_the_start() -> None:
    app = shop()
    warned = unserved(app)
    async with app, app.worker({"default": 1, "nightly": 1}):
        fields = {"queue": "mail", "tasks": ["send"], "advice": "--queues mail"}
        assert [event.fields for event in warned] == [fields]
    async with app, app.worker({"mail": 1, "nightly": 1}):
        warned.clear()
        async with app.worker({"default": 1}):
            assert warned == [], "the other worker serves it"


async def test_an_option_that_no_worker_has_is_named() -> None:
    with pytest.raises(BadOption, match=r"option of a worker must be .*, got 'places'"):
        shop().worker(places=3)
    with pytest.raises(BadOption, match="queues must be queues with their slots"):
        shop().worker({})


# Patterns -----------------------------------------------------------------------------------


class Works:
    """An app whose handlers say in which queue they ran, and can be held."""

    def __init__(self, url: str) -> None:
        self.app = App(url, poll=0.05)
        self.ran: list[str] = []
        self.at_once = self.most = 0
        self.open = asyncio.Event()
        self.open.set()

        @self.app.task(name="note")
        async def note(queue: str) -> None:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await asyncio.sleep(0)
            await self.open.wait()
            self.at_once -= 1
            self.ran.append(queue)

        self.note = note

    async def enqueue(self, *queues: str) -> None:
        for queue in queues:
            await self.note.using(queue=queue).enqueue(queue)


@pytest.fixture
def works(shared_url: str) -> Works:
    return Works(shared_url)


async def test_a_star_serves_every_queue_that_there_is_or_will_be(works: Works) -> None:
    app = works.app
    async with app:
        await works.enqueue("mail", "eu:media")
        async with app.worker({"*": 5}) as worker:
            [row] = await app.client.workers.all()
            assert row.queues == {"*": 5}
            await worker.drain()
            assert sorted(works.ran) == ["eu:media", "mail"]
            await works.enqueue("born-later")
            await wait_until(lambda: "born-later" in works.ran, 30, "the new queue is served")
    assert sorted(works.ran) == ["born-later", "eu:media", "mail"]


async def test_a_prefix_serves_the_queues_that_begin_with_it(works: Works) -> None:
    app = works.app
    async with app:
        await works.enqueue("mail", "mail-eu", "mail:us", "media")
        async with app.worker({"mail*": 5}) as worker:
            await worker.drain()
        assert await app.client.count() == {JobState.READY: 1, JobState.SUCCEEDED: 3}
    assert "media" not in works.ran


async def test_queues_of_one_pattern_share_its_slots(works: Works) -> None:
    app = works.app
    works.open.clear()
    async with app:
        await works.enqueue(*(f"tenant-{number % 7}" for number in range(70)))
        async with app.worker({"tenant*": 4, "default": 1}) as worker:
            await wait_until(lambda: works.at_once == 4, 30, "four run")
            works.open.set()
            await worker.drain()
    assert works.most == 4
    assert len(works.ran) == 70


async def test_a_queue_with_a_name_of_its_own_keeps_its_own_slots(works: Works) -> None:
    app = works.app
    works.open.clear()
    async with app:
        await works.enqueue("mail", "mail", "mail", "other", "other", "other")
        async with app.worker({"*": 1, "mail": 2}):
            await wait_until(lambda: works.at_once == 3, 30, "two of mail and one other run")
            running = await app.client.page(states=[JobState.RUNNING])
            assert sorted(job.queue for job in running.jobs) == ["mail", "mail", "other"]
            works.open.set()


async def test_queues_share_slots_by_weight_and_each_has_its_least(works: Works) -> None:
    app = works.app
    works.open.clear()
    queues = {"heavy": Slots(weight=3), "light": Slots(weight=1), "rare": Slots(least=1)}

    async def running() -> dict[str, int]:
        page = await app.client.page(states=[JobState.RUNNING])
        return dict(Counter(job.queue for job in page.jobs))

    async with app:
        await works.enqueue(*["heavy", "light"] * 20)
        async with app.worker(queues, slots=9) as worker:
            await wait_until(lambda: works.at_once == 8, 30, "all but the slot of `rare`")
            assert await running() == {"heavy": 6, "light": 2}
            await works.enqueue("rare")
            await wait_until(lambda: works.at_once == 9, 30, "its slot was kept for it")
            works.open.set()
            await worker.drain()
            [row] = await app.client.workers.all()
            assert row.queues == {"heavy": 8, "light": 8, "rare": 9}
    assert works.most == 9
    assert len(works.ran) == 41


async def test_a_queue_alone_has_all_shared_slots_that_nobody_may_claim(works: Works) -> None:
    works.open.clear()
    async with works.app as app:
        await works.enqueue(*["a"] * 9)
        async with app.worker({"a": Slots(), "b": Slots(least=2)}, slots=6):
            await wait_until(lambda: works.at_once == 4, 30, "all but the two of `b`")
            works.open.set()
            await wait_until(lambda: len(works.ran) == 9, 30, "all ran")
    assert works.most == 4


@pytest.mark.parametrize(
    ("queues", "slots", "expected"),
    [
        ({"a": Slots()}, None, "the number that the queues with Slots share"),
        ({"a": 3}, 4, "no queue shares them"),
        ({"a": Slots(least=3), "b": Slots(least=2)}, 4, "at least 5: queues may always have 5"),
        ({"a": Slots(least=3), "b": Slots()}, 3, "at least 4: queues may always have 3"),
        ({"a*": Slots()}, 3, "the queues that a pattern fits share its slots already"),
        ({"a": Slots()}, 0, "slots must be a whole number"),
    ],
)
def test_slots_that_cannot_be_shared_are_refused(
    queues: dict[str, int | Slots], slots: int | None, expected: str
) -> None:
    with pytest.raises(BadOption, match=expected):
        App("sqlite://").worker(queues, slots=slots)


async def test_a_queue_that_a_pattern_serves_is_served_for_everybody(works: Works) -> None:
    app = works.app
    warned = unserved(app)
    async with app, app.worker({"def*": 1}):
        assert warned == []
        job = await works.note.using(queue="deferred", delay=3600).enqueue("x")
        codes = [reason.code for reason in (await app.client.explain(job.id)).reasons]
        assert "queue-unserved" not in codes


async def test_a_queue_of_a_pattern_is_forgotten_and_served_again(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that lives for months must not know every customer that ever had a queue."""
    monkeypatch.setattr("holdfast.worker.permits.FORGET_SECONDS", 0.2)
    app, names = works.app, [f"tenant-{number}" for number in range(20)]
    async with app:
        await works.enqueue(*names)
        async with app.worker({"tenant*": 4, "default": 1}) as worker:
            assert worker._pipeline is not None
            permits, runner = worker._pipeline.permits, worker._pipeline.runner
            await wait_until(lambda: len(works.ran) == 20, 30, "all ran")
            await wait_until(lambda: list(permits.slots) == ["default"], 30, "all are forgotten")
            assert list(runner._lanes) == list(permits.ever_served) == ["default"]
            await works.enqueue("tenant-3")
            await wait_until(lambda: len(works.ran) == 21, 30, "it is served again")


@pytest.mark.parametrize("choice", ["", "ma il", "-x*", "a*b", "**", "*x", "mail :3"])
def test_a_queue_that_no_job_can_be_in_is_refused(choice: str) -> None:
    with pytest.raises(BadOption, match="queue must be 1 to 128 letters"):
        App("sqlite://").worker({choice: 1})


# Strict order ---------------------------------------------------------------------------------


async def test_strict_order_empties_the_first_queue_before_the_second(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By first claims: a job whose slot is not free soon goes back, and is claimed again later."""
    app, first = works.app, dict[str, str]()
    async with app:
        claim = app.store.jobs.claim

        async def noted(*asked: Any) -> list[Claimed]:
            came = await claim(*asked)
            for job in came:
                first.setdefault(job.id, job.queue)
            return came

        monkeypatch.setattr(app.store.jobs, "claim", noted)
        await works.enqueue(*(["low"] * 20 + ["high"] * 20 + ["middle"] * 20))
        queues = {"high": 2, "middle": 2, "low": 2}
        async with app.worker(queues, strict=True, batch=3) as worker:
            await worker.drain()
    assert list(first.values()) == ["high"] * 20 + ["middle"] * 20 + ["low"] * 20


async def test_without_strict_order_queues_run_side_by_side(works: Works) -> None:
    app = works.app
    async with app:
        await works.enqueue(*(["low"] * 20 + ["high"] * 20))
        async with app.worker({"high": 2, "low": 2}, batch=4) as worker:
            await worker.drain()
    assert works.ran.index("low") < 19


async def test_in_strict_order_a_paused_queue_holds_up_nobody(works: Works) -> None:
    app = works.app
    async with app:
        await works.enqueue("high", "low")
        await app.client.queues.pause("high")
        async with app.worker({"high": 1, "low": 1}, strict=True):
            await wait_until(lambda: works.ran == ["low"], 30, "the later queue is served")


async def test_in_strict_order_a_queue_that_is_busy_and_empty_holds_up_nobody(
    works: Works,
) -> None:
    """Its claim got all that was asked for, so more may wait in it; but nothing does."""
    app = works.app
    works.open.clear()
    async with app:
        await works.enqueue("high", "low")
        async with app.worker({"high": 1, "low": 1}, strict=True):
            await wait_until(lambda: works.at_once == 2, 30, "the later queue is served")
            works.open.set()


async def test_in_strict_order_a_queue_that_is_busy_and_has_more_holds_up_later_ones(
    works: Works,
) -> None:
    app = works.app
    works.open.clear()
    async with app:
        await works.enqueue("high", "high", "low")
        async with app.worker({"high": 1, "low": 1}, strict=True) as worker:
            await wait_until(lambda: works.at_once == 1, 30, "the first job runs")
            await asyncio.sleep(0.3)
            assert works.at_once == 1
            works.open.set()
            await worker.drain()
    assert works.ran == ["high", "high", "low"]


async def test_a_job_of_a_queue_that_was_not_asked_for_runs_and_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = shop()
    seen: list[Event] = []
    app.events.subscribe(seen.append)
    async with app:
        claim = app.store.jobs.claim

        async def elsewhere(worker: WorkerId, wants: Sequence[Want], *others: Any) -> list[Claimed]:
            if any(want.queue == "mail" for want in wants):
                return []
            return await claim(worker, [Want("mail", 1)], *others)

        monkeypatch.setattr(app.store.jobs, "claim", elsewhere)
        async with app.worker(queues={"mail": 1, "nightly": 1}) as worker:
            job = await app.tasks["send"].enqueue("ann")
            await app.tasks["count"].using(queue="nightly").enqueue()
            assert await job.result(timeout=10) == "ann"
            monkeypatch.setattr(app.store.jobs, "claim", claim)
            await worker.drain()
            again = await app.tasks["send"].enqueue("bob")
            assert await again.result(timeout=10) == "bob"
    [told] = [event.fields for event in seen if event.name == "fetcher.queue_not_asked"]
    assert (told["queue"], told["jobs"]) == ("mail", 1)
