"""Jobs whose policy this version cannot read: of a newer release, written by hand, or damaged.

They are claimed like others, so that they stop nobody; whoever cannot read one leaves it, and
every verb that needs no policy works on it.
"""

from __future__ import annotations

import msgspec
import pytest

from holdfast.client.client import Client
from holdfast.errors import Unreadable
from holdfast.insights.checks import check_policies
from holdfast.insights.explain import explain
from holdfast.job.ends import Cancelled, DeadlinePassed, HandedBack, Raised, TimedOut, WorkerLost
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide, leave
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Severity
from tests.conformance.builders import Scene, ids, new_job

NEWER = '{"retry":{"max_attempts":2},"surprise":1}'
POLICIES = {
    "newer": NEWER,
    "newer inside": '{"retention":{"other":60.0,"surprise":1}}',
    "wrong type": '{"retry":{"max_attempts":2.5},"keep_result":"no"}',
    "wrong retention": '{"retention":3600}',
    "text retention": '{"retention":{"other":"60"}}',
    "no JSON": "{",
    "empty": "",
}
unreadable = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def strange_job(policy: str = NEWER, **options: object) -> NewJob:
    return msgspec.structs.replace(new_job(**options), policy=policy)  # type: ignore[arg-type]


async def strange(scene: Scene, policy: str = NEWER, **options: object) -> JobId:
    [inserted] = await scene.store.jobs.insert([strange_job(policy, **options)])
    return inserted.id


@unreadable
async def test_an_unreadable_job_is_claimed_with_its_neighbours(scene: Scene, policy: str) -> None:
    jobs = [new_job(), strange_job(policy), new_job()]
    await scene.store.jobs.insert(jobs)
    assert ids(await scene.claim(10)) == [job.id for job in jobs]


async def test_who_cannot_read_a_job_leaves_it_for_longer_each_time(scene: Scene) -> None:
    job_id = await strange(scene)
    waits = []
    for _ in range(4):
        claimed = await scene.claim_one()
        [verdict] = await scene.store.jobs.finish([leave(claimed, problem())])
        assert verdict.accepted
        job = await scene.job(job_id)
        assert job.due_at is not None
        assert job.attempts == job.crashes == 0
        assert "cannot read its policy" in str(job.reason)
        waits.append((job.due_at - scene.clock.now).total_seconds())
        scene.clock.advance(waits[-1])
        await scene.store.jobs.promote_due(10)
    assert waits == sorted(waits)
    assert waits[0] < 10 < waits[-1]


def problem() -> Unreadable:
    return Unreadable("policy", "Object contains unknown field `surprise`")


@unreadable
@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED])
async def test_an_unreadable_job_can_be_cancelled_while_it_waits(
    scene: Scene, policy: str, state: JobState
) -> None:
    job_id = await strange(scene, policy, delay=60.0 if state is JobState.SCHEDULED else None)
    client = Client(scene.store)
    assert await client.cancel(job_id) is JobState.CANCELLED
    await client.aclose()


@unreadable
async def test_an_unreadable_job_can_be_cancelled_while_it_runs(scene: Scene, policy: str) -> None:
    neighbour = await scene.running()
    await strange(scene, policy)
    claimed = await scene.claim_one()
    await scene.store.jobs.request_cancel([claimed.id])
    moves = [decide(neighbour, HandedBack()), leave(claimed, problem())]
    assert all(verdict.accepted for verdict in await scene.store.jobs.finish(moves))
    assert await scene.states([neighbour.id, claimed.id]) == [JobState.READY, JobState.CANCELLED]


@unreadable
async def test_an_unreadable_holder_of_a_key_can_be_replaced(scene: Scene, policy: str) -> None:
    holder = await strange(scene, policy, unique=Unique("k", on_conflict="replace"))
    answer = await scene.insert(unique=Unique("k", on_conflict="replace"))
    assert answer.how == "replaced"
    assert await scene.state(holder) is JobState.CANCELLED


@unreadable
async def test_an_unreadable_job_is_expired_and_handed_back(scene: Scene, policy: str) -> None:
    await strange(scene, policy, deadline_in=60.0)
    claimed = await scene.claim_one()
    assert (await scene.finish(claimed, HandedBack())).accepted
    scene.clock.advance(61)
    [past] = await scene.store.jobs.past_deadline(10)
    assert (await scene.finish(past, DeadlinePassed())).accepted
    assert await scene.state(claimed.id) is JobState.EXPIRED


@unreadable
@pytest.mark.parametrize("end", [Raised("E", "boom"), TimedOut(5), WorkerLost()])
async def test_an_end_that_the_policy_decides_is_left_to_who_can_read_it(
    scene: Scene, policy: str, end: Raised | TimedOut | WorkerLost
) -> None:
    live = await scene.live(await strange(scene, policy))
    with pytest.raises(Unreadable, match="cannot read its policy"):
        decide(live, end)
    assert decide(live, end, cancel_requested=True).to is JobState.CANCELLED
    assert decide(live, Cancelled()).to is JobState.CANCELLED


async def test_explain_and_doctor_say_which_job_cannot_be_read(scene: Scene) -> None:
    await scene.enqueue()
    assert [found.severity for found in await check_policies(scene.store)] == [Severity.OK]
    job_id = await strange(scene)
    job = await scene.job(job_id)
    reasons = {reason.code: reason for reason in (await explain(scene.store, job)).reasons}
    assert "surprise" in reasons["unreadable"].fact
    [found] = await check_policies(scene.store)
    assert found.severity is Severity.WARNING
    assert job_id in found.saw
    assert "surprise" in found.saw


async def test_doctor_says_which_jobs_workers_left_although_it_can_read_them(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.finish([leave(claimed, problem())])
    [found] = await check_policies(scene.store)
    assert found.severity is Severity.WARNING
    assert claimed.id in found.saw


async def test_an_unreadable_job_is_shown_like_any_other(scene: Scene) -> None:
    job_id = await strange(scene, "{")
    page = await scene.store.jobs.page(JobFilter(), 10)
    for job in (await scene.job(job_id), page.jobs[0]):
        assert job.max_attempts is None
        assert job.policy == "{"
