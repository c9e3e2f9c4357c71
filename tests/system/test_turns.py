"""Fairness, labels, totals and aging as programs say them, workers obey and people see them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import App, BadOption, Budget, Concurrency, Slots, Tasks
from holdfast.cli.advice import command_text
from holdfast.declaring.undoing import undo_of
from holdfast.job.state import JobState
from holdfast.limits.turns import QUANTUM
from holdfast.testing import Harness
from tests.conformance.builders import Scene
from tests.support.waiting import wait_until
from tests.unit.cli import Desk, desk_in

# How far two busy keys may be apart, each counted by its weight: two turns and one job more. Jobs
# of queues that share slots are not claimed ahead, so that no turn is longer than a quantum.
GAP = 2 * QUANTUM + 1


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


async def test_keys_of_fairness_take_turns_by_weight() -> None:
    app, ran = App("sqlite://"), list[str]()

    @app.task(fair="who")
    async def work(who: str) -> None:
        ran.append(who)

    async with app:
        await work.enqueue_many([("flood",)] * 200)
        await work.enqueue_many([("small",)] * 12)
        await work.using(weight=3).enqueue_many([("heavy",)] * 200)
        async with app.worker({"default": Slots()}, slots=1) as worker:
            await worker.drain()
    first = Counter(ran[:200])
    assert first["small"] == 12, "the flood came first and kept nobody waiting"
    assert abs(first["flood"] - first["heavy"] / 3) <= GAP, "three turns for one"


async def test_an_operator_weighs_a_key() -> None:
    app, ran = App("sqlite://"), list[str]()

    @app.task(fair="who")
    async def work(who: str) -> None:
        ran.append(who)

    async with app:
        await app.client.limits.weigh("b", 4)
        await work.enqueue_many([("a",)] * 200)
        await work.enqueue_many([("b",)] * 200)
        async with app.worker({"default": Slots()}, slots=1) as worker:
            await worker.drain()
        with pytest.raises(BadOption, match="weight"):
            await app.client.limits.weigh("b", 0)
    first = Counter(ran[:200])
    assert abs(first["a"] - first["b"] / 4) <= GAP, "four turns for one"


async def test_a_call_without_its_key_of_fairness_is_refused() -> None:
    app = App("sqlite://")

    @app.task(fair="{org}/{team}")
    async def work(org: str, team: str | None = None) -> None: ...

    async with app:
        with pytest.raises(BadOption, match="argument 'team', the key of fairness must be a text"):
            await work.enqueue("acme")
    with pytest.raises(BadOption, match="fair must be parameters of the task: who, got 'whom'"):

        @app.task(fair="whom")
        async def other(who: str) -> None: ...

    with pytest.raises(BadOption, match="weight"):
        work.using(weight=0)


async def test_a_worker_takes_what_it_has_the_labels_for() -> None:
    app, ran = App("sqlite://"), list[str]()

    @app.task(requires={"gpu", "eu"})
    async def train(n: int) -> None:
        ran.append(f"train {n}")

    @app.task
    async def mail() -> None:
        ran.append("mail")

    async with app:
        job = await train.enqueue(1)
        await mail.enqueue()
        async with app.worker(labels=["gpu"]) as worker:
            [row] = await app.client.workers.all()
            assert row.facts.labels == ["gpu"]
            await worker.drain()
            assert ran == ["mail"]
            [reason] = (await app.client.explain(job.id)).reasons
            assert (reason.code, reason.who) == ("no-capable-worker", "an operator")
            assert "has the labels eu, gpu" in reason.fact
            assert reason.action is not None
            command = "holdfast worker app:app --queues default --labels eu,gpu"
            assert command_text(reason.action) == command
        async with app.worker(labels={"eu", "gpu", "ssd"}) as worker:
            await worker.drain()
    assert ran == ["mail", "train 1"]
    for wrong in ("gpu", {"no label"}, [5]):
        with pytest.raises(BadOption):
            app.worker(labels=wrong)
        with pytest.raises(BadOption):
            train.using(requires=wrong)  # type: ignore[arg-type]


async def test_a_harness_can_do_what_any_worker_can() -> None:
    app, ran = App("sqlite://"), list[int]()

    @app.task(requires=["gpu"])
    async def train(n: int) -> None:
        ran.append(n)

    async with Harness(app) as harness:
        await train.enqueue(1)
        await harness.drain()
    assert ran == [1]


async def test_a_total_holds_for_all_workers_and_is_changed_live() -> None:
    app, at_once, most, opened = App("sqlite://", poll=0.1), 0, 0, asyncio.Event()

    @app.task(queue="ai")
    async def work() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await opened.wait()
        at_once -= 1

    async with app:
        await app.client.queues.tune("ai", max_running=3)
        await work.enqueue_many([()] * 20)
        async with app.worker({"ai": 4}), app.worker({"ai": 4}) as worker:
            await wait_until(lambda: at_once == 3, 10, "three run")
            [waits, *_] = (await app.client.page(states=[JobState.READY])).jobs
            [reason] = (await app.client.explain(waits.id)).reasons
            assert reason.code == "queue-full"
            assert reason.action is not None
            assert command_text(reason.action) == "holdfast queues tune ai --max-running N"
            assert "queue 'ai', in all workers together: 3 of 3 run" in reason.fact
            await app.client.queues.tune("ai", max_running=5)
            await wait_until(lambda: at_once == 5, 10, "five run")
            shares = {
                worker.facts.slots["ai"].share
                for worker in await app.client.workers.all()
                if worker.facts.slots is not None
            }
            assert shares  # each worker has told of its slots
            opened.set()
            await worker.drain()
    assert most == 5


async def test_waiting_counts_as_priority_in_a_queue_that_ages() -> None:
    app, ran = App("sqlite://"), list[str]()

    @app.task
    async def work(name: str) -> None:
        ran.append(name)

    async with Harness(app) as harness:
        await app.client.queues.tune("default", aging=10)
        await work.using(priority=5).enqueue("old")
        await harness.advance(seconds=60)
        await work.using(priority=0).enqueue("new")
        async with app.worker({"default": 1}) as worker:
            await worker.drain()
    assert ran == ["old", "new"]
    with pytest.raises(BadOption, match="aging"):
        async with app:
            await app.client.queues.tune("default", aging=0)


async def test_jobs_of_a_schedule_pass_the_limits_of_their_task(shared_url: str) -> None:
    """They passed by: the definition of a schedule did not know of limits."""
    app = App(shared_url, poll=0.05)
    tenant = app.limit("tenant", Concurrency(0))
    ran: list[str] = []

    @app.schedule(timedelta(seconds=1), args=("acme",), catch_up="all")
    @app.task(name="report", limits=[tenant.by("{who}-{kind}")])
    async def report(who: str, kind: str = "daily") -> None:
        ran.append(who)

    async with app, app.worker():

        async def waiting() -> bool:
            return (await app.client.limits.get(tenant, "acme-daily")).waiting == 1

        await wait_until(waiting, 20, "a job waits at the bucket")
        assert ran == []
        await app.client.limits.set(tenant, key="acme-daily", most=1)
        await wait_until(lambda: bool(ran), 20, "it runs")


def test_a_task_that_undoes_passes_no_limits() -> None:
    app = App("sqlite://")
    tenant = app.limit("tenant", Concurrency(1))

    @app.task(limits=[tenant])
    async def give_back(result: int) -> None: ...

    with pytest.raises(BadOption, match="left out for undo="):
        undo_of(give_back)


async def nothing(scene: Scene) -> None:
    """A store is enough."""


def test_the_command_line_tunes_totals_and_weighs_keys(desk: Desk) -> None:
    desk.seed(nothing)
    tuned = desk.json("queues", "tune", "ai", "--max-running", "40", "--aging", "60s", "--create")
    assert (tuned["settings"]["max_running"], tuned["settings"]["aging"]) == (40, 60.0)
    shown = desk.on_store("queues", "tune", "ai", "--aging", "none").out
    assert "max_running = 40" in shown
    assert "aging = none" in shown
    assert "whole number" in desk.on_store("queues", "tune", "ai", "--max-running", "many").err
    assert desk.json("limits", "weigh", "acme", "3") == {"key": "acme", "weight": 3}
    assert "the weight of its jobs" in desk.on_store("limits", "weigh", "acme", "none").out
    assert "whole number" in desk.on_store("limits", "weigh", "acme", "much").err


@pytest.mark.parametrize("only", [("gpu",), ("eu", "gpu")])
async def test_a_worker_with_only_leaves_other_jobs_and_says_so(only: tuple[str, ...]) -> None:
    app = App("sqlite://")
    ran: list[str] = []

    @app.task(name="train", requires=only)
    async def train() -> None:
        ran.append("train")

    @app.task(name="mail")
    async def mail() -> None:
        ran.append("mail")

    @app.task(name="some", requires={"gpu", "ssd"})
    async def some() -> None:
        ran.append("some")

    async with app:
        left = await mail.enqueue()
        await train.enqueue()
        await some.enqueue()
        async with app.worker(only=only) as worker:
            [row] = await app.client.workers.all()
            assert (row.facts.only, row.facts.labels) == (list(only), list(only))
            await worker.drain()
            assert ran == ["train"]
            [reason] = (await app.client.explain(left.id)).reasons
            assert reason.code == "no-capable-worker"
            assert f"take only jobs that require {', '.join(only)}; it requires none" in reason.fact
        with pytest.raises(BadOption, match="only"):
            app.worker(only="gpu")


def test_sets_carry_fairness_and_labels() -> None:
    tasks = Tasks(fair="who", requires=["gpu"])
    app = App("sqlite://")
    app.include(tasks)
    tokens = app.limit("tokens", Budget(5))

    @tasks.task(limits=[tokens])
    async def work(who: str) -> None: ...

    assert work.options.line.requires == ("gpu",)
    assert work.options.line.passed("work", {"who": "acme"}).buckets == "tokens:\n+gpu\n=acme"
