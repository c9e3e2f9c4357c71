"""The shorter ways leave the same rows as the long ones.

Each scene is played on two files with one clock and the same ids: once as it is, once with the
shorter way closed. Then every row of every table is compared.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.clock import ManualClock
from holdfast.flow.inputs import Input, Result, encode_inputs
from holdfast.flow.model import NewFlow
from holdfast.job.ends import HandedBack
from holdfast.job.ids import JobId, WorkerId, new_job_id, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Claimed, NewJob
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from holdfast.job.transition import Transition
from holdfast.job.unique import Unique
from holdfast.limits.model import Budget, Concurrency, Rate
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Room, Verdict, Want
from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from holdfast.store.sqlite import finishing, inline_writer, inserting
from holdfast.store.sqlite.handing_over import RoomTaker
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Writer
from tests.conformance.builders import FAILED, RAISED, RETURNED, TASK, new_job, new_worker
from tests.conformance.limiting import at_cost, through
from tests.support.flows import Waits, any_of, new_flow
from tests.support.flows import failed as flow_failed

Rows = dict[str, list[dict[str, object]]]
Play = Callable[[Store, list[NewJob], WorkerId], Awaitable[object]]


def rows_in(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = connection.execute(
            "select name from sqlite_schema where type = 'table' and name <> 'holdfast_migration'"
        ).fetchall()
        return {
            name: sorted(map(dict, connection.execute(f"select * from {name}")), key=repr)
            for (name,) in tables
        }


class Theatre:
    """Plays a scene on a new file each time, always at the same time of the same clock."""

    def __init__(self, folder: Path, jobs: list[NewJob]) -> None:
        self._folder = folder
        self._jobs = jobs
        self._start = ManualClock().now
        self._worker = new_worker(id=new_worker_id())

    async def play(self, name: str, scene: Play) -> tuple[object, Rows]:
        path = self._folder / f"{name}.db"
        store = open_store(f"sqlite:///{path}", clock=ManualClock(self._start))
        await store.open()
        try:
            await store.workers.register(self._worker, 3_600.0)
            answer = await scene(store, self._jobs, self._worker.id)
        finally:
            await store.close()
        return answer, rows_in(path)


async def claim_all(store: Store, worker: WorkerId) -> list[Claimed]:
    return await store.jobs.claim(worker, [Want("default", 100)], [TASK])


# Plain successes -----------------------------------------------------------------------------


def close_the_way_of_successes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finishing, "_succeed", lambda tx, transitions, bound: False)


async def all_succeed(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[Verdict]:
    await store.jobs.insert(jobs)
    claimed = await claim_all(store, worker)
    return await store.jobs.finish([decide(job, RETURNED) for job in claimed])


async def in_a_tuned_queue(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[Verdict]:
    tuned = QueueSettings(retain_succeeded=1_234.5, retain_failed=7.0)
    await store.queues.tune("default", tuned)
    return await all_succeed(store, jobs, worker)


async def kept_for_ever(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[Verdict]:
    await store.queues.tune("default", QueueSettings(retain_succeeded=1e18))
    return await all_succeed(store, jobs, worker)


async def although_asked_to_stop(
    store: Store, jobs: list[NewJob], worker: WorkerId
) -> list[Verdict]:
    await store.jobs.insert(jobs)
    claimed = await claim_all(store, worker)
    await store.jobs.request_cancel([job.id for job in claimed])
    return await store.jobs.finish([decide(job, RETURNED) for job in claimed])


async def beside_failures(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[Verdict]:
    await store.jobs.insert(jobs)
    first, *others = await claim_all(store, worker)
    moves = [decide(first, RAISED), *(decide(job, RETURNED) for job in others)]
    return await store.jobs.finish(moves)


async def beside_a_late_one(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[Verdict]:
    await store.jobs.insert(jobs)
    claimed = await claim_all(store, worker)
    await store.jobs.finish([decide(claimed[0], RETURNED)])
    return await store.jobs.finish([decide(job, RETURNED) for job in claimed])


async def twice_in_a_batch(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[Verdict]:
    await store.jobs.insert(jobs)
    moves = [decide(job, RETURNED) for job in await claim_all(store, worker)]
    return await store.jobs.finish([*moves, *moves])


SUCCESSES = [
    all_succeed,
    in_a_tuned_queue,
    kept_for_ever,
    although_asked_to_stop,
    beside_failures,
    beside_a_late_one,
    twice_in_a_batch,
]


def some_jobs() -> list[NewJob]:
    return [
        new_job(),
        new_job(priority=-1, tags=("a", "b")),
        new_job(deadline_in=60.0),
        new_job(headers='{"x":"y"}'),
    ]


@pytest.mark.parametrize("scene", SUCCESSES, ids=lambda scene: scene.__name__)
async def test_plain_successes_end_as_by_the_long_way(
    tmp_path: Path, scene: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    theatre = Theatre(tmp_path, some_jobs())
    short = await theatre.play("short", scene)
    close_the_way_of_successes(monkeypatch)
    assert await theatre.play("long", scene) == short


def jobs_with_limits() -> list[NewJob]:
    return [
        new_job(),
        new_job(**through("tenant:a", "github:")),
        new_job(**through("tenant:a", "github:")),
        new_job(deadline_in=60.0, **through("tenant:b")),
        new_job(**at_cost({"tokens:a": 30, "tenant:a": 1})),
        new_job(**at_cost({"tokens:a": 40, "tenant:a": 1})),
    ]


async def through_limits(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[Verdict]:
    await store.limits.declare({"tenant": Concurrency(4), "github": Rate(9, per=64)})
    await store.limits.declare({"tokens": Budget(90, soft=50)})
    await store.jobs.insert([*jobs, *waiting_behind(jobs)])
    claimed = await claim_all(store, worker)
    spent = {claimed[0].id: (("tokens", 7),), claimed[-1].id: (("tokens", 3),)}
    await claim_all(store, worker)  # parks who waits
    moves = [decide(job, RETURNED) for job in claimed]
    return await store.jobs.finish(
        [msgspec.structs.replace(move, spent=spent.get(move.id, ())) for move in moves]
    )


def waiting_behind(jobs: list[NewJob]) -> list[NewJob]:
    """More of the last kind, under ids that are the same in both plays."""
    last = jobs[-1]
    return [msgspec.structs.replace(last, id=JobId(f"{last.id[:-4]}{n:04}")) for n in range(3)]


async def test_successes_with_permits_end_as_by_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theatre = Theatre(tmp_path, jobs_with_limits())
    short = await theatre.play("short", through_limits)
    close_the_way_of_successes(monkeypatch)
    assert await theatre.play("long", through_limits) == short


async def test_a_lease_with_ties_never_takes_the_short_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if its transition has forgotten them."""
    short: list[bool] = []
    succeed = finishing._succeed

    def noting(tx: Transaction, transitions: object, bound: int) -> bool:
        short.append(succeed(tx, transitions, bound))  # type: ignore[arg-type]
        return short[-1]

    monkeypatch.setattr(finishing, "_succeed", noting)

    async def forgetful(store: Store, jobs: list[NewJob], worker: WorkerId) -> None:
        await store.jobs.insert(jobs)
        for job in await claim_all(store, worker):
            move = Transition(job.id, job.fence, decide(job, RETURNED).to, spend=1)
            assert move.is_plain_success
            [verdict] = await store.jobs.finish([move])
            assert verdict.accepted

    await Theatre(tmp_path, [new_job(), new_job(ties=int(Tie.WATCHED))]).play("one", forgetful)
    assert short == [True, False]


# Successes of nodes --------------------------------------------------------------------------

GRAPH: dict[str, Waits] = {
    "a": [],
    "b": ["a"],
    "c": ["a"],
    "d": ["b", "c"],
    "late": ["a"],
    "either": any_of("b", "c", cancel=True),
    "both": ["a", any_of("b", "d")],
    "mourner": flow_failed("a", "b"),
    "heir": ["mourner"],
    "deadline": ["d"],
}


async def until_nothing_is_claimed(
    store: Store, flow: NewFlow, worker: WorkerId, *, alone: bool
) -> list[object]:
    """Every round ends all nodes that are ready in one call, or each alone; `c` fails."""
    await store.flows.start([flow])
    names = {node.job.id: node.name for node in flow.nodes}
    answers: list[object] = []
    while claimed := await claim_all(store, worker):
        answers.append([names[job.id] for job in claimed])
        ends = [FAILED if names[job.id] == "c" else RETURNED for job in claimed]
        moves = [decide(job, end) for job, end in zip(claimed, ends, strict=True)]
        for some in ([move] for move in moves) if alone else [moves]:
            answers.append(await store.jobs.finish(some))
    return answers


@pytest.mark.parametrize("alone", [False, True], ids=["together", "alone"])
@pytest.mark.parametrize("paused", [False, True])
async def test_nodes_succeed_as_by_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paused: bool, alone: bool
) -> None:
    options: dict[str, dict[str, Any]] = {"deadline": {"deadline_in": 60.0}}
    flow = new_flow(GRAPH, node_options=options, delays={"late": 5.0})

    async def scene(store: Store, jobs: list[NewJob], worker: WorkerId) -> object:
        if not paused:
            return await until_nothing_is_claimed(store, flow, worker, alone=alone)
        await store.flows.start([flow])
        [first] = await claim_all(store, worker)
        await store.flows.pause([flow.id])
        await store.jobs.finish([decide(first, RETURNED)])
        return await claim_all(store, worker)

    theatre = Theatre(tmp_path, [])
    short = await theatre.play("short", scene)
    monkeypatch.setattr(finishing, "_succeed_nodes", lambda tx, transitions: False)
    assert await theatre.play("long", scene) == short


# Nodes that are handed over ----------------------------------------------------------------------


async def hand_to_hand(store: Store, flow: NewFlow, worker: WorkerId) -> list[object]:
    """One node at a time: it comes with the end of the one before, or a claim brings it."""
    await store.flows.start([flow])
    answers: list[object] = []
    begun = await store.jobs.claim(worker, [Want("default", 1, 1)], [TASK])
    while begun:
        room = Room(worker, ("default",), (TASK,))
        verdict, brought = await store.jobs.hand_over(decide(begun[0], RETURNED), room)
        if brought is None:
            begun = await store.jobs.claim(worker, [Want("default", 1, 1)], [TASK])
        else:
            begun = [brought]
        answers.append((verdict, begun))
    return answers


def without_wakes(played: tuple[object, Rows]) -> tuple[object, Rows]:
    """Nobody is woken for a node that was handed over."""
    answers, rows = played
    kept = [row for row in rows["holdfast_counter"] if row["topic"] != "ready"]
    return answers, {**rows, "holdfast_counter": kept}


def a_flow_with_one_node_after_the_other() -> NewFlow:
    graph: dict[str, Waits] = {name: [before] for before, name in pairwise("abcdefgh")}
    options: dict[str, dict[str, Any]] = {
        "b": {"deadline_in": 60.0},
        "c": {"priority": -2, "tags": ("x",), "headers": '{"y":1}'},
        "d": {"policy": encode_policy(Policy(timeout=9.0))},
    }
    flow = new_flow(
        {"a": [], **graph, "i": ["h", "a"], "j": ["i"], "k": ["i"]},
        node_options=options,
        delays={"g": 0.0},
    )
    results = encode_inputs([Input(("x",), Result(flow.nodes[0].job.id))])
    nodes = [
        msgspec.structs.replace(node, inputs=results) if node.name == "e" else node
        for node in flow.nodes
    ]
    return msgspec.structs.replace(flow, nodes=tuple(nodes))


async def test_a_node_is_handed_over_as_if_it_had_stood_in_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = a_flow_with_one_node_after_the_other()
    taken: list[bool] = []
    take = RoomTaker.take

    def noting(taker: RoomTaker, tx: Transaction, job_id: str) -> bool:
        taken.append(take(taker, tx, job_id))
        return taken[-1]

    async def scene(store: Store, jobs: list[NewJob], worker: WorkerId) -> object:
        return await hand_to_hand(store, flow, worker)

    theatre = Theatre(tmp_path, [])
    monkeypatch.setattr(RoomTaker, "take", noting)
    short = without_wakes(await theatre.play("short", scene))
    assert taken == [True] * 8
    monkeypatch.setattr(RoomTaker, "take", lambda taker, tx, job_id: False)
    assert without_wakes(await theatre.play("long", scene)) == short


# Steps ---------------------------------------------------------------------------------------


async def one_step_after_the_other(
    store: Store, jobs: list[NewJob], worker: WorkerId
) -> list[list[bool]]:
    """The first of the job, others, one again, one that waits, one of an older attempt."""
    await store.jobs.insert(jobs)
    [job] = await claim_all(store, worker)
    last = StepRecord(job.id, job.fence, "slept", 4, seconds=5.0)
    records = [
        *(StepRecord(job.id, job.fence, name, n, result="1") for n, name in enumerate("abcb")),
        last,
        StepRecord(job.id, job.fence - 1, "late", 5, result="2"),
    ]
    return [await store.steps.record([one]) for one in records]


async def test_a_step_is_kept_alone_as_by_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write_alone = Writer.write_alone

    def noting(writer: Writer, sql: str, values: Row) -> int:
        written.append(write_alone(writer, sql, values))
        return written[-1]

    theatre = Theatre(tmp_path, [new_job()])
    monkeypatch.setattr(inline_writer, "SLOW_SECONDS", math.inf)  # however busy the machine is
    monkeypatch.setattr(Writer, "write_alone", noting)
    short = await theatre.play("short", one_step_after_the_other)
    assert written == [0, 1, 1, 0, 1, 0]
    monkeypatch.setattr(Writer, "write_alone", lambda writer, sql, values: 0)
    assert await theatre.play("long", one_step_after_the_other) == short


# Writes in the caller's thread ---------------------------------------------------------------


async def a_life(store: Store, jobs: list[NewJob], worker: WorkerId) -> list[object]:
    """Everything that may be written inline, and what lies between."""
    answers: list[object] = [await store.jobs.insert(jobs)]
    answers.append(await store.jobs.insert(jobs[:1]))
    claimed = await claim_all(store, worker)
    answers.append(claimed)
    answers.append(await store.jobs.finish([decide(claimed[0], RETURNED)]))
    answers.append(await store.jobs.finish([decide(claimed[0], RETURNED)]))
    answers.append(await store.jobs.reclaim([decide(claimed[1], RETURNED)]))
    moves = [Transition(job.id, job.fence, decide(job, RETURNED).to) for job in claimed[2:]]
    answers.append(await store.jobs.finish(moves))
    answers.append(await claim_all(store, worker))
    return answers


@pytest.fixture
def committing(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads in which transactions that wake somebody were written."""
    threads: set[int] = set()
    bump = Transaction.close

    def noting(tx: Transaction) -> object:
        threads.add(threading.get_ident())
        return bump(tx)

    monkeypatch.setattr(Transaction, "close", noting)
    return threads


async def test_a_write_in_the_callers_thread_leaves_what_the_writers_thread_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committing: set[int]
) -> None:
    theatre = Theatre(tmp_path, some_jobs())
    inline = await theatre.play("inline", a_life)
    assert threading.get_ident() in committing
    monkeypatch.setattr(inline_writer, "UNSYNCED", frozenset[str]())
    committing.clear()
    assert await theatre.play("thread", a_life) == inline
    assert threading.get_ident() not in committing


# Inserts -------------------------------------------------------------------------------------


async def together(store: Store, jobs: list[NewJob], worker: WorkerId) -> object:
    return await store.jobs.insert(jobs)


async def one_by_one(store: Store, jobs: list[NewJob], worker: WorkerId) -> object:
    return [answer for job in jobs for answer in await store.jobs.insert([job])]


@pytest.mark.parametrize("option", [{"blocked": True}, {"delay": 5.0}, {"deadline_in": 5.0}])
async def test_a_batch_is_written_as_its_jobs_would_be_alone(
    tmp_path: Path, option: dict[str, Any]
) -> None:
    theatre = Theatre(tmp_path, [new_job(), new_job(priority=2), new_job(**option), new_job()])
    assert await theatre.play("batch", together) == await theatre.play("alone", one_by_one)


async def test_many_jobs_of_few_kinds_are_written_as_each_would_be_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ('{"a":"\\"ä\\\\n\\u0000"}', "[]", '{"n":1e400}', '"\\ud83d\\ude00 🜁"', "null")
    jobs = [new_job(args=texts[n % len(texts)]) for n in range(30)]
    jobs += [new_job(tags=("a", "b"), headers='{"x":"y"}', priority=n) for n in range(20)]
    jobs += [new_job(task="rare"), new_job(tags=("c",)), new_job(deadline_in=5.0)]
    jobs += [new_job(args=f'"{"x" * inserting.SHORT_ARGS}"')]
    written: list[int] = []

    def noting(tx: Transaction, kind: Row, args: dict[JobId, str]) -> None:
        written.append(len(args))
        write_alike(tx, kind, args)

    write_alike = inserting.write_alike
    monkeypatch.setattr(inserting, "write_alike", noting)
    theatre = Theatre(tmp_path, jobs)
    assert await theatre.play("batch", together) == await theatre.play("alone", one_by_one)
    assert written == [31, 20]


async def test_many_jobs_with_limits_are_written_as_each_would_be_alone(tmp_path: Path) -> None:
    """Lines are numbered by queue, priority and task: jobs of one stand together here."""
    alone = through("tenant:a")
    jobs = [new_job(unique=Unique("key"), **alone)]  # such a job is written before the others
    jobs += [new_job(args=f"[{n}]", **through(f"tenant:{n % 7}")) for n in range(240)]
    jobs += [new_job(**through('tenant:ä"', "github:", weight=n)) for n in (3, 5)]
    jobs += [new_job(**at_cost({"tokens:a": n})) for n in (1, 30, 1)]
    jobs += [new_job(blocked=True, **alone), new_job(delay=5.0, **alone)]
    needy = through("tenant:1", labels=["gpu"], fair="org", weight=2)
    jobs += [new_job(tags=("a",), headers='{"x":"y"}', **needy)]
    jobs += [new_job(ties=int(Tie.PERMITS)), new_job()]
    jobs += [new_job(task="t2", **through(f"tenant:{n}")) for n in range(30)]
    theatre = Theatre(tmp_path, jobs)
    assert await theatre.play("batch", together) == await theatre.play("alone", one_by_one)


async def test_jobs_of_different_pasts_stand_together_as_each_would_alone(tmp_path: Path) -> None:
    """Some have been claimed once and some twice, so that their fences differ."""

    def moved(size: int) -> Play:
        async def play(store: Store, jobs: list[NewJob], worker: WorkerId) -> object:
            await store.limits.declare({"tenant": Concurrency(4), "tokens": Budget(90)})
            await store.jobs.insert(jobs)
            for some in (5, 8):
                claimed = await store.jobs.claim(worker, [Want("default", some)], [TASK])
                await store.jobs.finish([decide(job, HandedBack(begun=False)) for job in claimed])
            ids = [job.id for job in jobs]
            parts = [ids[n : n + size] for n in range(0, len(ids), size)]
            return [job for part in parts for job in await store.jobs.move(part, "elsewhere")]

        return play

    jobs = [new_job(**through(f"tenant:{n % 3}", weight=n + 1)) for n in range(7)]
    jobs += [new_job(**at_cost({"tokens:a": n})) for n in (1, 30, 1)]
    theatre = Theatre(tmp_path, jobs)
    answer, rows = await theatre.play("together", moved(len(jobs)))
    same_answer, same_rows = await theatre.play("alone", moved(1))
    assert answer == same_answer
    assert rows["holdfast_ready"] == same_rows["holdfast_ready"]
    assert lines_of(rows, "elsewhere") == lines_of(same_rows, "elsewhere")
    assert {row["fence"] for row in rows["holdfast_ready"]} == {1, 2}


def lines_of(rows: Rows, queue: str) -> list[dict[str, object]]:
    return [row for row in rows["holdfast_line"] if row["queue"] == queue]


@pytest.mark.parametrize("priority", [0, 1])
@pytest.mark.parametrize("blocked", [False, True])
async def test_many_jobs_of_one_line_stand_as_each_would_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, priority: int, blocked: bool
) -> None:
    jobs = [new_job(tags=(f"t{n}",), blocked=blocked) for n in range(29)]
    jobs.append(new_job(priority=priority, blocked=blocked))
    entered: list[int] = []

    def noting(tx: Transaction, place: JobState, line: Row, seqs: dict[JobId, int]) -> None:
        entered.append(len(seqs))
        enter_alike(tx, place, line, seqs)

    enter_alike = inserting.enter_alike
    monkeypatch.setattr(inserting, "enter_alike", noting)
    theatre = Theatre(tmp_path, jobs)
    assert await theatre.play("batch", together) == await theatre.play("alone", one_by_one)
    assert entered == ([30] if priority == 0 else [])


async def test_ids_that_are_newer_than_all_others_need_no_look(tmp_path: Path) -> None:
    """An id beyond all others makes every later insert look which of its ids are there."""
    last = new_job(id=JobId("z" * len(new_job_id())), queue="elsewhere", task="last")

    async def after_the_last(store: Store, jobs: list[NewJob], worker: WorkerId) -> object:
        answers = await store.jobs.insert(jobs)
        await store.jobs.insert([last])
        return answers

    async def before_the_last(store: Store, jobs: list[NewJob], worker: WorkerId) -> object:
        await store.jobs.insert([last])
        return await store.jobs.insert(jobs)

    theatre = Theatre(tmp_path, some_jobs())
    answers, rows = await theatre.play("newest", after_the_last)
    same_answers, same_rows = await theatre.play("looked up", before_the_last)
    assert answers == same_answers
    assert without_arrivals(rows) == without_arrivals(same_rows)


def without_arrivals(rows: Rows) -> Rows:
    """The last job arrives before the others in one scene, and after them in the other."""
    ready = [{**row, "seq": None} for row in rows["holdfast_ready"]]
    return {**rows, "holdfast_ready": sorted(ready, key=repr)}
