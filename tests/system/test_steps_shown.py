"""Steps as people see them: the command line, the client, secrets, keys, and the kit for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Context, Retry
from holdfast.encryption.keyring import Keyring
from holdfast.job.ids import JobId
from holdfast.job.sealed import is_sealed
from holdfast.job.step import StepRecord
from holdfast.store.open import open_store
from holdfast.store.sealed.store import SealedStore
from holdfast.testing import Harness, killed_after_every_commit
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.support.backends import Backend
from tests.unit.cli import Desk, desk_in

SECRET = "hunter2-is-no-password"
KEYS = Keyring({"2026-11": bytes(range(32))})


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


async def job_with_steps(scene: Scene) -> JobId:
    claimed = await scene.running()
    said: list[dict[str, Any]] = [
        {"result": f'{{"id":7,"password":"{SECRET}"}}'},
        {"kind": "SMTPError", "message": f"password={SECRET} refused", "tries": 3},
        {"seconds": 10**8},
    ]
    names = ("pay", "mail", "cooling off")
    records = [
        StepRecord(claimed.id, claimed.fence, name, n, **one)
        for n, (name, one) in enumerate(zip(names, said, strict=True), 1)
    ]
    assert await scene.store.steps.record(records) == [True] * 3
    await scene.finish(claimed, FAILED)
    return claimed.id


def test_the_command_line_lists_the_steps_of_a_job(desk: Desk) -> None:
    job = desk.seed(job_with_steps)
    found = desk.json("jobs", "steps", job)
    assert [(one["name"], one["how"], one["tries"]) for one in found["steps"]] == [
        ("pay", "returned", 1),
        ("mail", "failed", 3),
        ("cooling off", "sleeps", 1),
    ]
    assert set(found["steps"][0]["result"]) == {"id", "password"}  # nobody knows the task here
    shown = desk.on_store("jobs", "steps", job).out
    assert "cooling off" in shown
    assert "SMTPError" in shown


def test_the_command_line_shows_no_secret_of_a_step(desk: Desk) -> None:
    job = desk.seed(job_with_steps)
    for words in (["jobs", "steps", job], ["jobs", "steps", job, "--json"]):
        assert SECRET not in desk.on_store(*words).out


def test_a_job_without_steps_says_so(desk: Desk) -> None:
    async def plain(scene: Scene) -> JobId:
        return (await scene.ended(RETURNED)).id

    job = desk.seed(plain)
    assert desk.json("jobs", "steps", job)["steps"] == []
    assert "recorded no steps" in desk.on_store("jobs", "steps", job).out


async def test_the_client_gives_steps_with_and_without_a_loop() -> None:
    app = App("sqlite://")

    @app.task()
    async def pays(ctx: Context) -> int:
        return await ctx.step("pay", int, 7)

    async with Harness(app) as harness:
        job = await pays.enqueue()
        await harness.drain()
        [step] = await app.client.steps(job.id)
        assert (step.name, step.result, step.returned) == ("pay", 7, True)


async def test_results_and_errors_of_steps_are_encrypted(backend: Backend) -> None:
    url = await backend.empty()
    store = open_store(url, keys=KEYS)
    assert isinstance(store, SealedStore)
    await store.open()
    try:
        scene = await Scene.on(store, None)  # type: ignore[arg-type]  # no clock is moved
        job = await job_with_steps(scene)
        opened = {one.name: one for one in (await store.steps.load([job]))[job]}
        assert SECRET in (opened["pay"].result_json or "")
        assert SECRET in (opened["mail"].message or "")
        behind = {one.name: one for one in (await store.behind.steps.load([job]))[job]}
        assert is_sealed(behind["pay"].result_json)
        assert is_sealed(behind["mail"].message)
        assert SECRET not in str([one.result_json for one in behind.values()])
    finally:
        await store.close()


# The kit ----------------------------------------------------------------------------------------


async def test_a_task_is_killed_after_every_commit() -> None:
    app = App("sqlite://")
    calls: list[str] = []

    @app.task(retry=Retry.never())
    async def order(ctx: Context, n: int) -> list[int]:
        async def noted(name: str) -> int:
            calls.append(name)
            return n

        first = await ctx.step("first", noted, "first")
        await ctx.sleep("cooling off", days=3)
        second = await ctx.step("second", noted, "second")
        third = await ctx.step.using(lazy=True)("third", noted, "third")
        return [first, second, third]

    found = await killed_after_every_commit(order, 7)
    assert (found.result, found.kills) == ([7, 7, 7], 2)
    assert (calls.count("first"), calls.count("second")) == (3, 3)


async def test_a_task_whose_result_depends_on_how_often_it_runs_is_found() -> None:
    app = App("sqlite://")
    runs: list[int] = []

    @app.task()
    async def counts(ctx: Context) -> int:
        runs.append(1)
        await ctx.step("pay", int, 7)
        return len(runs)

    with pytest.raises(AssertionError, match="was killed after commit 1 \\('pay'\\)"):
        await killed_after_every_commit(counts)
