"""Jobs that wait for workers that do not exist are told of, and so is the end of that."""

from __future__ import annotations

import pytest

from holdfast import App
from holdfast.events import Event
from holdfast.fleet.serving import Unserved, unserved
from holdfast.job.state import JobState
from holdfast.reconcile import unserved as module
from holdfast.reconcile.unserved import UnservedReconciler
from holdfast.store.contract.facts import WorkerFacts
from holdfast.store.contract.queues import EVERY_QUEUE, jobs_of
from holdfast.store.contract.store import Store
from holdfast.store.contract.telemetry import Tally
from tests.conformance.builders import new_job, new_worker
from tests.support.reconcile_scene import made


def told(seen: list[Event]) -> list[tuple[str, object, object]]:
    return [
        (event.name, event.fields["queue"], event.fields["task"])
        for event in seen
        if event.name.startswith("queue.")
    ]


async def test_a_queue_and_a_task_that_nobody_serves_are_told_once_until_they_are_served(
    store: Store,
) -> None:
    seen: list[Event] = []
    alarm = made(UnservedReconciler, store, seen)
    await store.workers.register(new_worker(name="w1", queues={"mail": 1}, tasks=("send",)), 30)
    await store.jobs.insert(
        [
            new_job(queue="mail", task="send"),
            new_job(queue="mail", task="sned"),
            new_job(queue="mial", task="send"),
        ]
    )
    swept = await alarm.run_once()
    await alarm.run_once()
    wanted = [("queue.unserved", "mail", "sned"), ("queue.unserved", "mial", None)]
    assert (told(seen), swept.found) == (wanted, 2)
    assert [event.fields["jobs"] for event in seen if event.name == "queue.unserved"] == [1, 1]

    seen.clear()
    await store.workers.register(
        new_worker(name="w2", queues={"m*": 1}, tasks=("send", "sned")), 30
    )
    await alarm.run_once()
    assert sorted(told(seen), key=str) == [
        ("queue.served", "mail", "sned"),
        ("queue.served", "mial", None),
    ]
    assert (await alarm.run_once()).found == 0


async def test_it_is_told_again_while_it_lasts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Event] = []
    alarm = made(UnservedReconciler, store, seen)
    await store.jobs.insert([new_job(queue="lonely")])
    await alarm.run_once()
    monkeypatch.setattr(module, "TELL_AGAIN_SECONDS", 0.0)
    await alarm.run_once()
    assert told(seen) == [("queue.unserved", "lonely", None)] * 2


@pytest.mark.parametrize("what", ["queue", "task", "everything"])
async def test_what_is_paused_waits_for_somebody_else(store: Store, what: str) -> None:
    seen: list[Event] = []
    alarm = made(UnservedReconciler, store, seen)
    await store.workers.register(new_worker(name="w1", queues={"mail": 1}, tasks=("other",)), 30)
    await store.jobs.insert([new_job(queue="mail", task="send")])
    name = {"queue": "mail", "task": jobs_of("send"), "everything": EVERY_QUEUE}[what]
    await store.queues.pause([name])
    assert ((await alarm.run_once()).found, told(seen)) == (0, [])


async def test_one_replica_tells_for_all(store: Store) -> None:
    seen: list[Event] = []
    await store.jobs.insert([new_job(queue="lonely")])
    for _ in range(3):
        await made(UnservedReconciler, store, seen).run_once()
    assert told(seen) == [("queue.unserved", "lonely", None)]


async def test_a_worker_that_drains_serves_nobody(store: Store) -> None:
    worker = new_worker(queues={"mail": 1}, tasks=("send",))
    await store.workers.register(worker, 30)
    ready = [Tally("mail", "send", JobState.READY, 3), Tally("mail", "send", JobState.RUNNING, 1)]
    assert unserved(ready, await store.workers.find()) == {}
    await store.workers.request_drain([worker.id])
    assert unserved(ready, await store.workers.find()) == {Unserved("mail"): 3}


async def test_jobs_whose_labels_no_worker_has_are_told_of() -> None:
    app = App("sqlite://")

    @app.task(name="train", queue="ai", requires=["gpu"])
    async def train() -> None: ...

    seen: list[Event] = []
    async with app:
        alarm = made(UnservedReconciler, app.store, seen)
        await train.enqueue_many([()] * 3)
        await train.using(requires=()).enqueue()
        worker = {"queues": {"ai": 1}, "tasks": ("train",)}
        await app.store.workers.register(new_worker(facts=WorkerFacts(labels=["eu"]), **worker), 30)
        assert (await alarm.run_once()).found == 1
        [event] = [one for one in seen if one.name == "queue.unserved"]
        assert (event.fields["task"], event.fields["labels"], event.fields["jobs"]) == (
            "train",
            True,
            3,
        )
        await app.store.workers.register(
            new_worker(facts=WorkerFacts(labels=["gpu"]), **worker), 30
        )
        assert (await alarm.run_once()).found == 0
        assert seen[-1].name == "queue.served"


async def test_jobs_that_all_workers_leave_because_of_only_are_told_of() -> None:
    app = App("sqlite://")

    @app.task(name="train", queue="ai", requires=["gpu"])
    async def train() -> None: ...

    seen: list[Event] = []
    async with app:
        alarm = made(UnservedReconciler, app.store, seen)
        await train.enqueue_many([()] * 3)
        await train.using(requires=()).enqueue_many([()] * 2)
        worker = {"queues": {"ai": 1}, "tasks": ("train",)}
        facts = WorkerFacts(labels=["gpu"], only=["gpu"])
        await app.store.workers.register(new_worker(facts=facts, **worker), 30)
        assert (await alarm.run_once()).found == 1
        [event] = [one for one in seen if one.name == "queue.unserved"]
        told = [event.fields[name] for name in ("task", "labels", "only", "jobs")]
        assert told == ["train", False, True, 2]
        await app.store.workers.register(new_worker(**worker), 30)
        assert (await alarm.run_once()).found == 0
        assert seen[-1].name == "queue.served"
