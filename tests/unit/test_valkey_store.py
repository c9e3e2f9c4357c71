"""The Valkey store's own ways: scripts, partitions, memory, and servers it will not use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import exceptions

from holdfast.clock import ManualClock
from holdfast.errors import (
    BadOption,
    NotCapable,
    SchemaTooNew,
    StoreError,
    StoreUnavailable,
)
from holdfast.job.ends import HandedBack, WorkerLost
from holdfast.job.ids import new_job_id
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, Retention
from holdfast.job.record import Progress
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.schedule.model import Decision
from holdfast.store.contract.records import (
    Capability,
    Held,
    JobFilter,
    ProgressReport,
    Severity,
    Topic,
)
from holdfast.store.open import open_store
from holdfast.store.valkey import layout, scripts
from holdfast.store.valkey.options import Options
from holdfast.store.valkey.scripts import script, verbs
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ThrowawayValkey, ValkeyServer, find_valkey
from tests.conformance.builders import (
    QUEUE,
    REACHABLE,
    RETURNED,
    Scene,
    accepted,
    ids,
    new_job,
)
from tests.conformance.planning import Diary
from tests.conformance.test_wakeups import listening
from tests.support.backends import opened
from tests.support.leftovers import leftovers

SPREAD = 4


@pytest.fixture(scope="module")
def own_server() -> Iterator[ThrowawayValkey]:
    """For tests that change its settings or cut its connections."""
    with ThrowawayValkey(find_valkey()) as server:
        yield server


@pytest.fixture
async def place(own_server: ThrowawayValkey) -> AsyncIterator[str]:
    url = own_server.new_namespace()
    yield url
    own_server.clear(url)


@pytest.fixture
async def scene(place: str, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(place, clock) as store:
        yield await Scene.on(store, clock)


@pytest.fixture
async def spread(own_server: ThrowawayValkey, clock: ManualClock) -> AsyncIterator[Scene]:
    """A scene in several partitions of one server."""
    url = own_server.new_namespace(partitions=SPREAD)
    async with opened(url, clock) as store:
        yield await Scene.on(store, clock)
    own_server.clear(url)


# Scripts


@pytest.mark.parametrize("verb", verbs())
def test_a_script_declares_its_key_and_gets_what_it_declares(verb: str) -> None:
    chosen = script(verb)
    assert len(chosen.keys) == 1
    given = dict.fromkeys(chosen.arguments, "x")
    assert chosen.values(given) == ["x"] * len(chosen.arguments)
    with pytest.raises(TypeError, match=verb):
        chosen.values({**given, "unheard_of": 1})


def test_a_missing_argument_is_named_before_anything_is_sent() -> None:
    with pytest.raises(TypeError, match="worker, wants, tasks"):
        script("jobs/claim").values({"now": ""})


def test_a_constant_that_the_layout_does_not_declare_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = layout.constants()
    del known["FENCE"]
    monkeypatch.setattr(scripts, "constants", lambda: known)
    with pytest.raises(ValueError, match=r"jobs/claim.lua uses constants .*: FENCE"):
        script.__wrapped__("jobs/claim")


@pytest.mark.parametrize("verb", verbs())
def test_a_script_compiles(own_server: ThrowawayValkey, verb: str) -> None:
    """Lua allows 200 local names, and a function 60 of an enclosing one."""
    assert own_server.say("SCRIPT", "LOAD", script(verb).text) == script(verb).digest


async def test_a_server_that_forgot_the_scripts_is_sent_them_again(
    scene: Scene, own_server: ThrowawayValkey
) -> None:
    for _ in range(3):
        await scene.enqueue()
        own_server.say("SCRIPT", "FLUSH")
        claimed = await scene.claim_one()
        own_server.say("SCRIPT", "FLUSH")
        assert (await scene.finish(claimed)).accepted


async def test_scripts_flushed_in_the_middle_of_a_long_insert_lose_no_job(
    scene: Scene, own_server: ThrowawayValkey
) -> None:
    jobs = [new_job() for _ in range(6_000)]
    inserting = asyncio.create_task(scene.store.jobs.insert(jobs))
    while not inserting.done():
        await asyncio.to_thread(own_server.say, "SCRIPT", "FLUSH")
    assert ids(await inserting) == [job.id for job in jobs]
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 6_000}


# Connections


async def test_connections_killed_between_calls_are_made_again(
    place: str, own_server: ThrowawayValkey
) -> None:
    """Those killed in the middle of the work are the business of the tests of outages."""
    async with opened(place) as store:
        for _ in range(20):
            killed = await asyncio.to_thread(own_server.say, "CLIENT", "KILL", "TYPE", "normal")
            assert int(str(killed)) >= 1
            await store.jobs.insert([new_job() for _ in range(10)])
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 200}


async def test_a_listener_comes_back_and_looks_at_everything(
    scene: Scene, own_server: ThrowawayValkey
) -> None:
    async with listening(scene.store) as ear:
        await asyncio.to_thread(own_server.say, "CLIENT", "KILL", "TYPE", "pubsub")
        assert await ear.hears(Topic.READY, "")
        assert await ear.hears(Topic.DUE, "")
        assert await ear.hears(Topic.SCHEDULES, "")
        ear.heard.clear()
        await scene.enqueue(queue="mail")
        assert await ear.hears(Topic.READY, "mail")


async def test_an_unreachable_server_is_said_to_be_so_without_the_password() -> None:
    store = open_store("valkey://me:sesame@127.0.0.1:1/0")
    with pytest.raises(StoreUnavailable, match="out of reach") as raised:
        await store.open()
    assert "sesame" not in str(raised.value)
    assert "127.0.0.1:1" in str(raised.value)


async def test_a_wrong_password_is_not_worth_another_try(own_server: ThrowawayValkey) -> None:
    own_server.say("CONFIG", "SET", "requirepass", "sesame")
    try:
        store = open_store(own_server.url.replace("//", "//:wrong@"))
        with pytest.raises(StoreError, match="refuses this program") as raised:
            await store.open()
        assert not isinstance(raised.value, StoreUnavailable)
        async with opened(own_server.url.replace("//", "//:sesame@")) as welcome:
            await welcome.now()
    finally:
        _say_with_password(own_server, "CONFIG", "SET", "requirepass", "")
        own_server.clear("?namespace=holdfast")


def _say_with_password(server: ThrowawayValkey, *words: str) -> None:
    from holdfast.testing.servers.resp import say

    say(server.addresses[0], *words, password="sesame")


# What the server is set to


async def test_a_server_that_evicts_keys_is_refused(
    own_server: ThrowawayValkey, place: str
) -> None:
    own_server.say("CONFIG", "SET", "maxmemory", 100_000_000)
    own_server.say("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        store = open_store(place)
        with pytest.raises(StoreError, match=r"allkeys-lru.*noeviction"):
            await store.open()
        own_server.say("CONFIG", "SET", "maxmemory", 0)
        await store.open()
        await store.close()
    finally:
        own_server.say("CONFIG", "SET", "maxmemory", 0)
        own_server.say("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_without_memory_an_enqueue_is_refused_whole_and_running_jobs_still_end(
    own_server: ThrowawayValkey, place: str
) -> None:
    async with opened(place) as store:
        scene = await Scene.on(store, ManualClock())
        await scene.enqueue_many(3)
        finishing, returning, held = await scene.claim(3)
        before = own_server.keys(place)
        own_server.say("CONFIG", "SET", "maxmemory", 1_000)
        try:
            for jobs in ([new_job()], [new_job(delay=60.0)], [new_job(unique=Unique("k"))]):
                with pytest.raises(StoreError, match="out of memory") as raised:
                    await store.jobs.insert(jobs)
                assert not isinstance(raised.value, StoreUnavailable)
            assert own_server.keys(place) == before
            assert (await scene.finish(finishing, RETURNED)).accepted
            assert (await scene.finish(returning, HandedBack())).accepted
            beat = await store.workers.heartbeat(scene.worker, 30, [Held(held.id, held.fence)])
            assert (beat.known, beat.lost) == (True, ())
        finally:
            own_server.say("CONFIG", "SET", "maxmemory", 0)
        assert (await scene.insert()).how == "created"


async def test_a_server_that_keeps_nothing_is_warned_about(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast.store.valkey"):
        async with opened(place) as store:
            assert store.durability.startswith("none")
            [told] = [f for f in await store.health.check() if f.check == "durability"]
    assert told.severity is Severity.WARNING
    assert any(line.startswith("the server may lose jobs") for line in caplog.messages)


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_the_promise_is_that_of_the_append_only_file(
    own_server: ThrowawayValkey, place: str, fsync: str
) -> None:
    own_server.say("CONFIG", "SET", "appendonly", "yes")
    own_server.say("CONFIG", "SET", "appendfsync", fsync)
    try:
        async with opened(place) as store:
            assert store.durability.startswith(fsync)
    finally:
        own_server.say("CONFIG", "SET", "appendonly", "no")


# Layout and partitions


async def test_the_number_of_partitions_is_fixed_at_the_first_start(
    own_server: ThrowawayValkey,
) -> None:
    url = own_server.new_namespace()
    async with opened(f"{url}&partitions=4"):
        pass
    with pytest.raises(StoreError, match=r"first used with 4 partitions.*\?partitions=4"):
        await open_store(f"{url}&partitions=8").open()
    own_server.clear(url)


async def test_an_older_program_refuses_a_newer_layout(
    own_server: ThrowawayValkey, place: str
) -> None:
    async with opened(place) as store:
        assert await store.migrate() == []
    [meta] = [key for key in own_server.keys(place) if key.endswith(":meta")]
    own_server.say("HSET", meta, "version", 99)
    with pytest.raises(SchemaTooNew, match="99"):
        await open_store(place).open()


async def test_a_store_of_an_older_layout_is_refused(
    own_server: ThrowawayValkey, place: str
) -> None:
    async with opened(place):
        pass
    [meta] = [key for key in own_server.keys(place) if key.endswith(":meta")]
    own_server.say("HSET", meta, "version", 1)
    with pytest.raises(StoreError, match="layout 1; this one needs 2"):
        await open_store(place).open()


async def test_all_keys_of_a_partition_share_its_hash_tag(
    spread: Scene, own_server: ThrowawayValkey
) -> None:
    await spread.enqueue_many(50, tags=("t",), deadline_in=60.0)
    await spread.enqueue_many(10, delay=60.0)
    for job in await spread.claim(20):
        await spread.finish(job)
    keys = [str(key) for key in _keys_of_all(own_server)]
    tags = {key.partition("}")[0] + "}" for key in keys}
    assert all(key.startswith("{") for key in keys)
    assert {tag.partition(":")[2] for tag in tags} == {"", *(f"{n}}}" for n in range(SPREAD))}


def _keys_of_all(server: ValkeyServer) -> list[object]:
    answer = server.say("KEYS", "*")
    assert isinstance(answer, list)
    return list(answer)


async def test_every_key_is_in_the_reference(
    scene: Scene, own_server: ThrowawayValkey, place: str
) -> None:
    for state in REACHABLE:
        await scene.in_state(state, queue=state, unique=Unique(state), deadline_in=1e6)
    timed = await scene.running(policy=Policy(timeout=9), queue="timed")
    progress = ProgressReport(timed.id, timed.fence, Progress(0.5))
    await scene.store.jobs.report_progress([progress])
    await scene.store.queues.pause(["quiet"])
    await scene.store.workers.lead("rollup", scene.worker, 15)
    damaged = await scene.enqueue(queue="damaged")
    [record] = [key for key in own_server.keys(place) if key.endswith(f":s:{damaged}")]
    own_server.say("DEL", record)
    await scene.claim(1, "damaged")
    diary = await Diary.of(scene)
    await diary.record(diary.fire(0), diary.plan(1, decision=Decision.FAILED))
    page = (Path(__file__).parents[2] / "docs/reference/valkey-keys.md").read_text()
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    documented = {row.rpartition("}")[2].split(":")[1] for row in rows}
    found = {key.partition("}:")[2].split(":")[0] for key in own_server.keys(place)}
    assert found == documented


async def test_jobs_of_several_partitions_are_one_line(spread: Scene) -> None:
    jobs = [await spread.enqueue(priority=n % 3) for n in range(30)]
    expected = sorted(range(30), key=lambda n: (n % 3, n))
    claimed = [*await spread.claim(7), *await spread.claim(23)]
    assert ids(claimed) == [jobs[n] for n in expected]


async def test_jobs_of_one_insert_keep_their_order_across_partitions(spread: Scene) -> None:
    jobs = await spread.enqueue_many(300)
    assert len({int(job[-3:], 16) % SPREAD for job in jobs}) == SPREAD
    assert ids(await spread.claim(300)) == jobs


async def test_a_unique_job_lies_beside_its_key(spread: Scene) -> None:
    for n in range(20):
        key = Unique(f"key {n}")
        first = await spread.insert(unique=key)
        assert await spread.insert(unique=key) == type(first)(first.id, "existing")


async def test_an_id_that_does_not_lie_beside_its_key_is_refused(spread: Scene) -> None:
    right = new_job_id("k")
    wrong = right[:-1] + f"{(int(right[-1], 16) + 1) % 16:x}"
    with pytest.raises(BadOption, match="leave the id out"):
        await spread.store.jobs.insert([new_job(id=wrong, unique=Unique("k"))])
    assert await spread.store.jobs.count(JobFilter()) == {}


async def test_a_pause_and_a_lease_hold_in_every_partition(spread: Scene) -> None:
    await spread.enqueue_many(40)
    await spread.store.queues.pause([QUEUE])
    assert await spread.claim(40) == []
    await spread.store.queues.resume([QUEUE])
    worker = await spread.hire(lease=30)
    spread.clock.advance(31)
    assert await spread.claim(40, worker=worker) == []
    await spread.store.workers.heartbeat(worker, 30, [])
    assert len(await spread.claim(40, worker=worker)) == 40


async def test_free_slots_are_counted_over_all_partitions(spread: Scene) -> None:
    await spread.enqueue_many(40)
    claimed = await spread.claim(40, free=7)
    assert [job.ahead for job in claimed] == [False] * 7 + [True] * 33


async def test_a_reclaimer_that_had_a_break_is_refused_in_every_partition(spread: Scene) -> None:
    lost, mine = await spread.hire(lease=30), await spread.hire(lease=60)
    await spread.enqueue_many(40)
    await spread.claim(40, worker=lost)
    spread.clock.advance(31)
    [judge] = [one for one in await spread.store.workers.list() if one.id == mine]
    found = await spread.store.jobs.lapsed_leases(100)
    moves = [decide(job, WorkerLost()) for job in found]
    spread.clock.advance(100)
    await spread.store.workers.heartbeat(mine, 60, [])
    assert not any(accepted(await spread.store.jobs.reclaim(moves, judge)))
    [judge] = [one for one in await spread.store.workers.list() if one.id == mine]
    assert accepted(await spread.store.jobs.reclaim(moves, judge)) == [True] * 40


async def test_a_line_that_is_empty_leaves_no_key(
    scene: Scene, own_server: ThrowawayValkey, place: str
) -> None:
    await scene.enqueue_many(3, policy=Policy(retention=Retention(0, 0, 0)))
    for job in await scene.claim(3):
        await scene.finish(job)
    scene.clock.advance(1)
    assert await scene.store.jobs.prune(10) == 3
    kinds = {key.partition("}:")[2] for key in own_server.keys(place)}
    assert kinds == {"meta", "leases", "workers"}


async def test_a_key_that_nothing_removes_is_noticed(
    own_server: ThrowawayValkey, place: str
) -> None:
    """The fixture that looks after every test has to be able to fail."""
    async with opened(place) as store:
        await store.jobs.insert([new_job(deadline_in=5.0), new_job(delay=9.0)])
        tag = own_server.keys(place)[0].partition("}")[0].partition(":")[0]
        own_server.say("SET", f"{tag}:0}}:p:forgotten", "x")
    assert await leftovers(own_server, place) == [f"{tag}:0}}:p:forgotten"]


async def test_many_late_jobs_do_not_hide_later_ones_from_a_sweep(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.valkey.sweeping.BITE", 7)
    jobs = sorted(await scene.enqueue_many(50, deadline_in=5.0))
    scene.clock.advance(6)
    found = await scene.store.jobs.past_deadline(10, jobs[34])
    assert ids(found) == jobs[35:45]


# What it cannot do, and how it is asked for


async def test_an_enqueue_inside_a_transaction_is_a_declared_lack(scene: Scene) -> None:
    assert Capability.TRANSACTIONAL_ENQUEUE not in scene.store.capabilities
    with pytest.raises(NotCapable, match="caller's transaction"):
        await scene.store.jobs.insert_within(object(), [new_job()])
    with pytest.raises(NotCapable):
        scene.store.jobs.insert_within_sync(object(), [new_job()])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("valkey://h", {"hosts": (("h", 6379),), "database": 0, "tls": False, "cluster": False}),
        ("redis://h:7/3", {"hosts": (("h", 7),), "database": 3}),
        ("rediss://u:p%40w@h", {"tls": True, "username": "u", "password": "p@w"}),
        ("valkeys://h?ssl_cert_reqs=none", {"tls_settings": {"ssl_cert_reqs": "none"}}),
        ("valkey://a,b:7?cluster=true", {"cluster": True, "hosts": (("a", 6379), ("b", 7))}),
        ("valkey+sentinel://a,b/main/2", {"sentinel": "main", "database": 2}),
        ("redis://a?sentinel=main", {"sentinel": "main", "hosts": (("a", 26379),)}),
        ("valkey://h?namespace=x&partitions=16", {"namespace": "x", "partitions": 16}),
    ],
)
def test_a_url_says_where_and_how(url: str, expected: dict[str, object]) -> None:
    options = Options.of(url)
    assert {name: getattr(options, name) for name in expected} == expected
    assert "p@w" not in options.where + repr(options)
    assert "p%40w" not in options.where


@pytest.mark.parametrize(
    "url",
    [
        "valkey://h?partitions=3",
        "valkey://h?partitions=0",
        "valkey://h/mail",
        "valkey://h?namespace=a:b",
        "valkey://h?timeout=soon",
        "valkey://h?cluster=perhaps",
        "valkey://h/1?cluster=true",
        "valkey://h?unheard_of=1",
        "valkey+sentinel://h",
        "valkey://h:port",
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(BadOption):
        open_store(url)


async def test_two_namespaces_share_a_server_without_meeting(own_server: ThrowawayValkey) -> None:
    one, other = own_server.new_namespace(), own_server.new_namespace()
    async with opened(one) as here, opened(other) as there:
        await here.jobs.insert([new_job()])
        assert await there.jobs.count(JobFilter()) == {}
    own_server.clear(one)
    own_server.clear(other)


async def test_a_claim_whose_reply_is_lost_is_not_repeated_and_can_be_found(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.enqueue_many(9)
    await scene.claim(1)  # so that the server knows the script, and the store its server
    store = scene.store
    assert isinstance(store, ValkeyStore)
    client = store._connections._client
    assert client is not None
    real, sent = client.execute_command, 0

    async def lose_the_reply(*words: object, **options: object) -> object:
        nonlocal sent
        sent += 1
        await real(*words, **options)
        raise exceptions.ConnectionError("the line was cut after the server had answered")

    with monkeypatch.context() as cut:
        cut.setattr(client, "execute_command", lose_the_reply)
        with pytest.raises(StoreUnavailable):
            await scene.claim(5)
    assert sent == 1
    which = JobFilter(states=frozenset({JobState.RUNNING}))
    assert len((await store.jobs.page(which, 20)).jobs) == 1 + 5
