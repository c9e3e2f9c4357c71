"""Which queues a worker serves: by default those of the app's own tasks."""

from __future__ import annotations

import pytest

from holdfast import App
from holdfast.errors import BadOption
from holdfast.events import Event


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
        assert await worker.drain() == 1
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
    with pytest.raises(BadOption, match=r"option of a worker must be .*, got 'slots'"):
        shop().worker(slots=3)
    with pytest.raises(BadOption, match="queues must be queues with their slots"):
        shop().worker({})
