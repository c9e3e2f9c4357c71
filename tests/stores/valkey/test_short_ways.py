"""The short ways in (`jobs/insert_ready`, `jobs/insert_limited`) and out (`jobs/succeed`,
`jobs/succeed_limited`): taken by jobs that are plain, or plain but for their limits, alone, and
leaving exactly what the long ways leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holdfast.job.ends import Returned
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.record import ErrorEntry, NewJob
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.job.transition import Transition
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.valkey.claiming import INLINE_BODIES
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.rows import to_record
from holdfast.store.valkey.store import ValkeyStore
from tests.conformance.builders import QUEUE, Scene, new_job
from tests.conformance.limiting import limited, nothing_is_wrong, through

POLICIES = [Policy(), Policy(timeout=9), Policy(timeout=0.5, keep_result=False)]
TIED = int(Tie.WATCHED)
LIMITED = through("tenant:a", "host:")
WITH_OR_WITHOUT_LIMITS = pytest.mark.parametrize("more", [{}, LIMITED], ids=["plain", "limited"])


@pytest.fixture
def called(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scripts that are called, in order."""
    connections, verbs = _connections(scene), list[str]()
    call = connections.call

    async def noted(verb: str, *given: Any, **options: Any) -> Any:
        verbs.append(verb)
        return await call(verb, *given, **options)

    monkeypatch.setattr(connections, "call", noted)
    return verbs


# Which way is taken

JOBS: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "priority, tags, headers": {"priority": 3, "tags": ("a",), "headers": "{}"},
    "a timeout": {"policy": Policy(timeout=9)},
    "ties": {"ties": TIED},
    "limits": LIMITED,
    "limits and other ties": {**LIMITED, "ties": TIED | LIMITED["ties"]},
    "limits and a delay": {**LIMITED, "delay": 60.0},
    "blocked": {"blocked": True},
    "blocked and ties": {"blocked": True, "ties": TIED},
    "a delay": {"delay": 60.0},
    "a delay of nothing": {"delay": 0.0},
    "a key": {"unique": Unique("k")},
    "a deadline": {"deadline_in": 60.0},
}


@pytest.mark.parametrize("options", JOBS.values(), ids=JOBS)
async def test_a_job_is_inserted_by_the_short_way_if_it_is_plain(
    scene: Scene, called: list[str], options: dict[str, Any]
) -> None:
    job = new_job(**options)
    await scene.store.jobs.insert([job])
    assert called == [_way_in([job])]


@pytest.mark.parametrize("options", JOBS.values(), ids=JOBS)
async def test_a_batch_is_inserted_by_the_short_way_if_all_of_it_is_plain(
    scene: Scene, called: list[str], options: dict[str, Any]
) -> None:
    jobs = [new_job(), new_job(**options), new_job()]
    await scene.store.jobs.insert(jobs)
    assert called == [_way_in(jobs)]


def _way_in(jobs: Sequence[NewJob]) -> str:
    if all(job.is_plain for job in jobs):
        return "jobs/insert_ready"
    if all(job.is_plain_with_permits for job in jobs):
        return "jobs/insert_limited"
    return "jobs/insert"


ENDS: dict[str, dict[str, Any]] = {
    "a return": {},
    "a result": {"result": '"x"'},
    "ties": {"ties": TIED},
    "permits": {"ties": int(Tie.PERMITS)},
    "permits and an error": {"ties": int(Tie.PERMITS), "error": ErrorEntry(1, "E", "m")},
    "another state": {"to": JobState.FAILED},
    "no attempt spent": {"spend": 0},
    "a crash": {"crash": 1},
    "a new fence": {"bump": 1},
    "a reason": {"reason": "because"},
    "an error": {"error": ErrorEntry(1, "E", "m")},
    "a throttle": {"cool": 1.0},
}


@pytest.mark.parametrize("changes", ENDS.values(), ids=ENDS)
async def test_an_end_takes_the_short_way_if_it_is_a_plain_success(
    scene: Scene, called: list[str], changes: dict[str, Any]
) -> None:
    ties = changes.get("ties", 0)
    await limited(scene, tenant=1, host=1)
    claimed = await scene.running(**(LIMITED if ties & Tie.PERMITS else {"ties": ties}))
    move = msgspec.structs.replace(
        Transition(claimed.id, claimed.fence, JobState.SUCCEEDED, spend=1), **changes
    )
    called.clear()
    [verdict] = await scene.store.jobs.finish([move])
    assert verdict.accepted
    short = "jobs/succeed_limited" if move.is_plain_success_with_permits else "jobs/finish"
    assert called == ["jobs/succeed" if move.is_plain_success else short]


async def test_a_waiting_job_is_ended_by_the_long_way(scene: Scene, called: list[str]) -> None:
    job = await scene.enqueue(blocked=True)
    called.clear()
    await scene.store.jobs.finish([Transition(job, 0, JobState.SKIPPED, JobState.BLOCKED)])
    assert called == ["jobs/finish"]


async def test_a_job_that_was_tied_after_its_claim_is_ended_by_the_long_way(
    scene: Scene, called: list[str]
) -> None:
    """The worker does not know of the tie; its batch is ended all the same, and whole."""
    tied, plain = await scene.running(ties=TIED), await scene.running()
    called.clear()
    moves = [
        Transition(job.id, job.fence, JobState.SUCCEEDED, spend=1, result='"x"')
        for job in (plain, tied)
    ]
    assert [verdict.accepted for verdict in await scene.store.jobs.finish(moves)] == [True, True]
    assert called == ["jobs/succeed", "jobs/finish"]
    assert [job.result for job in await scene.store.jobs.get([plain.id, tied.id])] == ["x"] * 2


PLAINLY, WITH_LIMITS = "jobs/claim", "jobs/claim_limited"


async def test_a_claim_takes_the_short_way_unless_limits_matter(
    scene: Scene, called: list[str]
) -> None:
    """Lines that wait at a full bucket matter to nobody."""
    await limited(scene, tenant=0)
    await scene.enqueue(**through("tenant:a"))
    called.clear()
    assert await scene.claim(10) == []
    assert called == [PLAINLY, WITH_LIMITS]
    called.clear()
    for _ in range(2):
        job = await scene.enqueue()
        assert [one.id for one in await scene.claim(10)] == [job]
    assert called == ["jobs/insert_ready", WITH_LIMITS, "jobs/insert_ready", PLAINLY]


async def test_a_claim_takes_the_long_way_when_lines_may_go_on(
    scene: Scene, called: list[str]
) -> None:
    await limited(scene, tenant=1)
    jobs = await scene.enqueue_many(2, **through("tenant:a"))
    [held] = await scene.claim(10)
    for _ in range(2):
        assert await scene.claim(10) == []
    called.clear()
    await scene.finish(held)
    assert [one.id for one in await scene.claim(10)] == jobs[1:]
    assert called == ["jobs/succeed_limited", PLAINLY, WITH_LIMITS]


@pytest.mark.parametrize("settings", [{"max_running": 9}, {"aging": 5.0}])
async def test_a_claim_takes_the_long_way_in_a_queue_with_a_total_or_aging(
    scene: Scene, called: list[str], settings: dict[str, Any]
) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(**settings))
    called.clear()
    assert await scene.claim(1, "other") == []
    assert await scene.claim(1) == []
    assert await scene.claim(1) == []
    assert called == [PLAINLY, PLAINLY, WITH_LIMITS, WITH_LIMITS]


# What the ways leave


@WITH_OR_WITHOUT_LIMITS
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("policy", POLICIES)
async def test_the_short_way_in_leaves_what_the_long_way_leaves(
    scene: Scene, called: list[str], policy: Policy, count: int, more: dict[str, Any]
) -> None:
    options = {"policy": policy, "priority": -3, "tags": ("a",), "headers": "{}", **more}
    short = [new_job(queue="größer", **options) for _ in range(count)]
    long = [new_job(queue="kleiner", run_at=scene.after(-60), **options) for _ in range(count)]
    await scene.store.jobs.insert(short)
    await scene.store.jobs.insert(long)
    assert called == [_way_in(short), "jobs/insert"]
    assert await _left(scene, short) == await _left(scene, long)
    await _require_places(scene)


@WITH_OR_WITHOUT_LIMITS
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("deadline", [None, 600.0])
async def test_the_short_way_out_leaves_what_the_long_way_leaves(
    scene: Scene,
    called: list[str],
    policy: Policy,
    count: int,
    deadline: float | None,
    more: dict[str, Any],
) -> None:
    await limited(scene, tenant=9, host=9)
    options = {"policy": policy, "deadline_in": deadline, **more}
    short = [new_job(queue="größer", **options) for _ in range(count)]
    long = [new_job(queue="kleiner", **options) for _ in range(count)]
    ends: list[list[Transition]] = []
    for jobs in (short, long):
        await scene.store.jobs.insert(jobs)
        claimed = await scene.claim(count, jobs[0].queue)
        ends.append([decide(job, Returned(f'"{n}"')) for n, job in enumerate(claimed)])
    called.clear()
    await scene.store.jobs.finish(ends[0])
    # A batch that names a job twice goes to the script that knows every move.
    verdicts = await scene.store.jobs.finish([*ends[1], ends[1][0]])
    assert [verdict.accepted for verdict in verdicts] == [True] * count + [False]
    assert called == ["jobs/succeed_limited" if more else "jobs/succeed", "jobs/finish"]
    await nothing_is_wrong(scene)
    assert await _left(scene, short) == await _left(scene, long)
    assert await scene.store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 2 * count}
    await _require_places(scene)


async def _left(scene: Scene, jobs: Sequence[NewJob]) -> list[tuple[object, ...]]:
    """All that the store has of each job: its record, but for what no two jobs share, and the keys
    that mention it, with its score in each."""
    connections = _connections(scene)
    found: list[tuple[object, ...]] = []
    for job in jobs:
        blob = await connections.command("GET", connections.key(0, f"s:{job.id}"))
        row = msgspec.structs.asdict(to_record(blob))
        row |= {"seq": len(row["seq"]), "queue": "", "fence": row["fence"] > 0}
        found.append((row, await _mentions(scene, job.id)))
    return found


async def _mentions(scene: Scene, job_id: JobId) -> dict[str, object]:
    connections = _connections(scene)
    tag = connections.tag(0)
    found: dict[str, object] = {}
    client: Any = connections._client
    async for key in client.scan_iter(match=f"{tag}*", count=1_000):
        name = key.decode().removeprefix(tag).replace(job_id, "<id>")
        if await connections.command("TYPE", key) != b"zset":
            if "<id>" in name:
                found[name] = True
            continue
        members = await connections.command("ZRANGE", key, 0, -1, "WITHSCORES")
        for member, score in zip(members[::2], members[1::2], strict=True):
            if member.decode().endswith(job_id):
                found[name.split(":")[1]] = score
    return found


async def _require_places(scene: Scene) -> None:
    """Counters, heads of lines and sets agree."""
    found = await scene.store.health.check()
    assert [one for one in found if one.severity == "problem"] == []
    queues = {queue.name: queue.counts for queue in await scene.store.queues.find()}
    assert queues.get("größer") == queues.get("kleiner")
    assert QUEUE not in queues


def _connections(scene: Scene) -> Connections:
    assert isinstance(scene.store, ValkeyStore)
    return scene.store._connections


# What only the short ways do


async def test_a_job_that_is_deleted_between_its_claim_and_the_reading_of_its_body_is_left_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was silent for so long that another ended it, and retention removed it."""
    connections = _connections(scene)
    first, *others = await scene.enqueue_many(2 * INLINE_BODIES)
    ask = connections.command

    async def too_late(*words: Any) -> Any:
        await ask("UNLINK", connections.key(0, f"b:{first}"), connections.key(0, f"s:{first}"))
        return await ask(*words)

    monkeypatch.setattr(connections, "command", too_late)
    assert [job.id for job in await scene.claim(2 * INLINE_BODIES)] == others


async def test_results_that_are_alike_come_back_as_they_were(scene: Scene) -> None:
    """Each is written with a byte of its own at the end."""
    claimed = [await scene.running() for _ in range(200)]
    results = [f'"{"x" * 100}{n}"' for n in range(len(claimed))]
    await scene.store.jobs.finish(
        [decide(job, Returned(result)) for job, result in zip(claimed, results, strict=True)]
    )
    jobs = await scene.store.jobs.get([job.id for job in claimed])
    assert [job.result_json for job in jobs] == results
    outcomes = await scene.store.jobs.outcomes([job.id for job in claimed])
    assert [outcome.result for outcome in outcomes] == results
