"""A store of several partitions acts as one."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Flow, FlowFailed, FlowHandle, FlowState, JobFailed
from holdfast.clock import ManualClock
from holdfast.errors import (
    BadOption,
    NotCapable,
    StoreError,
)
from holdfast.insights.diagnosis import OK
from holdfast.insights.doctor import examine
from holdfast.job.ends import WasThrottled, WorkerLost
from holdfast.job.ids import new_job_id
from holdfast.job.line_rule import LineRule
from holdfast.job.outcome import decide
from holdfast.job.ties import Tie
from holdfast.job.unique import Unique
from holdfast.limits.model import Concurrency
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.open import open_store
from holdfast.testing.servers import ThrowawayValkey, ValkeyServer
from tests.conformance.builders import (
    QUEUE,
    Scene,
    accepted,
    ids,
    new_job,
)
from tests.conformance.limiting import in_use, limited, nothing_is_wrong, through
from tests.conformance.planning import definition
from tests.support.backends import opened
from tests.support.flows import Trip, new_flow

PARTITIONS = 4


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


async def test_the_number_of_partitions_is_fixed_at_the_first_start(
    server: ThrowawayValkey,
) -> None:
    url = server.new_namespace()
    async with opened(f"{url}&partitions=4"):
        pass
    with pytest.raises(StoreError, match=r"first used with 4 partitions.*\?partitions=4"):
        await open_store(f"{url}&partitions=8").open()
    server.clear(url)


async def test_all_keys_of_a_partition_share_its_hash_tag(
    scene: Scene, server: ThrowawayValkey
) -> None:
    await scene.enqueue_many(50, tags=("t",), deadline_in=60.0)
    await scene.enqueue_many(10, delay=60.0)
    for job in await scene.claim(20):
        await scene.finish(job)
    keys = [str(key) for key in _keys_of_all(server)]
    tags = {key.partition("}")[0] + "}" for key in keys}
    assert all(key.startswith("{") for key in keys)
    assert {tag.partition(":")[2] for tag in tags} == {"", *(f"{n}}}" for n in range(PARTITIONS))}


def _keys_of_all(server: ValkeyServer) -> list[object]:
    answer = server.say("KEYS", "*")
    assert isinstance(answer, list)
    return list(answer)


async def test_jobs_of_several_partitions_are_one_line(scene: Scene) -> None:
    jobs = [await scene.enqueue(priority=n % 3) for n in range(30)]
    expected = sorted(range(30), key=lambda n: (n % 3, n))
    claimed = [*await scene.claim(7), *await scene.claim(23)]
    assert ids(claimed) == [jobs[n] for n in expected]


async def test_jobs_of_one_insert_keep_their_order_across_partitions(scene: Scene) -> None:
    jobs = await scene.enqueue_many(300)
    assert len({int(job[-3:], 16) % PARTITIONS for job in jobs}) == PARTITIONS
    assert ids(await scene.claim(300)) == jobs


async def test_a_unique_job_lies_beside_its_key(scene: Scene) -> None:
    for n in range(20):
        key = Unique(f"key {n}")
        first = await scene.insert(unique=key)
        assert await scene.insert(unique=key) == type(first)(first.id, "existing")


async def test_an_id_that_does_not_lie_beside_its_key_is_refused(scene: Scene) -> None:
    right = new_job_id("k")
    wrong = right[:-1] + f"{(int(right[-1], 16) + 1) % 16:x}"
    with pytest.raises(BadOption, match="leave the id out"):
        await scene.store.jobs.insert([new_job(id=wrong, unique=Unique("k"))])
    assert await scene.store.jobs.count(JobFilter()) == {}


async def test_a_pause_and_a_lease_hold_in_every_partition(scene: Scene) -> None:
    await scene.enqueue_many(40)
    await scene.store.queues.pause([QUEUE])
    assert await scene.claim(40) == []
    await scene.store.queues.resume([QUEUE])
    worker = await scene.hire(lease=30)
    scene.clock.advance(31)
    assert await scene.claim(40, worker=worker) == []
    await scene.store.workers.heartbeat(worker, 30, [])
    assert len(await scene.claim(40, worker=worker)) == 40


async def test_free_slots_are_counted_over_all_partitions(scene: Scene) -> None:
    await scene.enqueue_many(40)
    claimed = await scene.claim(40, free=7)
    assert [job.ahead for job in claimed] == [False] * 7 + [True] * 33


async def test_a_reclaimer_that_had_a_break_is_refused_in_every_partition(scene: Scene) -> None:
    lost, mine = await scene.hire(lease=30), await scene.hire(lease=60)
    await scene.enqueue_many(40)
    await scene.claim(40, worker=lost)
    scene.clock.advance(31)
    [judge] = [one for one in await scene.store.workers.find() if one.id == mine]
    found = await scene.store.jobs.lapsed_leases(100)
    moves = [decide(job, WorkerLost()) for job in found]
    scene.clock.advance(100)
    await scene.store.workers.heartbeat(mine, 60, [])
    assert not any(accepted(await scene.store.jobs.reclaim(moves, judge)))
    [judge] = [one for one in await scene.store.workers.find() if one.id == mine]
    assert accepted(await scene.store.jobs.reclaim(moves, judge)) == [True] * 40


async def test_jobs_that_pass_limits_lie_with_all_buckets_and_the_others_anywhere(
    scene: Scene,
) -> None:
    await limited(scene, host=3, tenant=2)
    plain = await scene.enqueue_many(40)
    for n in range(12):
        await scene.enqueue(**through("host:", f"tenant:{n % 3}"))
    assert {int(job[-3:], 16) % PARTITIONS for job in plain} == set(range(PARTITIONS))
    claimed = await scene.claim(100)
    assert len(claimed) == 40 + 3
    assert await in_use(scene, "host:") == 3
    with_limits = [job for job in claimed if job.ties]
    assert {int(job.id[-3:], 16) for job in with_limits} == {0}
    await nothing_is_wrong(scene)
    for job in claimed:
        await scene.finish(job)
    assert len(await scene.claim(100)) == 3


async def test_jobs_with_limits_have_half_where_plain_ones_wait_in_other_partitions(
    scene: Scene,
) -> None:
    await limited(scene, host=1000)
    await scene.enqueue_many(40)
    await scene.enqueue_many(40, **through("host:"))
    assert sum(bool(job.ties) for job in await scene.claim(20)) == 10
    assert sum(bool(job.ties) for job in await scene.claim(100)) == 30


async def test_the_better_priority_goes_first_whatever_the_kind(scene: Scene) -> None:
    await limited(scene, host=1000)
    await scene.enqueue_many(10, priority=1)
    await scene.enqueue_many(10, priority=0, **through("host:"))
    await scene.enqueue_many(10, priority=2, **through("host:"))
    assert [job.priority for job in await scene.claim(25)] == [0] * 10 + [1] * 10 + [2] * 5


async def test_jobs_of_all_partitions_age_together(scene: Scene) -> None:
    await limited(scene, host=1000)
    await scene.store.queues.tune(QUEUE, QueueSettings(aging=10.0))
    expected = []
    for n in range(24):
        options = through("host:") if n % 4 == 0 else {}
        expected.append(await scene.enqueue(priority=n % 2, **options))
        scene.clock.advance(20.0)
    claimed = [*ids(await scene.claim(7)), *ids(await scene.claim(17))]
    assert claimed == expected


async def test_a_worker_of_only_some_labels_gets_jobs_of_several_partitions(scene: Scene) -> None:
    await scene.enqueue_many(10)
    wanted = await scene.enqueue(**through(labels=["gpu"]))
    assert ids(await scene.claim(10, labels=["gpu"], only=["gpu"])) == [wanted]


async def test_a_job_of_any_partition_shuts_the_limit_that_refused_it(scene: Scene) -> None:
    """And its own queue only where the limit is not defined. A shorter wait does not shorten."""
    await limited(scene, host=50)
    await scene.enqueue_many(3, queue="calls", **through("host:"))
    plain = [await scene.running() for _ in range(12)]
    for job, seconds in zip(plain[:8], [60.0, *[5.0] * 7], strict=True):
        assert (await scene.finish(job, WasThrottled(seconds, "429", "host"))).accepted
    assert await scene.claim(10, queue="calls") == []
    [bucket] = await scene.store.limits.buckets("host", 10)
    assert bucket.drained_for == pytest.approx(60.0, abs=1.0)
    [queue] = await scene.store.queues.find([QUEUE])
    assert queue.cooling_for is None
    refused = await scene.finish(plain[0], WasThrottled(600.0, "429", "host"))
    assert not refused.accepted
    [bucket] = await scene.store.limits.buckets("host", 10)
    assert bucket.drained_for == pytest.approx(60.0, abs=1.0)
    for job in plain[8:]:
        await scene.finish(job, WasThrottled(30.0, "429", "nosuch"))
    [queue] = await scene.store.queues.find([QUEUE])
    assert queue.cooling_for is not None


async def test_a_flow_with_limits_lies_with_all_buckets(scene: Scene) -> None:
    await limited(scene, host=1)
    options = {"b": {**through("host:"), "ties": int(Tie.NODE | Tie.PERMITS)}}
    trip = await Trip.begin(scene, {"a": (), "b": ("a",)}, node_options=options)
    assert int(trip.id[-3:], 16) == 0
    for name in ("a", "b"):
        [job] = await scene.claim(10)
        assert job.id == trip.ids[name]
        await scene.finish(job)
    assert await in_use(scene, "host:") == 0


async def test_what_one_script_cannot_see_is_refused(scene: Scene) -> None:
    store, several = scene.store, "several partitions"
    elsewhere = new_job(id=new_job_id(beside="a"), **through("host:"))
    with pytest.raises(BadOption, match="new_job_id\\(limited=True\\)"):
        await store.jobs.insert([elsewhere])
    unique = Unique("key")
    with pytest.raises(NotCapable, match=several):
        await store.jobs.insert([new_job(unique=unique, **through("host:"))])
    with pytest.raises(NotCapable, match=several):
        await store.queues.tune(QUEUE, QueueSettings(max_running=3))
    with pytest.raises(NotCapable, match=several):
        await store.queues.ensure({QUEUE: QueueSettings(max_running=3)})
    options = {"a": through("host:")}
    with pytest.raises(NotCapable, match=several):
        await store.flows.start([new_flow({"a": ()}, node_options=options, unique_key="key")])
    nightly = definition(line=LineRule(requires=("gpu",)))
    with pytest.raises(NotCapable, match=several):
        await store.schedules.put("nightly", nightly)
    with pytest.raises(NotCapable, match=several):
        await store.schedules.declare({"nightly": nightly})


REFUSED = "can neither call nor add them"


async def test_whether_jobs_with_limits_may_be_called_is_no_matter_of_chance(place: str) -> None:
    """What is called lies beside its caller, which may lie anywhere."""
    app = App(place)

    @app.task(limits=[app.limit("busy", Concurrency(5))])
    async def limited_task(number: int) -> int:
        return number

    @app.task(retry=1)
    async def plain_caller(ctx: Context) -> int:
        return await ctx.call(limited_task, 1)

    @app.task(retry=1, fair="who")
    async def caller_in_line(ctx: Context, who: str) -> int:
        return await ctx.call(limited_task, 2)

    @app.flow_task(retry=1)
    async def flow_of_some() -> Flow:
        child = app.flow("child")
        child.add(limited_task, 3)
        return child

    async with app, app.worker() as worker:
        plain = [await plain_caller.enqueue() for _ in range(12)]
        plain += [await flow_of_some.enqueue() for _ in range(12)]
        in_line = [await caller_in_line.enqueue("ann") for _ in range(4)]
        await worker.drain()
        for job in plain:
            with pytest.raises(JobFailed, match=REFUSED):
                await job.result(timeout=5)
        assert [await job.result(timeout=5) for job in in_line] == [2] * 4


@pytest.mark.parametrize("maps", [False, True])
async def test_whether_nodes_with_limits_may_be_added_is_no_matter_of_chance(
    place: str, maps: bool
) -> None:
    app = App(place)

    @app.task(limits=[app.limit("busy", Concurrency(5))])
    async def limited_task(number: int) -> int:
        return number

    @app.task(retry=1)
    async def adds(ctx: Context) -> None:
        if maps:
            ctx.flow.map(limited_task, [4, 5])
        else:
            ctx.flow.add(limited_task, 6)
        await ctx.flow.extend()

    async def started(*, with_limits: bool) -> FlowHandle:
        flow = app.flow("grows")
        flow.add(adds)
        if with_limits:
            flow.add(limited_task, 7)
        return await flow.start()

    async with app, app.worker() as worker:
        plain = [await started(with_limits=False) for _ in range(8)]
        among_buckets = [await started(with_limits=True) for _ in range(4)]
        await worker.drain()
        for run in plain:
            with pytest.raises(FlowFailed, match=REFUSED):
                await run.result(timeout=5)
        for run in among_buckets:
            assert (await run.wait(timeout=5)).state is FlowState.SUCCEEDED


async def test_a_program_explains_and_examines_limits_in_several_partitions(place: str) -> None:
    app = App(place)
    tenant = app.limit("tenant", Concurrency(1))

    @app.task(name="serve", limits=[tenant.by("who")], fair="who")
    async def serve(who: str) -> str:
        return who

    @app.task(name="plain")
    async def plain(n: int) -> int:
        return n

    async with app:
        await app.store.limits.declare({"tenant": Concurrency(1)})
        holder = await Scene.on(app.store, ManualClock())
        first, second = await serve.enqueue("acme"), await serve.enqueue("acme")
        await plain.enqueue_many((n,) for n in range(20))
        want = [Want("default", 1)]
        [held] = await app.store.jobs.claim(holder.worker, want, [serve.name])
        assert held.id == first.id
        assert await app.store.jobs.claim(holder.worker, want, [serve.name]) == []
        codes = [reason.code for reason in (await app.client.explain(second.id)).reasons]
        assert "limit-full" in codes
        assert (await app.client.limits.get(tenant, "acme")).in_use == 1
        with pytest.raises(NotCapable, match="several partitions"):
            await app.client.queues.tune("default", max_running=3)
        await holder.finish(held)
        async with app.worker() as worker:
            await worker.drain()
        assert await second.result(timeout=5) == "acme"
        found = await examine(app.store.sibling())
        assert {one.severity for one in found if one.check == "limits"} == {OK}
