"""The table of operators' verbs: true of every store, and every change is reported."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.client.client import Client
from holdfast.client.queues import QueueVerbs
from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.tasks import TaskVerbs
from holdfast.clock import ManualClock
from holdfast.errors import BadOption, Refused, StoreUnavailable, UnknownSchedule
from holdfast.events import Event, Events
from holdfast.insights.actions import Noun, Verb
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.operations.rows import JobVerb, NameVerb
from holdfast.operations.verbs import NAME_VERBS
from holdfast.schedule.providers import Providers
from holdfast.store.contract.shelf import Put
from holdfast.store.contract.store import Store
from tests.conformance.builders import QUEUE, RAISED, Scene
from tests.conformance.planning import definition

VALUES: dict[Verb, object] = {Verb.MOVE: "other", Verb.REPRIORITISE: 7, Verb.RESCHEDULE: 60.0}
ROWS = [pytest.param(row, id=row.verb) for row in JOB_VERBS.values()]
NAMES: list[Any] = [pytest.param(row, id=f"{row.noun}-{row.verb}") for row in NAME_VERBS.values()]


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
def seen() -> list[Event]:
    return []


@pytest.fixture
async def client(store: Store, seen: list[Event]) -> AsyncIterator[Client]:
    client = Client(store, Providers(), Events(seen.append))
    yield client
    await client.aclose()


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("row", ROWS)
async def test_a_verb_applies_to_the_states_of_its_row_and_to_no_other(
    client: Client, scene: Scene, row: JobVerb, state: JobState
) -> None:
    job = await scene.in_state(state)
    before = await scene.store.jobs.get([job])
    if state in row.states:
        await client.apply(row, job, VALUES.get(row.verb))
        assert await scene.store.jobs.get([job]) != before
        return
    if row.refuses:
        with pytest.raises(Refused, match=f"only {row.fits} can be {row.done}"):
            await client.apply(row, job, VALUES.get(row.verb))
    else:
        await client.apply(row, job, VALUES.get(row.verb))
    assert await scene.store.jobs.get([job]) == before


@pytest.mark.parametrize("row", ROWS)
async def test_a_bulk_call_means_the_states_that_the_row_names_by_default(
    client: Client, scene: Scene, row: JobVerb
) -> None:
    for state in JobState:
        await scene.in_state(state, queue=f"of-{state}")
    meant = row.by_default or row.states
    value = VALUES.get(row.verb)
    assert (await client.apply_all(row, value, everything=True, dry_run=True)).matched == len(meant)
    assert (await client.apply_all(row, value, everything=True)).changed == len(meant)


@pytest.mark.parametrize("row", ROWS)
async def test_who_changed_a_job_is_reported(
    client: Client, scene: Scene, seen: list[Event], row: JobVerb
) -> None:
    job = await scene.in_state(sorted(row.by_default or row.states)[0])
    await client.apply(row, job, VALUES.get(row.verb), by="ann@host")
    [event] = seen
    assert event.name == "operator.acted"
    assert event.fields["by"] == "ann@host"
    assert event.fields["verb"] == f"jobs.{row.verb}"
    assert (event.fields["target"], event.fields["changed"]) == (job, 1)
    assert event.fields["value"] == VALUES.get(row.verb)


@pytest.mark.parametrize("row", ROWS)
async def test_a_value_that_the_verb_does_not_take_is_refused_before_any_change(
    client: Client, scene: Scene, row: JobVerb
) -> None:
    job = await scene.in_state(sorted(row.states)[0])
    before = await scene.store.jobs.get([job])
    with pytest.raises(BadOption):
        await client.apply(row, job, object())
    with pytest.raises(BadOption):
        await client.apply_all(row, object(), everything=True)
    assert await scene.store.jobs.get([job]) == before


async def test_a_change_without_an_actor_and_a_dry_run_are_not_reported(
    client: Client, scene: Scene, seen: list[Event]
) -> None:
    await client.cancel(await scene.enqueue())
    await scene.enqueue()
    await client.cancel_all(queue=QUEUE, dry_run=True, by="ann")
    assert seen == []


async def test_a_cancel_that_came_too_late_is_reported_as_no_change(
    client: Client, scene: Scene, seen: list[Event]
) -> None:
    await client.cancel((await scene.ended()).id, by="ann")
    assert [event.fields["changed"] for event in seen] == [0]


async def test_a_bulk_change_is_reported_with_its_filter_and_its_number(
    client: Client, scene: Scene, seen: list[Event]
) -> None:
    await scene.enqueue_many(3)
    await client.cancel_all(queue=QUEUE, by="ann")
    [event] = seen
    target: Any = event.fields["target"]
    assert (list(target["queues"]), event.fields["changed"]) == ([QUEUE], 3)


async def test_a_bulk_call_that_was_wrong_is_not_reported(
    client: Client, seen: list[Event]
) -> None:
    with pytest.raises(BadOption, match="states must be among"):
        await client.requeue_all(state="ready", by="ann")
    assert seen == []


async def test_a_bulk_change_that_breaks_off_is_reported_as_far_as_it_came(
    client: Client, scene: Scene, seen: list[Event]
) -> None:
    await scene.enqueue_many(3)

    def cut(done: int, matched: int) -> None:
        raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable):
        await client.cancel_all(queue=QUEUE, by="ann", on_progress=cut)
    assert [event.fields["changed"] for event in seen] == [3]


@pytest.mark.parametrize("row", NAMES)
async def test_who_changed_a_queue_or_a_schedule_is_reported(
    client: Client, scene: Scene, seen: list[Event], row: NameVerb
) -> None:
    await client.schedules.create("mail", definition())
    noun: Any = getattr(client, row.noun)
    await noun.apply(row, "mail", by="ann")
    assert [event.fields["verb"] for event in seen] == [f"{row.noun}.{row.verb}"]


@pytest.mark.parametrize("row", [each for each in NAMES if each.values[0].noun is Noun.SCHEDULES])
async def test_a_schedule_that_is_not_there_is_no_change(
    client: Client, seen: list[Event], row: NameVerb
) -> None:
    with pytest.raises(UnknownSchedule):
        await client.schedules.apply(row, "nobody", by="ann")
    assert seen == []


async def test_a_task_is_unknown_that_no_worker_no_catalogue_and_no_job_has(
    client: Client, scene: Scene
) -> None:
    names = ("of-a-worker", "of-a-job", "published", "paused", "of-nobody")
    assert await client.tasks.unknown(*names) == list(names)
    await scene.hire(tasks=("of-a-worker",))
    await scene.enqueue(task="of-a-job")
    await scene.store.shelf.put("task", [Put(key="published", value="{}", expires_in=60.0)])
    await client.tasks.pause("paused")
    assert await client.tasks.unknown(*names) == ["of-nobody"]
    assert "of-a-worker" in await client.tasks.known()


async def test_new_arguments_are_not_for_a_job_that_has_begun(client: Client, scene: Scene) -> None:
    """The second attempt would meet steps that the first has recorded with other arguments."""
    job = await scene.ended(RAISED, args='{"order":1}')
    with pytest.raises(Refused, match=r"has begun.*Cancel it, and enqueue a new job"):
        await client.edit(job.id, args={"order": 2}, tags=["mended"])
    assert (await scene.job(job.id)).args == {"order": 1}
    await client.edit(job.id, tags=["mended"])
    assert (await scene.job(job.id)).tags == ("mended",)


async def test_the_verbs_that_take_more_are_reported_too(
    client: Client, scene: Scene, seen: list[Event]
) -> None:
    now = await scene.store.now()
    await client.queues.tune("mail", by="ann", throttle_cap=30.0)
    await client.queues.pause_all(by="ann")
    await client.queues.resume_all(by="ann")
    await client.edit(await scene.enqueue(), tags=["mended"], by="ann")
    await client.schedules.create("ticks", definition(), by="ann")
    await client.schedules.edit("ticks", by="ann", cap=3)
    await client.schedules.trigger("ticks", by="ann")
    await client.schedules.backfill("ticks", now, now, by="ann")
    assert [event.fields["verb"] for event in seen] == [
        "queues.tune",
        "queues.pause",
        "queues.resume",
        "jobs.edit",
        "schedules.create",
        "schedules.edit",
        "schedules.trigger",
        "schedules.backfill",
    ]


def test_every_row_of_the_table_has_its_methods() -> None:
    for verb in JOB_VERBS:
        assert callable(getattr(Client, verb))
        assert callable(getattr(Client, f"{verb}_all"))
    nouns = {Noun.QUEUES: QueueVerbs, Noun.TASKS: TaskVerbs, Noun.SCHEDULES: ScheduleVerbs}
    for noun, verb in NAME_VERBS:
        assert callable(getattr(nouns[noun], verb))


async def test_a_job_that_moved_meanwhile_is_said_to_have_moved(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await scene.in_state(JobState.SUSPENDED)

    async def lose(ids: list[JobId], by: str | None) -> list[JobId]:
        return []

    monkeypatch.setattr(scene.store.jobs, "resume", lose)
    with pytest.raises(Refused, match="was suspended and has moved meanwhile"):
        await client.resume(job)
