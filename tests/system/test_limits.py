"""Limits as programs declare them, workers obey them and people see them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from holdfast import App, Concurrency, Context, Throttled
from holdfast.background.options import ReconcileOptions
from holdfast.cli import limits
from holdfast.clock import ManualClock
from holdfast.declaring.tasks import Tasks
from holdfast.errors import BadOption
from holdfast.events import Event, Events
from holdfast.insights.explain import explain
from holdfast.insights.limits import check_limits
from holdfast.job.ends import WasThrottled
from holdfast.job.ids import JobId
from holdfast.job.passing import parted
from holdfast.job.state import JobState
from holdfast.reconcile.buckets import BucketsReconciler
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.store import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing import Harness
from holdfast.worker import drain
from tests.conformance.builders import QUEUE, TASK, Scene
from tests.conformance.limiting import begun, in_use, limited, nothing_is_wrong, through
from tests.unit.cli import Desk, desk_in


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


class Gauge:
    """How many handlers run at once, at most so far."""

    def __init__(self) -> None:
        self.running = self.most = self.total = 0

    async def __aenter__(self) -> None:
        self.running += 1
        self.total += 1
        self.most = max(self.most, self.running)

    async def __aexit__(self, *how: object) -> None:
        self.running -= 1


# Workers


async def test_two_workers_together_stay_within_a_limit(tmp_path: Path) -> None:
    app, gauge = App(f"sqlite:///{tmp_path}/jobs.db"), Gauge()
    tenant = app.limit("tenant", Concurrency(2))

    @app.task(name="work", limits=[tenant.by("who")])
    async def work(who: str) -> None:
        async with gauge:
            await asyncio.sleep(0.005)

    async with app:
        await work.enqueue_many(("acme",) for _ in range(30))
        async with app.worker(queues={"default": 10}) as one, app.worker() as two:
            await asyncio.gather(one.drain(), two.drain())
        assert (gauge.most, gauge.total) == (2, 30)
        bucket = await app.client.limits.get(tenant, "acme")
        assert (bucket.name, bucket.in_use) == ("tenant:acme", 0)


async def test_a_handler_that_is_throttled_shuts_the_bucket_for_everybody() -> None:
    app, calls = App("sqlite://"), list[str]()
    github = app.limit("github", Concurrency(5))

    @app.task(name="sync", limits=[github])
    async def sync(ctx: Context, name: str) -> None:
        calls.append(name)
        if name == "first" and len(calls) == 1:
            raise Throttled(30, limit=github)

    @app.task(name="other")
    async def other() -> None:
        calls.append("other")

    async with Harness(app) as harness:
        await sync.enqueue("first")
        await harness.drain()
        await sync.enqueue("second")
        await other.enqueue()
        await harness.drain()
        assert calls == ["first", "other"]
        await harness.advance(seconds=31)
        await harness.drain()
        assert sorted(calls[2:]) == ["first", "second"]


async def test_a_drain_does_not_wait_for_what_no_end_of_a_job_will_open() -> None:
    app = App("sqlite://")
    tenant = app.limit("tenant", Concurrency(0))

    @app.task(name="work", limits=[tenant])
    async def work() -> None: ...

    async with app, app.worker() as worker:
        await work.enqueue()
        async with asyncio.timeout(10):
            assert await worker.drain() == 0
        await app.client.limits.set(tenant, most=1)
        assert await worker.drain() == 1


async def test_a_drain_does_not_wait_for_a_queue_whose_total_is_shut() -> None:
    app = App("sqlite://")
    tenant = app.limit("tenant", Concurrency(1))

    @app.task(name="plain")
    async def plain() -> None: ...

    @app.task(name="work", limits=[tenant])
    async def work() -> None: ...

    async with app:
        await app.client.queues.tune("default", max_running=0)
        await plain.enqueue()
        await work.enqueue()
        async with asyncio.timeout(10), app.worker() as worker:
            assert await worker.drain() == 0
            await app.client.queues.tune("default", max_running=1)
            assert await worker.drain() == 2


@pytest.mark.parametrize("buckets", [{}, through("tenant:a")])
async def test_work_is_left_in_a_queue_only_while_its_total_may_open(
    scene: Scene, buckets: dict[str, str]
) -> None:
    async def is_left() -> bool:
        return await drain._work_left(scene.store, [QUEUE], (TASK,))

    await limited(scene, tenant=5)
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=1))
    await scene.enqueue_many(3, **buckets)
    [first] = await scene.claim(5)
    assert await is_left(), "the end of the running job lets the next begin"
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=0))
    assert await scene.claim(5) == []
    assert await is_left(), "a job runs"
    await scene.finish(first)
    assert await scene.claim(5) == []
    assert not await is_left(), "a total of 0, and no job runs"
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=1))
    assert await is_left()


async def test_a_running_job_of_a_paused_queue_is_left_whatever_waits_beside_it(
    scene: Scene,
) -> None:
    await limited(scene, tenant=1, none=0)
    await begun(scene, 1, "tenant:a")
    await scene.enqueue_many(3, **through("none:"))
    assert await scene.claim(5) == []
    await scene.store.queues.pause([QUEUE])
    assert await drain._work_left(scene.store, [QUEUE], (TASK,))


async def test_a_worker_claims_again_when_time_opens_a_bucket() -> None:
    app = App("sqlite://", poll=30)
    host = app.limit("host", Concurrency(2))
    done = asyncio.Event()

    @app.task(name="work", limits=[host])
    async def work(n: int) -> None:
        if n == 0:
            await app.store.limits.drain({"host:": 0.3})
        else:
            done.set()

    async with app, app.worker(queues={"default": 1}):
        await work.enqueue_many([(0,), (1,)])
        async with asyncio.timeout(5):
            await done.wait()


async def test_nodes_of_a_flow_pass_limits(scene: Scene) -> None:
    app, gauge = App("sqlite://"), Gauge()
    tenant = app.limit("tenant", Concurrency(1))

    @app.task(name="cut", limits=[tenant])
    async def cut(n: int) -> int:
        async with gauge:
            await asyncio.sleep(0)
            return n

    @app.task(name="join", limits=[tenant])
    async def join(parts: list[int]) -> int:
        async with gauge:
            return sum(parts)

    flow = app.flow("album")
    flow.add(join, flow.map(cut, [1, 2, 3]).outputs)
    async with Harness(app) as harness:
        run = await flow.start()
        await harness.drain()
        assert await run.result(5) == 6
        assert (gauge.most, gauge.total) == (1, 4)
        await nothing_is_wrong(Scene(app.store, harness.clock, scene.worker))


# Declaring


async def test_a_program_that_starts_declares_its_limits_and_keeps_what_operators_set() -> None:
    app = App("sqlite://")
    app.limit("tenant", Concurrency(5))
    async with app:
        async with app.worker():
            [found] = await app.client.limits.all()
            assert (found.name, found.settings, found.edited) == ("tenant", Concurrency(5), False)
            await app.client.limits.set("tenant", most=9)
        async with app.worker():
            assert (await app.client.limits.get("tenant")).settings == Concurrency(9)


def test_limits_of_a_set_are_those_of_the_app_that_includes_it() -> None:
    mail, app = Tasks(prefix="mail."), App("sqlite://")
    smtp = mail.limit("smtp", Concurrency(3))
    app.include(mail)
    assert app.limits == {"smtp": smtp}
    with pytest.raises(BadOption, match="free"):
        app.limit("smtp", Concurrency(4))


def test_what_cannot_be_a_limit_is_refused_when_it_is_declared() -> None:
    app = App("sqlite://")
    tenant = app.limit("tenant", Concurrency(5))
    with pytest.raises(BadOption, match="letters"):
        app.limit("a:b", Concurrency(1))
    with pytest.raises(BadOption, match="at least 0"):
        Concurrency(-1)
    with pytest.raises(BadOption, match="Concurrency"):
        app.limit("other", 5)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="parameters of the task: who"):

        @app.task(limits=[tenant.by("whom")])
        async def work(who: str) -> None: ...

    with pytest.raises(BadOption, match="each limit once"):

        @app.task(limits=[tenant, tenant.by("who")])
        async def twice(who: str) -> None: ...


@pytest.mark.parametrize("name", [None, 3, b"tenant", "a\n", ""])
def test_a_name_of_a_limit_is_text(name: str) -> None:
    with pytest.raises(BadOption, match="name of a limit must be 1 to 64 letters"):
        App("sqlite://").limit(name, Concurrency(1))


@pytest.mark.parametrize(
    "key", ["{", "}", "{}", "{{a}}", "{a:{b}}", "{a!r}", "{a:>5}", "{a.b}", "{a[0]}", "{a}\n"]
)
def test_a_template_has_plain_names_of_arguments(key: str) -> None:
    app = App("sqlite://")
    tenant = app.limit("tenant", Concurrency(1))
    with pytest.raises(BadOption, match="a template of plain names"):
        tenant.by(key)
    with pytest.raises(BadOption, match="a template of plain names"):

        @app.task(fair=key)
        async def work(a: str, b: str) -> None: ...


@pytest.mark.parametrize("who", [None, ""])
async def test_a_call_without_its_key_is_refused_and_never_passes_by(who: str | None) -> None:
    app = App("sqlite://")
    tenant = app.limit("tenant", Concurrency(5))

    @app.task(name="work", limits=[tenant.by("who")])
    async def work(who: str | None = None) -> None: ...

    async with app:
        with pytest.raises(BadOption, match="key of limit 'tenant'"):
            await work.enqueue(who)


async def test_a_key_may_be_made_of_several_arguments() -> None:
    app = App("sqlite://")
    tenant, all_ = app.limit("tenant", Concurrency(5)), app.limit("all", Concurrency(9))

    @app.task(name="work", limits=[tenant.by("{org}/{team}"), all_])
    async def work(org: str, team: int = 7) -> None: ...

    async with app:
        job = await work.enqueue("acme")
        found = (await app.store.limits.of([job.id]))[job.id]
        assert parted(found.buckets) == ("all:", "tenant:acme/7")


async def test_a_value_is_one_step_of_the_path_that_it_fills() -> None:
    """Else org `a/b` with team `c` would have the bucket of org `a` with team `b/c`."""
    app = App("sqlite://")
    tenant, path = app.limit("tenant", Concurrency(5)), app.limit("path", Concurrency(5))

    @app.task(name="work", limits=[tenant.by("{org}/{team}"), path.by("whole")])
    async def work(org: str, team: str, whole: str) -> None: ...

    async with app:
        with pytest.raises(BadOption, match="argument 'org' in the key"):
            await work.enqueue("a/b", "c", "x")
        job = await work.enqueue("a", "b", "x/y")
        found = (await app.store.limits.of([job.id]))[job.id]
        assert parted(found.buckets) == ("path:x/y", "tenant:a/b")


# What people see


async def codes(scene: Scene, job: JobId) -> list[tuple[str, str]]:
    found = await explain(scene.store, await scene.job(job))
    return [(reason.code, reason.fact) for reason in found.reasons]


async def test_explain_names_the_bucket_that_is_full_and_who_holds_it(scene: Scene) -> None:
    await limited(scene, tenant=1)
    [held] = await begun(scene, 1, "tenant:acme")
    job = await scene.enqueue(**through("tenant:acme"))
    scene.clock.advance(41)
    [(code, fact)] = await codes(scene, job)
    assert code == "limit-full"
    assert "limit 'tenant' for 'acme': 1 of 1 run" in fact
    assert f"the oldest holder is job {held.id} on worker for 41.0 s" in fact


async def test_explain_says_that_a_limit_is_unknown_or_drained(scene: Scene) -> None:
    job = await scene.enqueue(**through("typo:"))
    assert [code for code, _ in await codes(scene, job)] == ["limit-unknown"]
    await limited(scene, typo=1)
    [held] = await scene.claim(1)
    await scene.finish(held, WasThrottled(30.0, "429", "typo"))
    again = await scene.enqueue(**through("typo:"))
    [(code, fact)] = await codes(scene, again)
    assert code == "limit-drained"
    assert fact == "limit 'typo' is shut for another 30.0 s"


async def test_the_doctor_tells_of_a_limit_that_is_not_defined(scene: Scene) -> None:
    [fine] = await check_limits(scene.store)
    assert fine.saw == "no limit counts a job"
    await scene.enqueue(**through("typo:"))
    assert await scene.claim(1) == []
    assert [one.saw for one in await check_limits(scene.store)][1:] == [
        "jobs wait for limit 'typo', which is not defined"
    ]


async def test_a_count_that_is_wrong_is_told_and_corrected(tmp_path: Path) -> None:
    clock, told = ManualClock(), list[Event]()
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    await store.open()
    scene, events = await Scene.on(store, clock), Events()
    events.subscribe(told.append)
    await limited(scene, tenant=1)
    await begun(scene, 1, "tenant:a")
    await store._writer.write(lambda tx: tx.run("update holdfast_bucket set in_use = 7"))
    assert "tenant:a counts 7 and holds 1" in (await check_limits(store))[0].saw
    reconciler = BucketsReconciler(store, events, ReconcileOptions())
    assert (await reconciler.run_once()).mended == 1
    [miscounted] = [one for one in told if one.name == "limit.miscounted"]
    assert (miscounted.fields["counted"], miscounted.fields["held"]) == (7, 1)
    assert await in_use(scene, "tenant:a") == 1
    assert (await reconciler.run_once()).found == 0
    await store.close()


async def test_the_acts_of_operators_are_in_the_audit() -> None:
    app = App("sqlite://")
    async with app:
        limits = app.client.limits
        await limits.set("tenant", most=2, create=True, by="ann")
        await limits.set("tenant", most=9, key="acme", by="ann")
        await limits.inherit("tenant", "acme", by="ann")
        await limits.drain("tenant", 30, key="acme", by="ann")
        assert await limits.retire("tenant", by="ann")
        assert not await limits.retire("none")
        page = await app.client.audit.page()
        words = ["limits.retire", "limits.drain", "limits.set", "limits.set", "limits.set"]
        assert [entry.verb for entry in page.entries] == words


@pytest.mark.parametrize(
    ("name", "words"), [("nosuch", "a limit that is defined"), ("queue", "tune the queue itself")]
)
async def test_only_a_limit_that_is_defined_is_shut_opened_or_topped_up(
    name: str, words: str
) -> None:
    async with App("sqlite://") as app:
        limits = app.client.limits
        for wrong in (limits.drain(name, 60), limits.reset(name), limits.top_up(name, 5)):
            with pytest.raises(BadOption, match=words):
                await wrong
        assert await limits.buckets() == []
        assert not (await app.client.audit.page()).entries


def test_a_throttle_names_a_limit_and_not_the_total_of_a_queue() -> None:
    for wrong, words in (("queue", "tune the queue itself"), ("a:b", "letters"), (3, "letters")):
        with pytest.raises(BadOption, match=words):
            Throttled(5, limit=wrong)  # type: ignore[arg-type]


async def seeded(scene: Scene) -> JobId:
    await limited(scene, tenant=1)
    await begun(scene, 1, "tenant:acme")
    job = await scene.enqueue(**through("tenant:acme"))
    assert await scene.claim(1) == []
    return job


async def many_keys(scene: Scene) -> None:
    await limited(scene, tenant=1)
    for n in range(5):
        await begun(scene, 1, f"tenant:{n}")


def test_a_list_of_limits_says_how_many_keys_it_has_looked_at(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.seed(many_keys)
    monkeypatch.setattr(limits, "BUCKETS_PAGE", 2)
    assert "  5 run " in desk.on_store("limits", "list").out
    monkeypatch.setattr(limits, "BUCKETS_LOOKED_AT", 3)
    assert "  4 run by the first 4  " in desk.on_store("limits", "list").out
    [shown] = desk.json("limits", "list")["limits"]
    assert (shown["buckets"], shown["looked_at"], shown["in_use"]) == (5, 4, 4)


def test_who_leaves_out_the_key_is_told_that_jobs_pass_by_key(desk: Desk) -> None:
    desk.seed(many_keys)
    for act in (("drain", "tenant", "--for", "1m"), ("show", "tenant")):
        told = desk.on_store("limits", *act)
        assert (
            told.code,
            "jobs pass limit 'tenant' by key ('0', '1', '2', '3', '4')" in told.err,
        ) == (
            0,
            True,
        )
    assert not desk.on_store("limits", "drain", "tenant", "--key", "0", "--for", "1m").err


def test_the_advice_for_an_unknown_limit_can_be_typed(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue(**through("nosuch:")))
    [advice] = re.findall(r"holdfast (limits set .*) N", desk.on_store("jobs", "explain", job).out)
    assert desk.on_store(*advice.split(), "3").code == 0
    assert "limit-unknown" not in desk.on_store("jobs", "explain", job, "--json").out


def test_the_advice_for_a_limit_that_lets_nothing_pass_opens_it_for_all_keys(desk: Desk) -> None:
    job = desk.seed(seeded)
    desk.on_store("limits", "set", "tenant", "--most", "0")
    assert "holdfast limits set tenant --most N" in desk.on_store("jobs", "explain", job).out


def test_the_command_line_shows_and_changes_limits(desk: Desk) -> None:
    job = desk.seed(seeded)
    [shown] = desk.json("limits", "list")["limits"]
    assert (shown["name"], shown["in_use"], shown["waiting"]) == ("tenant", 1, 1)
    assert "as declared" in desk.on_store("limits", "list").out
    said = desk.on_store("limits", "show", "tenant", "--key", "acme").out
    assert "1 at once\n  1 run\n  1 line waiting" in said
    [worker] = desk.json("workers", "list")["workers"]
    assert worker["id"] not in said  # 'workers list' has only names
    assert "holdfast limits set tenant --key=acme" in desk.on_store("jobs", "explain", job).out
    changed = desk.json("limits", "set", "tenant", "--key", "acme", "--most", "20")
    assert changed["settings"] == {"kind": "concurrency", "most": 20}
    assert desk.json("limits", "set", "tenant", "--key", "acme", "--inherit")["override"] is None
    assert desk.json("limits", "drain", "tenant", "--key", "acme", "--for", "1m")["drained_for"] > 9
    assert desk.json("limits", "retire", "tenant") == {"limit": "tenant", "retired": True}
    told = desk.json("limits", "show", "tenant", "--key", "acme")["history"]
    assert [one["verb"] for one in told] == ["retire", "drain", "set", "set"]
    assert (told[3]["key"], told[3]["settings"]) == ("acme", {"most": 20})
    assert "set most=20" in desk.on_store("limits", "show", "tenant").out
    assert "nothing to change: give --most" in desk.on_store("limits", "set", "tenant").err
    assert desk.on_store("limits", "retire", "nosuch").code == 2
    [retired] = desk.json("audit", "list", "--verb", "limits.retire")["acts"]
    assert (retired["target"], retired["outcome"]) == ("tenant", "done")
    unknown = desk.on_store("limits", "drain", "nosuch", "--for", "1m")
    assert (
        "must be a limit that is defined (see 'holdfast limits list'), got 'nosuch'" in unknown.err
    )


@pytest.mark.parametrize(
    "words", [("list", "nosuch"), ("list", "tenant", "nosuch"), ("retire", "nosuch")]
)
def test_a_limit_that_is_not_there_is_an_error_and_not_an_empty_answer(
    desk: Desk, words: tuple[str, ...]
) -> None:
    desk.seed(seeded)
    answer = desk.on_store("limits", *words)
    assert answer.code != 0
    assert "there is no limit 'nosuch'" in answer.err


def test_a_new_limit_that_lacks_something_says_what(desk: Desk) -> None:
    desk.seed(seeded)
    said = desk.on_store("limits", "set", "calls", "--per", "1m", "--create").err
    assert "limit 'calls' must be one that is defined, or a new Rate with its most and per" in said
    assert "got 'no most'" in said


def test_a_queue_without_a_total_is_not_shown_as_a_limit_that_stops_it(desk: Desk) -> None:
    desk.seed(seeded)
    said = desk.on_store("limits", "show", "queue", "--key", "default").out
    assert "queue default has no total" in said
    assert "no job of it begins" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("list", "queue"),
        ("list", "tenant", "queue"),
        ("show", "queue"),
        ("set", "queue", "--most", "5"),
        ("set", "queue", "--most", "5", "--create"),
        ("set", "queue", "--key", "default", "--inherit"),
        ("top-up", "queue", "5"),
        ("reset", "queue"),
        ("drain", "queue", "--for", "1m"),
        ("retire", "queue"),
    ],
    ids=" ".join,
)
def test_every_command_says_of_totals_that_queues_are_tuned(
    desk: Desk, words: tuple[str, ...]
) -> None:
    desk.seed(seeded)
    desk.on_store("queues", "tune", "default", "--max-running", "3")
    answer = desk.on_store("limits", *words)
    assert answer.code != 0
    assert "holdfast queues tune" in answer.err
    assert "there is no limit" not in answer.err
    assert "has no total" not in answer.err + answer.out


def test_the_total_of_one_queue_is_shown_as_a_limit(desk: Desk) -> None:
    desk.seed(seeded)
    desk.on_store("queues", "tune", "default", "--max-running", "3")
    assert "3 at once" in desk.on_store("limits", "show", "queue", "--key", "default").out


def test_a_program_without_a_loop_asks_and_changes_limits() -> None:
    app = App("sqlite://")
    app.sync.limits.set("tenant", most=3, create=True)
    assert app.sync.limits.get("tenant").settings == Concurrency(3)
    app.close_sync()


async def test_a_limited_job_is_ready_while_it_waits(scene: Scene) -> None:
    await limited(scene, tenant=0)
    job = await scene.enqueue(**through("tenant:a"))
    assert await scene.claim(1) == []
    assert await scene.state(job) is JobState.READY
