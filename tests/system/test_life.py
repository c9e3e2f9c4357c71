"""The life of a job as clients read it: told whole on every store, with who did what."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast import App, UnknownJob
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.events import Events
from holdfast.insights.actions import Verb
from holdfast.job.ends import Cancelled, HandedBack, Raised, Snoozed
from holdfast.job.happening import FIRST_KEPT, NEWEST_KEPT
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.schedule.providers import Providers
from holdfast.store.contract.store import Store
from tests.conformance.builders import RAISED, Scene

ANN = "ann@desk"
VALUES: dict[Verb, object] = {Verb.MOVE: "other", Verb.REPRIORITISE: 7, Verb.RESCHEDULE: 60.0}
TOLD = sorted(set(JOB_VERBS) - {Verb.DELETE})


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    client = Client(store, Providers(), Events())
    yield client
    await client.aclose()


async def told(client: Client, job: JobId) -> list[str]:
    return [moment.what.value for moment in (await client.life(job)).moments]


async def test_a_plain_life_is_told_from_the_job_itself(scene: Scene, client: Client) -> None:
    job = await scene.enqueue(queue="mail", priority=-3)
    scene.clock.advance(2)
    claimed = await scene.claim_one("mail")
    scene.clock.advance(3)
    await scene.finish(claimed)
    enqueued, began, ended = (await client.life(job)).moments
    assert (enqueued.what, enqueued.note) == (What.ENQUEUED, "in mail, priority -3")
    assert (began.what, began.attempt, began.since) == (What.CLAIMED, 1, 2.0)
    assert (ended.what, ended.attempt, ended.since) == (What.SUCCEEDED, 1, 3.0)
    assert began.worker_id == ended.worker_id == scene.worker


async def test_every_attempt_is_told_with_its_claim_and_its_wait(
    scene: Scene, client: Client
) -> None:
    job = await scene.enqueue()
    for end in (RAISED, Snoozed(4), HandedBack(), None):
        claimed = await scene.claim_one()
        scene.clock.advance(1)
        if end is None:
            break
        await scene.finish(claimed, end)
        scene.clock.advance(15)
        await scene.store.jobs.promote_due(10)
    assert await told(client, job) == [
        *("enqueued", "claimed", "retried", "promoted"),
        *("claimed", "snoozed", "promoted"),
        *("claimed", "handed_back"),
        "claimed",
    ]
    moments = (await client.life(job)).moments
    assert [moment.attempt for moment in moments if moment.what is What.CLAIMED] == [1, 2, 2, 2]
    assert [moment.since for moment in moments[2:5]] == [1.0, 10.0, 5.0]


async def test_an_attempt_is_told_to_begin_once_whatever_happened_in_it(
    scene: Scene, client: Client
) -> None:
    job = (await scene.running()).id
    await client.cancel(job, by=ANN)
    await scene.finish(await scene.live(job), Raised("E", "told to stop"))
    assert await told(client, job) == ["enqueued", "claimed", "cancel_asked", "cancelled"]


async def test_moves_are_told_with_both_their_queues(scene: Scene, client: Client) -> None:
    job = await scene.enqueue(queue="a")
    for queue in ("b", "c"):
        await client.move(job, queue, by=ANN)
    await client.reprioritise(job, 5)
    notes = [moment.note for moment in (await client.life(job)).moments]
    assert notes == ["in a", "from a to b", "from b to c", "from 0 to 5"]


@pytest.mark.parametrize("verb", TOLD)
async def test_a_verb_tells_who_asked_for_it(scene: Scene, client: Client, verb: Verb) -> None:
    """One job, every job of a filter, and an operation tell it alike."""
    row, value = JOB_VERBS[verb], VALUES.get(verb)
    state = JobState.SCHEDULED if JobState.SCHEDULED in row.states else min(row.states)
    one, all_of_them, operated = [await scene.in_state(state, queue=name) for name in "abc"]
    await client.apply(row, one, value, by=ANN)
    await client.apply_all(row, value, queue="b", state=state, by=ANN)
    begun = await client.operations.begin(verb, value, queue="c", state=state, by=ANN)
    await client.operations.follow(begun.id)
    lives = [(await client.life(job)).moments[-1] for job in (one, all_of_them, operated)]
    assert {(moment.what, moment.by) for moment in lives} == {(What(row.done), ANN)}


async def test_an_edit_tells_who_asked_for_it_and_no_value(scene: Scene, client: Client) -> None:
    job = await scene.enqueue()
    await client.edit(job, args={"name": "s3cret"}, by=ANN)
    edited = (await client.life(job)).moments[-1]
    assert (edited.what, edited.by, edited.note) == (What.EDITED, ANN, "arguments")


async def test_a_life_that_is_too_long_says_that_it_is_not_whole(
    scene: Scene, client: Client
) -> None:
    job = await scene.enqueue()
    for _ in range(FIRST_KEPT + NEWEST_KEPT):
        assert (await client.life(job)).is_whole
        await scene.finish(await scene.claim_one(), HandedBack())
    assert not (await client.life(job)).is_whole


async def test_what_cannot_be_opened_is_told_as_encrypted(scene: Scene, client: Client) -> None:
    sealed = '{"$enc":1,"kid":"2026-11","n":"","c":""}'
    claimed = await scene.ended(Raised("E", sealed, sealed))
    await scene.finish(await scene.live(claimed.id), Cancelled(sealed))
    retried, cancelled = (await client.life(claimed.id)).moments[-2:]
    assert retried.error is not None
    told = (retried.error.message, retried.error.traceback, cancelled.note)
    assert told == ("encrypted (key 2026-11)",) * 3


async def test_an_unknown_job_has_no_life(client: Client) -> None:
    with pytest.raises(UnknownJob):
        await client.life(new_job_id())


async def test_a_handle_tells_the_life_of_its_job() -> None:
    app = App("sqlite://")

    @app.task
    async def greet() -> None: ...

    async with app:
        job = await greet.enqueue()
        assert [moment.what for moment in (await job.life()).moments] == [What.ENQUEUED]
