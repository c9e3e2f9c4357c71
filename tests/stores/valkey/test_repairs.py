"""Lists of jobs that something else changed: `doctor --fix` makes them agree with the records of
the jobs before it counts, and says what it cannot put right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.insights.diagnosis import Diagnosis
from holdfast.insights.doctor import examine
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy
from holdfast.job.state import JobState
from holdfast.store.contract.audit import AuditFilter
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import MISPLACED, Severity
from holdfast.store.contract.telemetry import Tally
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import QUEUE, REACHABLE, Scene, ids
from tests.conformance.limiting import limited, through

BODILESS = "jobs without a record or body"
ASIDE = "jobs put aside"
BOOKS = "books"
ABOUT = (MISPLACED, BODILESS, ASIDE, BOOKS)


@pytest.fixture(params=[1, 4], ids=["one partition", "four partitions"])
def partitions(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


class Doctor:
    """Examines a store, and reaches past it to its keys."""

    def __init__(self, scene: Scene, server: ThrowawayValkey, place: str) -> None:
        self.scene, self.server, self.place = scene, server, place

    async def says(self, **how: Any) -> list[Diagnosis]:
        return await examine(self.scene.store.sibling(), **how)

    async def problems(self, **how: Any) -> list[str]:
        """Of the checks that are about jobs and lists. Books that cannot be compared are one."""
        found = await self.says(deep=True, **how)
        return [one.check for one in found if one.check in ABOUT and one.severity != Severity.OK]

    async def is_well(self) -> bool:
        return await self.problems() == []

    async def counts(self) -> dict[JobState, int]:
        return await self.scene.store.jobs.count(JobFilter())

    def lists(self, kind: str) -> list[str]:
        return [key for key in self.server.keys(self.place) if f"}}:{kind}" in key]

    def remove(self, kind: str, job: JobId) -> None:
        """Take a job out of each list of this kind, as something else may have done."""
        removed = 0
        for key in self.lists(kind):
            for member in self._members(key):
                if job in member:
                    removed += int(str(self.server.say("ZREM", key, member)))
        assert removed, f"{job} is in no list {kind}"

    def add(self, kind: str, job: JobId, like: JobId) -> None:
        """Put a job into the list in which another one is."""
        [(key, member)] = [
            (key, member)
            for key in self.lists(kind)
            for member in self._members(key)
            if like in member
        ]
        self.server.say("ZADD", key, 0, member.replace(like, job))

    def rescore(self, kind: str, job: JobId, by: int) -> None:
        """Give a job another score in each list of this kind."""
        for key in self.lists(kind):
            for member in self._members(key):
                if job in member:
                    self.server.say("ZINCRBY", key, by, member)

    def score(self, kind: str, job: JobId) -> list[str]:
        return [
            str(self.server.say("ZSCORE", key, member))
            for key in self.lists(kind)
            for member in self._members(key)
            if job in member
        ]

    def drop(self, kind: str) -> None:
        for key in self.lists(kind):
            self.server.say("DEL", key)

    def forget(self, kind: str, job: JobId) -> None:
        [key] = [key for key in self.server.keys(self.place) if key.endswith(f":{kind}:{job}")]
        self.server.say("DEL", key)

    def _members(self, key: str) -> list[str]:
        found = self.server.say("ZRANGE", key, 0, -1)
        assert isinstance(found, list)
        return [str(one) for one in found]


@pytest.fixture
def doctor(scene: Scene, server: ThrowawayValkey, place: str) -> Doctor:
    return Doctor(scene, server, place)


async def work_off(scene: Scene, count: int, queue: str = QUEUE) -> list[JobId]:
    """All ready jobs of a queue run and end; answers in which order."""
    found = await scene.claim(count, queue)
    for job in found:
        assert (await scene.finish(job)).accepted
    return ids(found)


async def test_what_no_list_names_is_not_counted_away(doctor: Doctor) -> None:
    """A recount that walks along a list which lacks a job finds too few. Corrected by that, the
    books said -1 as soon as the job moved."""
    jobs = await doctor.scene.enqueue_many(3)
    doctor.remove("live", jobs[1])
    assert await doctor.problems() == [MISPLACED, BOOKS]
    assert await doctor.problems(fix=True) == []
    assert await doctor.counts() == {JobState.READY: 3}
    assert await work_off(doctor.scene, 9) == jobs
    assert await doctor.counts() == {JobState.SUCCEEDED: 3}
    assert await doctor.is_well()


@pytest.mark.parametrize("kind", ["ready", "heads", "live"])
async def test_ready_jobs_that_their_line_lacks_are_claimed_again(
    doctor: Doctor, kind: str
) -> None:
    jobs = await doctor.scene.enqueue_many(5)
    if kind == "ready":
        doctor.remove(kind, jobs[0])
        doctor.remove(kind, jobs[3])
    else:
        doctor.drop(kind)
    assert MISPLACED in await doctor.problems()
    assert await doctor.problems(fix=True) == []
    assert sorted(await work_off(doctor.scene, 9)) == sorted(jobs)
    assert await doctor.counts() == {JobState.SUCCEEDED: 5}
    assert await doctor.is_well()


@pytest.mark.parametrize("kind", ["limited", "lines", "open", "groups", "live"])
async def test_jobs_with_limits_that_their_line_lacks_are_claimed_again(
    doctor: Doctor, kind: str
) -> None:
    scene = doctor.scene
    await limited(scene, tenant=9)
    jobs = await scene.enqueue_many(3, **through("tenant:a"))
    doctor.drop(kind)
    assert MISPLACED in await doctor.problems()
    assert await doctor.problems(fix=True) == []
    assert sorted(await work_off(scene, 9)) == sorted(jobs)
    assert await doctor.counts() == {JobState.SUCCEEDED: 3}
    assert await doctor.is_well()


@pytest.mark.parametrize("how", ["gone", "twice"])
async def test_a_line_that_waits_for_room_is_parked_once(doctor: Doctor, how: str) -> None:
    scene = doctor.scene
    await limited(scene, tenant=1)
    jobs = await scene.enqueue_many(3, **through("tenant:a"))
    [first] = await scene.claim(9)
    assert await scene.claim(9) == []
    [parked] = doctor.lists("parked")
    if how == "gone":
        doctor.drop("parked")
    else:
        [member] = doctor._members(parked)
        doctor.server.say("ZADD", parked, 0, member.replace(member[:30], "0" * 30))
    assert MISPLACED in await doctor.problems()
    assert await doctor.problems(fix=True) == []
    assert (await scene.finish(first)).accepted
    done = [first.id]
    for _ in range(2):
        done += await work_off(scene, 9)
    assert sorted(done) == sorted(jobs)
    assert await doctor.is_well()


LISTS: dict[JobState, Sequence[str]] = {
    JobState.READY: ["live", "ready", "heads"],
    JobState.RUNNING: ["live", "held", "timeouts", "deadlines"],
    JobState.SCHEDULED: ["live", "due", "deadlines"],
    JobState.SUSPENDED: ["live"],
    JobState.BLOCKED: ["live", "untimed"],
    JobState.SUCCEEDED: ["ended", "expiry"],
    JobState.FAILED: ["ended", "expiry", "dead"],
    JobState.CANCELLED: ["ended"],
}
"""What lists the jobs of a state; all of them are dropped."""


@pytest.mark.parametrize("state", LISTS)
async def test_every_list_of_a_state_is_made_again(doctor: Doctor, state: JobState) -> None:
    scene = doctor.scene
    options: dict[str, Any] = {"policy": Policy(timeout=9)} if state is JobState.RUNNING else {}
    if "deadlines" in LISTS[state]:
        options["deadline_in"] = 1e6
    for _ in range(3):
        await scene.in_state(state, queue=state, **options)
    before, kinds = await doctor.counts(), LISTS[state]
    kept = {kind: {key: doctor._members(key) for key in doctor.lists(kind)} for kind in kinds}
    assert all(kept.values())
    for kind in kinds:
        doctor.drop(kind)
    assert MISPLACED in await doctor.problems()
    assert await doctor.problems(fix=True) == []
    assert {
        kind: {key: doctor._members(key) for key in doctor.lists(kind)} for kind in kinds
    } == kept
    assert await doctor.counts() == before
    assert await doctor.is_well()


async def test_an_ended_job_that_a_line_still_lists_does_not_run_again(doctor: Doctor) -> None:
    scene = doctor.scene
    [done] = await scene.enqueue_many(1)
    await work_off(scene, 1)
    waiting = [await scene.enqueue()]
    while _partition(scene, waiting[-1]) != _partition(scene, done):
        waiting.append(await scene.enqueue())
    doctor.add("ready", done, waiting[-1])
    doctor.add("live", done, waiting[-1])
    assert MISPLACED in await doctor.problems()
    assert await doctor.problems(fix=True) == []
    assert sorted(await work_off(scene, 99)) == sorted(waiting)
    assert await doctor.counts() == {JobState.SUCCEEDED: 1 + len(waiting)}


@pytest.mark.parametrize("kind", ["due", "ended", "untimed", "deadlines", "expiry", "held"])
async def test_a_job_in_two_places_leaves_the_one_that_its_record_does_not_name(
    doctor: Doctor, kind: str
) -> None:
    scene = doctor.scene
    [job] = await scene.enqueue_many(1)
    key = doctor.lists("live")[0].replace("}:live", f"}}:{_name(kind, scene)}")
    doctor.server.say("ZADD", key, 1, job)
    assert await doctor.problems() == [MISPLACED, BOOKS]
    assert await doctor.problems(fix=True) == []
    assert doctor.lists(_name(kind, scene)) == []
    assert await work_off(scene, 9) == [job]
    assert await doctor.is_well()


@pytest.mark.parametrize("gone", ["s", "sb"], ids=["the record", "all of it"])
async def test_a_job_that_is_listed_and_gone_is_put_aside_and_named(
    doctor: Doctor, gone: str
) -> None:
    """It cannot be put right: the doctor goes on saying so, and the books are right."""
    scene = doctor.scene
    jobs = await scene.enqueue_many(3)
    for kind in gone:
        doctor.forget(kind, jobs[1])
    assert BODILESS in await doctor.problems()
    assert await doctor.problems(fix=True) == [ASIDE]
    assert await doctor.problems() == [ASIDE]
    [aside] = [one for one in await doctor.says() if one.check == ASIDE]
    assert jobs[1] in aside.saw
    assert await doctor.counts() == {JobState.READY: 2}
    assert await work_off(scene, 9) == [jobs[0], jobs[2]]
    assert await doctor.counts() == {JobState.SUCCEEDED: 2}


async def test_a_job_without_a_body_stays_where_it_is_and_is_a_problem(doctor: Doctor) -> None:
    jobs = await doctor.scene.enqueue_many(3)
    doctor.forget("b", jobs[1])
    assert await doctor.problems(fix=True) == [BODILESS]
    assert await doctor.counts() == {JobState.READY: 3}


async def test_lists_and_books_that_are_both_wrong_are_put_right(doctor: Doctor) -> None:
    scene = doctor.scene
    for state in REACHABLE:
        await scene.in_state(state, queue=state)
    before = await doctor.counts()
    for kind in ("live", "ended", "ready"):
        doctor.drop(kind)
    await scene.store.telemetry.correct([Tally("ready", "greet", JobState.READY, -5)])
    found = await doctor.says(fix=True, by="ann")
    told = {one.check: one for one in found}
    assert told["places"].severity is Severity.OK
    assert "corrected" in told["places"].saw
    assert "corrected" in told["books"].saw
    assert await doctor.counts() == before
    assert await doctor.is_well()
    acts = (await scene.store.audit.page(AuditFilter(), 9)).entries
    assert [(act.by, act.verb) for act in acts] == [("ann", "books.correct")] * 2


SCORED: dict[str, JobState] = {
    "due": JobState.SCHEDULED,
    "deadlines": JobState.SCHEDULED,
    "timeouts": JobState.RUNNING,
    "expiry": JobState.SUCCEEDED,
    "ready": JobState.READY,
    "live": JobState.SUSPENDED,
    "ended": JobState.FAILED,
}


@pytest.mark.parametrize("by", [-(10**15), 10**15])
@pytest.mark.parametrize("kind", SCORED)
async def test_a_list_orders_a_job_by_what_its_record_says(
    doctor: Doctor, kind: str, by: int
) -> None:
    """By another time it would move too early or never; by another priority, out of turn."""
    scene, state = doctor.scene, SCORED[kind]
    options: dict[str, Any] = {"policy": Policy(timeout=9)} if state is JobState.RUNNING else {}
    if kind == "deadlines":
        options["deadline_in"] = 1e6
    jobs = [await scene.in_state(state, queue=state, **options) for _ in range(3)]
    before = doctor.score(kind, jobs[1])
    doctor.rescore(kind, jobs[1], by)
    assert before
    assert doctor.score(kind, jobs[1]) != before
    assert MISPLACED in await doctor.problems()
    assert await doctor.problems(fix=True) == []
    assert doctor.score(kind, jobs[1]) == before
    assert await doctor.is_well()


async def test_a_list_whose_scores_are_all_mixed_up_is_looked_at_once(doctor: Doctor) -> None:
    """Its members are in no order then, and a walk by their ids would go round for ever."""
    jobs = sorted(await doctor.scene.enqueue_many(300))
    for job in jobs[:200]:
        doctor.rescore("live", job, 1)
    assert MISPLACED in await doctor.problems()
    assert await doctor.problems(fix=True) == []


async def test_a_store_that_is_well_is_left_as_it_is(doctor: Doctor) -> None:
    scene = doctor.scene
    for state in REACHABLE:
        await scene.in_state(state, queue=state)
    await limited(scene, tenant=1)
    await scene.enqueue_many(3, queue="limits", **through("tenant:a"))
    await scene.claim(1, "limits")
    assert await scene.store.health.repair() == 0
    assert await doctor.is_well()


def _name(kind: str, scene: Scene) -> str:
    more = {"ended": ":succeeded", "untimed": ":blocked", "held": f":{scene.worker}"}
    return kind + more.get(kind, "")


def _partition(scene: Scene, job: JobId) -> int:
    assert isinstance(scene.store, ValkeyStore)
    return scene.store._connections.partition_of(job)
