"""Signals as people see them: the command line, `explain`, the doctor, and programs without a
loop."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from holdfast import App, Context, Sent
from holdfast.clock import ManualClock
from holdfast.insights.signals import check_signals
from holdfast.job.ids import JobId
from holdfast.store.contract.store import Store
from tests.conformance.builders import RETURNED, Scene
from tests.conformance.signalling import send, waiting
from tests.unit.cli import Desk, desk_in

SECRET = "hunter2-is-no-password"


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


async def waiting_job(scene: Scene) -> JobId:
    claimed = await waiting(scene, "paid", seconds=10**8)
    await send(scene, claimed.id, "note", f'{{"password":"{SECRET}"}}')
    return claimed.id


def test_the_command_line_sends_a_signal(desk: Desk) -> None:
    job = desk.seed(waiting_job)
    [wait] = desk.json("waits", "list")["waits"]
    assert (wait["id"], wait["signal"]) == (job, "paid")
    assert "paid" in desk.on_store("waits", "list").out
    sent = desk.json("jobs", "signal", job, "paid", '{"cents": 1}', "--key", "evt_1")
    assert sent == {"id": job, "signal": "paid", "sent": "woke"}
    again = desk.on_store("jobs", "signal", job, "paid", "2", "--key", "evt_1").out
    assert "nothing was changed" in again
    assert "no job waits for a signal" in desk.on_store("waits", "list").out
    assert desk.json("jobs", "show", job)["state"] == "ready"


def test_the_command_line_lists_the_signals_of_a_job_without_secrets(desk: Desk) -> None:
    job = desk.seed(waiting_job)
    [signal] = desk.json("jobs", "signals", job)["signals"]
    assert (signal["name"], signal["taken_by"]) == ("note", None)
    for words in (["jobs", "signals", job], ["jobs", "signals", job, "--json"]):
        shown = desk.on_store(*words).out
        assert "note" in shown
        assert SECRET not in shown


def test_explain_names_the_command_that_sends_the_signal(desk: Desk) -> None:
    job = desk.seed(waiting_job)
    [reason] = desk.json("jobs", "explain", job)["reasons"]
    assert reason["fact"].startswith("it waits for signal 'paid' since ")
    assert "(1 other signal kept: 'note')" in reason["fact"]
    assert reason["command"] == f"holdfast jobs signal {job} paid"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{live}", "paid", "not json"], "VALUE is JSON, and this is none"),
        (["{over}", "paid"], "is succeeded: only a live job can be sent a signal"),
        (["019a0000-0000-7000-8000-000000000000", "paid"], "no job"),
    ],
)
def test_the_command_line_says_why_a_signal_was_not_sent(
    desk: Desk, words: list[str], said: str
) -> None:
    async def seeded(scene: Scene) -> dict[str, JobId]:
        return {"over": (await scene.ended(RETURNED)).id, "live": await scene.enqueue()}

    ids = desk.seed(seeded)
    answer = desk.on_store("jobs", "signal", *(word.format(**ids) for word in words))
    assert said in " ".join((answer.out + answer.err).split())


async def test_the_doctor_finds_a_job_that_waits_for_what_it_was_sent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [one.saw for one in await check_signals(scene.store)] == ["no job waits for a signal"]
    claimed = await waiting(scene)
    [well] = await check_signals(scene.store)
    assert well.saw == "1 job waits for signals, and none has come"
    await send(scene, claimed.id, "note")
    kept = await scene.store.signals.of([claimed.id])

    async def planted(_: object) -> object:
        return {claimed.id: [msgspec.structs.replace(kept[claimed.id][0], name="paid")]}

    monkeypatch.setattr(scene.store.signals, "of", planted)
    [ill] = await check_signals(scene.store)
    assert ill.saw == f"1 job waits for a signal that was sent, {claimed.id} is one"


def test_programs_without_a_loop_send_signals(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")

    @app.task()
    def waits(ctx: Context) -> str:
        return ctx.signal_sync("paid", str)

    job = waits.enqueue_sync()
    assert job.signal_sync("paid", "now", key="k") is Sent.KEPT
    assert app.sync.signals.send(job.id, "paid", "now", key="k") is Sent.DUPLICATE
    [signal] = app.sync.signals.of(job.id)
    assert (signal.value, app.sync.signals.waits()) == ("now", ([], None))
    app.close_sync()
