"""Acts of operators: every verb writes its row before it changes anything, and closes it after."""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import App, BadOption, Refused, StoreUnavailable, UnknownJob, UnknownSchedule
from holdfast.client import acting
from holdfast.client.client import Client
from holdfast.client.failures import FailureVerbs
from holdfast.client.flows import FlowVerbs
from holdfast.client.limits import LimitVerbs
from holdfast.client.operations import OperationVerbs
from holdfast.client.queues import QueueVerbs
from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.signals import SignalVerbs
from holdfast.client.tasks import TaskVerbs
from holdfast.client.workers import WorkerVerbs
from holdfast.clock import ManualClock, utcnow
from holdfast.encryption.keyring import Keyring
from holdfast.encryption.signing import Signer
from holdfast.events import Event, Events
from holdfast.flow.graph import encode_graph
from holdfast.insights.actions import Noun, Verb
from holdfast.insights.doctor import examine
from holdfast.job.ends import DeadlinePassed
from holdfast.job.state import JobState
from holdfast.job.vote import Invited
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.operations.verbs import NAME_VERBS, VERBS
from holdfast.schedule.providers import Providers
from holdfast.store.contract.audit import ActOutcome, AuditEntry, AuditFilter
from holdfast.store.contract.store import Store
from holdfast.store.contract.telemetry import Tally
from tests.conformance.builders import QUEUE, Scene
from tests.conformance.planning import definition
from tests.support.backends import opened
from tests.support.flaky import FlakyStore, Line
from tests.support.flows import new_flow
from tests.support.forking import forks
from tests.support.waiting import wait_until

KEYS = Keyring({"k": bytes(32)})
VALUES: dict[Verb, object] = {Verb.MOVE: "other", Verb.REPRIORITISE: 7, Verb.RESCHEDULE: 60.0}


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    client = Client(store, Providers(), Events(), signing_keys=KEYS)
    yield client
    await client.aclose()


async def acts(store: Store) -> list[AuditEntry]:
    """All of them, oldest first."""
    return list((await store.audit.page(AuditFilter(), 1_000)).entries[::-1])


async def the_act(store: Store) -> AuditEntry:
    [entry] = await acts(store)
    return entry


async def test_every_row_of_the_table_is_audited_under_its_word(
    client: Client, scene: Scene
) -> None:
    """A verb that is added to the table and writes no act fails here."""
    for row in JOB_VERBS.values():
        state = sorted(row.by_default or row.states)[0]
        job = await scene.in_state(state, queue=f"for-{row.verb}")
        await client.apply(row, job, VALUES.get(row.verb), by="ann")
    await client.edit(await scene.enqueue(), tags=["mended"], by="ann")
    await client.reveal(await scene.enqueue(), reason="a customer asks", by="ann")
    await client.signals.send(await scene.enqueue(), "paid", by="ann")
    asked = Invited(await scene.enqueue(), "leads", "bob")
    await client.answer(Signer(KEYS).token(asked), True, by="ann")
    await client.queues.tune("mail", by="ann", throttle_cap=30.0)
    await client.limits.set("github", most=5, create=True, by="ann")
    await client.limits.set("tokens", hard=100, create=True, by="ann")
    await client.limits.top_up("tokens", 10, by="ann")
    await client.limits.reset("tokens", by="ann")
    await client.limits.drain("github", 30.0, by="ann")
    await client.limits.weigh("acme", 3, by="ann")
    await client.limits.retire("github", by="ann")
    now = await scene.store.now()
    await client.schedules.create("mail", definition(), by="ann")
    await client.schedules.edit("mail", by="ann", cap=3)
    await client.schedules.trigger("mail", by="ann")
    await client.schedules.backfill("mail", now, now, by="ann")
    for named in NAME_VERBS.values():
        noun: Any = getattr(client, named.noun)
        await noun.apply(named, "mail", by="ann")
    operation = await client.operations.begin("move", "slow", queue=QUEUE)
    await client.operations.stop(operation.id, by="ann")
    await client.operations.go_on(operation.id, by="ann")
    await client.operations.follow(operation.id)
    await client.operations.follow((await client.operations.undo(operation.id, by="ann")).id)
    flow = new_flow({"a": []})
    flow = msgspec.structs.replace(flow, graph=encode_graph(flow.nodes))
    await scene.store.flows.start([flow])
    await client.flows.pause(flow.id, by="ann")
    await client.flows.resume(flow.id, by="ann")
    await scene.finish(await scene.live(flow.nodes[0].job.id), DeadlinePassed())
    await client.flows.retry(flow.id, by="ann")
    await client.flows.cancel(flow.id, by="ann")
    await client.workers.drain(scene.worker, by="ann")
    [failure, *_] = await scene.store.failures.find()
    await client.failures.mute(failure.fingerprint, by="ann")
    await client.failures.unmute(failure.fingerprint, by="ann")
    await client.failures.note(failure.fingerprint, "seen", by="ann")
    await scene.store.telemetry.correct([Tally("mail", "greet", JobState.READY, 3)])
    await examine(scene.store.sibling(), fix=True, by="ann")
    found = await acts(scene.store)
    by_damage = {"flows.correct"}  # written only where a flow is damaged: see test_flow_doctor
    assert {entry.verb for entry in found} == {row.word for row in VERBS.values()} - by_damage
    assert {(entry.by, entry.outcome) for entry in found} == {("ann", ActOutcome.DONE)}
    fired = {entry.verb for entry in found if entry.changed == 0}
    assert fired == {"schedules.backfill", "jobs.reveal"}


async def test_a_program_that_acts_for_itself_writes_nothing(client: Client, scene: Scene) -> None:
    await client.cancel(await scene.enqueue())
    await client.queues.pause("mail")
    await client.cancel_all(queue=QUEUE)
    await client.cancel_all(queue=QUEUE, dry_run=True, by="ann")
    assert await acts(scene.store) == []


async def test_an_act_costs_two_calls_and_a_program_that_acts_for_itself_none(
    scene: Scene,
) -> None:
    line = Line()
    client = Client(FlakyStore(scene.store, line), Providers(), Events())
    own = ["get", "live", "finish"]
    for by, calls in ((None, own), ("ann", ["begin", *own, "close"])):
        line.calls.clear()
        await client.cancel(await scene.enqueue(), by=by)
        assert line.calls == [*calls, "get"]
    await client.aclose()


async def test_an_act_shows_its_target_and_its_arguments(client: Client, scene: Scene) -> None:
    job = await scene.enqueue()
    await client.move(job, "slow", by="ann")
    entry = await the_act(scene.store)
    assert (entry.target, entry.which, entry.arguments) == (job, None, '{"queue":"slow"}')


async def test_an_act_on_many_shows_its_filter_and_its_number(client: Client, scene: Scene) -> None:
    await scene.enqueue_many(3)
    await client.reprioritise_all(4, queue=QUEUE, by="ann")
    entry = await the_act(scene.store)
    assert (entry.target, entry.changed, entry.arguments) == ("", 3, '{"priority":4}')
    assert entry.which is not None
    assert json.loads(entry.which) == {"queues": [QUEUE]}


async def test_no_secret_of_an_edit_reaches_the_audit_or_the_events(scene: Scene) -> None:
    seen: list[Event] = []
    client = Client(scene.store, Providers(), Events(seen.append))
    await client.edit(await scene.enqueue(), args={"name": "s3cret"}, by="ann")
    await client.schedules.create("ticks", definition(), by="ann")
    await client.schedules.edit("ticks", args={"token": "s3cret"}, cron="0 4 * * *", by="ann")
    await client.queues.pause("mail", by="postgres://ann:s3cret@db")
    await client.aclose()
    found = await acts(scene.store)
    assert [entry.arguments for entry in found[::2]] == [
        '{"args":["name"]}',
        '{"args":["token"],"cron":"0 4 * * *"}',
    ]
    assert "s3cret" not in f"{found[:3]} {[event.fields for event in seen[:3]]}"


async def test_refusals_are_acts_too(client: Client, scene: Scene) -> None:
    job = await scene.enqueue()
    with pytest.raises(Refused):
        await client.requeue(job, by="ann")
    with pytest.raises(UnknownJob):
        await client.cancel("01a1e540-7899-732e-a343-0b5536664571", by="ann")
    with pytest.raises(UnknownSchedule):
        await client.schedules.pause("nobody", by="ann")
    found = await acts(scene.store)
    assert {(entry.outcome, entry.changed) for entry in found} == {(ActOutcome.REFUSED, 0)}
    assert found[0].error is not None
    assert "only an ended job can be requeued" in found[0].error


@pytest.mark.parametrize("by", ["", "x" * 201, "nul\x00", 7])
async def test_a_name_that_no_store_keeps_is_refused_before_anything_happens(
    client: Client, scene: Scene, by: Any
) -> None:
    job = await scene.enqueue()
    with pytest.raises(BadOption, match="by must be 1 to 200 characters"):
        await client.cancel(job, by=by)
    assert await scene.state(job) is JobState.READY


async def test_nothing_is_changed_when_the_begin_cannot_be_written(scene: Scene) -> None:
    line = Line()
    client = Client(FlakyStore(scene.store, line), Providers(), Events())
    line.refuse = {"begin"}
    with pytest.raises(StoreUnavailable):
        await client.queues.pause(QUEUE, by="ann")
    await client.aclose()
    assert await scene.store.queues.find() == []


async def test_an_act_is_done_although_its_close_cannot_be_written(scene: Scene) -> None:
    seen: list[Event] = []
    line = Line()
    client = Client(FlakyStore(scene.store, line), Providers(), Events(seen.append))
    line.refuse = {"close"}
    job = await scene.enqueue()
    await client.cancel(job, by="ann")
    await client.aclose()
    assert await scene.state(job) is JobState.CANCELLED
    assert [event.name for event in seen] == ["audit.close_failed", "operator.acted"]
    assert (await the_act(scene.store)).outcome is ActOutcome.UNDER_WAY


async def test_an_act_that_the_store_breaks_off_has_failed(scene: Scene) -> None:
    line = Line()
    client = Client(FlakyStore(scene.store, line), Providers(), Events())
    await scene.enqueue()
    line.refuse = {"finish"}
    with pytest.raises(StoreUnavailable):
        await client.cancel_all(queue=QUEUE, by="ann")
    await client.aclose()
    entry = await the_act(scene.store)
    assert (entry.outcome, entry.error) == (ActOutcome.FAILED, "the line is cut")


async def test_an_act_that_is_cancelled_says_how_far_it_came(client: Client, scene: Scene) -> None:
    await scene.enqueue_many(2)

    def cut(done: int, matched: int) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await client.cancel_all(queue=QUEUE, by="ann", on_progress=cut)
    entry = await the_act(scene.store)
    assert (entry.outcome, entry.changed) == (ActOutcome.INTERRUPTED, 2)


async def test_a_long_act_says_that_it_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "INTERRUPTED_AFTER_SECONDS", 0.03)
    line = Line()
    line.hold = {"count"}
    client = Client(FlakyStore(scene.store, line), Providers(), Events())
    work = asyncio.create_task(client.cancel_all(queue=QUEUE, by="ann"))
    await wait_until(lambda: line.calls.count("begin") >= 3, 30, "the act is begun again")
    line.release()
    await work
    await client.aclose()
    assert (await the_act(scene.store)).outcome is ActOutcome.DONE


KILLED = """
import asyncio, os, signal, sys
from holdfast import App
from holdfast.job.ids import JobId

app = App(sys.argv[1])


async def main() -> None:
    async with app:
        jobs = app.store.jobs

        async def die(*_: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        jobs.move = die
        await app.client.move(sys.argv[2], "elsewhere", by="ann@desk")


asyncio.run(main())
"""


async def test_an_act_that_a_kill_cut_off_is_interrupted(shared_url: str) -> None:
    async with opened(shared_url) as store:
        job = await (await Scene.on(store, ManualClock())).enqueue()
        died = await asyncio.to_thread(forks().run_code, KILLED, shared_url, job)
        assert died.returncode == -signal.SIGKILL
        assert (await the_act(store)).outcome is ActOutcome.UNDER_WAY
    async with opened(shared_url, ManualClock(utcnow() + timedelta(minutes=2))) as later:
        entry = await the_act(later)
        facts = (entry.by, entry.verb, entry.target, entry.outcome, entry.changed)
        assert facts == ("ann@desk", "jobs.move", job, ActOutcome.INTERRUPTED, 0)


def test_an_act_in_the_callers_transaction_stands_or_falls_with_it(tmp_path: Path) -> None:
    """On SQLite the caller holds the only write lock: a row of a connection of our own would wait
    for the caller, who waits for us."""
    path = tmp_path / "shop.db"
    app = App(f"sqlite:///{path}")

    @app.task(name="ship")
    def ship(order: int) -> None: ...

    job = ship.enqueue_sync(1)
    with closing(sqlite3.connect(path)) as own:
        own.execute("create table orders (id integer)")
        for end in (own.rollback, own.commit):
            own.execute("insert into orders values (1)")
            with app.within(own):
                app.sync.cancel(job.id, by="ann")
            end()
            found = app.sync.audit.page(by="ann").entries
            assert [entry.outcome for entry in found] == ([] if end == own.rollback else ["done"])
    app.close_sync()


def test_the_table_says_what_undoes_a_verb_and_its_methods_take_what_it_says() -> None:
    homes: dict[Noun, type] = {
        Noun.JOBS: Client,
        Noun.QUEUES: QueueVerbs,
        Noun.TASKS: TaskVerbs,
        Noun.SCHEDULES: ScheduleVerbs,
        Noun.OPERATIONS: OperationVerbs,
        Noun.WORKERS: WorkerVerbs,
        Noun.FAILURES: FailureVerbs,
        Noun.FLOWS: FlowVerbs,
        Noun.LIMITS: LimitVerbs,
    }
    others: dict[str, Any] = {"correct": examine, "signal": SignalVerbs.send}
    for row in VERBS.values():
        assert row.undo is None or (row.noun, row.undo) in VERBS, row.word
        assert not (row.danger and row.undo), row.word
        method = others.get(row.verb) or getattr(homes[row.noun], row.verb)
        takes = inspect.signature(method).parameters
        assert "by" in takes, row.word
        names = [name if name != "due" else "delay" for name in (p.name for p in row.arguments)]
        assert set(names) <= set(takes), row.word


def test_the_table_names_all_that_a_verb_on_limits_takes() -> None:
    for row in (row for row in VERBS.values() if row.noun is Noun.LIMITS):
        takes = set(inspect.signature(getattr(LimitVerbs, row.verb)).parameters)
        target = "key" if row.verb is Verb.WEIGH else "limit"
        assert {one.name for one in row.arguments} == takes - {"self", "by", target}, row.word
