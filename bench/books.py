"""`python -m bench.books`: what the read side costs on a large store, question by question.

The data: a million live jobs (20 queues, 100 tasks, 3 priorities, one in 20 scheduled), ten
million ended ones (one in 200 failed, of 400 causes), 50 workers, 500 schedules, two days of
measures; on Valkey a million of each. A part of the ended jobs is made by a worker that runs them;
on SQL stores the rest are copies of these rows, moved into the past, and the books are then
corrected by a recount.

Each question is asked 200 times on an otherwise idle store. What a page looks at is bounded, so a
filter that matches nothing is measured a step at a time. Jobs were enqueued task after task, so the
newest 20,000 ended ones have none of `task-07`: a page of it is a whole step too.

Servers and files are gone after the run. A store named by `--at` stays: it is filled if it has no
job, and only asked if it has.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import asyncpg
from rich.console import Console
from textual.pilot import Pilot

from bench.places import STORES, Place, places, settle_postgres, sqlite_path, store_url
from bench.program import on_fast_loop
from holdfast.app import App
from holdfast.cli.top import spare_collector
from holdfast.cli.top_app import TopApp
from holdfast.cli.top_views import TopView
from holdfast.client.client import Client
from holdfast.insights.doctor import examine
from holdfast.insights.overview import OverviewReader
from holdfast.job.ids import new_worker_id
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.measures import JobTimes, Measure
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.open import open_store

QUEUES, TASKS, CAUSES = 20, 100, 400
FAILED_ONE_IN = 200
COPY_BACK = timedelta(minutes=4)
ASKED = 200
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Size:
    live: int
    ended: int
    worked: int  # of the ended, how many a worker really ran


FULL = {
    "postgres": Size(1_000_000, 10_000_000, 100_000),
    "sqlite": Size(1_000_000, 10_000_000, 100_000),
    "valkey": Size(1_000_000, 1_000_000, 1_000_000),
}


def program(url: str) -> App:
    """A hundred tasks; one attempt in 200 fails, each for one of 400 causes."""
    app = App(url)
    for number in range(TASKS):
        task_of(app, number)
    return app


def task_of(app: App, number: int) -> None:
    async def work(order: int, customer: str) -> int:
        if order % FAILED_ONE_IN == 0:
            cause = order // FAILED_ONE_IN % CAUSES
            kind = type(f"Cause{cause // 10}Error", (Exception,), {})
            raise kind(f"cause {chr(97 + cause % 10)} of order {order}")
        return order

    app.task(name=f"task-{number:02}", queue=f"queue-{number % QUEUES:02}", retry=Retry.never())(
        work
    )


# Filling ----------------------------------------------------------------------------------------


async def fill(url: str, size: Size, say: Callable[[str], None]) -> None:
    app = program(url)
    async with app:
        say("workers, schedules and measures are added")
        await surround(app.store)
        daily = app.tasks["task-00"].scheduled("0 3 * * *", args={"order": 1, "customer": "c"})
        await app.store.schedules.declare({f"schedule-{number}": daily for number in range(500)})
        say(f"{size.worked:,} jobs are worked off")
        await enqueue(app, size.worked)
        queues = {f"queue-{number:02}": 50 for number in range(QUEUES)}
        async with app.worker(queues) as worker:
            await worker.drain()
        if size.ended > size.worked:
            say(f"they are copied to {size.ended:,}")
            await copy(app.store.kind, url, size.ended // size.worked - 1)
        say(f"{size.live:,} jobs are enqueued")
        await enqueue(app, size.live * 19 // 20, priorities=3)
        await enqueue(app, size.live // 20, delay=86_400.0)
        say("the books are corrected")
        while await app.store.telemetry.fold(10_000):
            pass
        missing = await app.store.telemetry.recount()
        await app.store.telemetry.correct(missing or [])
        say("what was measured meanwhile is rolled up, as running workers do")
        while await app.store.telemetry.roll_up(100):
            pass


async def enqueue(app: App, count: int, *, priorities: int = 1, delay: float | None = None) -> None:
    for number in range(TASKS):
        share = count // TASKS
        task = app.tasks[f"task-{number:02}"]
        if delay is not None:
            task = task.using(delay=delay)
        for priority in range(priorities):
            some = share // priorities
            calls = ((number + TASKS * n, f"c{n % 1_000}") for n in range(some))
            await task.using(priority=priority, tags=[f"t{priority}"]).enqueue_many(calls)


async def surround(store: Store) -> None:
    for number in range(50):
        info = WorkerInfo(
            id=new_worker_id(),
            name=f"w{number}",
            host=f"host-{number}",
            pid=number,
            queues={f"queue-{one:02}": 10 for one in range(QUEUES)},
            tasks=tuple(f"task-{one:02}" for one in range(TASKS)),
            version="1",
        )
        await store.workers.register(info, 86_400.0)
    await measure(store)


async def measure(store: Store) -> None:
    """A measure a minute of 20 pairs, two days back: so long minutes are kept."""
    minute = (await store.now()).replace(second=0, microsecond=0)
    times = JobTimes.none()
    for step in range(100):
        times.wait.observe(0.001 * step)
        times.run.observe(0.002 * step)
        times.total.observe(0.003 * step)
    source = str(new_worker_id())
    for back in range(48 * 60, 0, -1):
        at = minute - timedelta(minutes=back)
        rows = [
            Measure(at, source, f"queue-{n:02}", f"task-{n:02}", 1, times) for n in range(QUEUES)
        ]
        await store.telemetry.record(rows)
    while await store.telemetry.roll_up(100):
        pass


async def copy(kind: str, url: str, times: int) -> None:
    if kind == "sqlite":
        await asyncio.to_thread(copy_sqlite, url, times)
    else:
        await copy_postgres(url, times)


OUTCOME = (
    "state, queue, priority, task, attempts, crashes, fence, ties, worker_id, expires_at, result,"
    " reason, fingerprint"
)
BODY = "task, args, policy, tags, headers"


def copy_sqlite(url: str, times: int) -> None:
    """The id of a copy begins with its own time and ends like that of the job it was made from."""
    with sqlite3.connect(sqlite_path(url), isolation_level=None) as connection:
        connection.create_function("moved", 2, moved, deterministic=True)
        connection.execute("create temp table base as select job_id from holdfast_outcome")
        step = int(COPY_BACK.total_seconds() * 1e6)
        for number in range(1, times + 1):
            back = number * step
            connection.execute("begin")
            connection.execute(
                f"insert into holdfast_job (id, created_at, {BODY})"
                f" select moved(id, ?), created_at - ?, {BODY}"
                " from base join holdfast_job on id = job_id order by id",
                (back // 1000, back),
            )
            connection.execute(
                f"insert into holdfast_outcome (job_id, seq, claimed_at, finished_at, {OUTCOME})"
                f" select moved(job_id, ?), seq, claimed_at - ?, finished_at - ?, {OUTCOME}"
                " from base join holdfast_outcome using (job_id) order by job_id",
                (back // 1000, back, back),
            )
            connection.execute("commit")


def moved(job_id: str, milliseconds: int) -> str:
    digits = f"{int(job_id[:8] + job_id[9:13], 16) - milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}{job_id[13:]}"


async def copy_postgres(url: str, times: int) -> None:
    digits = "replace({0}::text, '-', '')"
    moved = (
        "(lpad(to_hex(('x' || substr(%s, 1, 12))::bit(48)::bigint - $1::bigint), 12, '0')"
        " || substr(%s, 13))::uuid"
    )
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("set search_path to holdfast")
        await connection.execute("create temp table base as select job_id from outcome")
        step = int(COPY_BACK.total_seconds() * 1000)
        body = digits.format("id")
        outcome = digits.format("outcome.job_id")
        for number in range(1, times + 1):
            back = number * step
            shift = "$1::bigint * interval '1 millisecond'"
            await connection.execute(
                f"insert into job (id, created_at, {BODY}, timeout)"
                f" select {moved % (body, body)}, created_at - {shift}, {BODY}, timeout"
                " from base join job on id = job_id order by id",
                back,
            )
            await connection.execute(
                f"insert into outcome (job_id, claimed_at, finished_at, {OUTCOME})"
                f" select {moved % (outcome, outcome)}, claimed_at - {shift},"
                f" finished_at - {shift}, {OUTCOME}"
                " from base join outcome using (job_id) order by job_id",
                back,
            )
        await connection.execute("vacuum (analyze)")
    finally:
        await connection.close()


# Asking -----------------------------------------------------------------------------------------

Question = Callable[[], Awaitable[Any]]


def questions(client: Client, store: Store, job_id: str) -> dict[str, Question]:
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    page = client.page
    first_page = OverviewReader(store)
    return {
        "count()": client.count,
        "count(queue=…)": lambda: client.count(queue="queue-03"),
        "queues": client.queues.all,
        "explain": lambda: client.explain(job_id),
        "overview": first_page.read,
        "failures": lambda: store.failures.find(limit=50),
        "page(50)": lambda: page(limit=50),
        "page(state=succeeded)": lambda: page(state="succeeded", limit=50),
        "page(state=failed)": lambda: page(state="failed", limit=50),
        "page(state=succeeded, task=…)": lambda: page(state="succeeded", task="task-07", limit=50),
        "nothing: queue": lambda: page(queue="nowhere", limit=50),
        "step: tag": lambda: page(tag="nobody", limit=50),
        "step: argument": lambda: page(where="args.customer:nobody", limit=50),
        "step: error text": lambda: page(error_text="no such text", limit=50),
        "step: finished before": lambda: page(finished_before=long_ago, limit=50),
    }


async def ask(question: Question, times: int) -> dict[str, float]:
    """Milliseconds: how long an answer takes, and how much processor time of this process."""
    await question()
    took: list[float] = []
    processor = time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        await question()
        took.append(1e3 * (time.perf_counter() - began))
    return percentiles(sorted(took)) | {"cpu": 1e3 * (time.process_time() - processor) / times}


async def measured(place: Place, share: float, say: Callable[[str], None]) -> dict[str, Any]:
    async with store_url(place) as url:
        await fill(url, size_of(place.name, share), say)
        await place.settle(url)
        return {"server": await place.describe(), "figures": await asked(url, say)}


async def measured_at(url: str, share: float, say: Callable[[str], None]) -> dict[str, Any]:
    """The store stays, so that it can be asked again."""
    store = open_store(url)
    await store.migrate()
    async with App(url) as app:
        is_filled = any((await app.client.count()).values())
    if not is_filled:
        await fill(url, size_of(store.kind, share), say)
        if store.kind == "postgres":
            await settle_postgres(url)
    return {"figures": await asked(url, say)}


async def asked(url: str, say: Callable[[str], None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    app = program(url)
    async with app:
        client, ready = app.client, await a_ready_job(app.client)
        for name, question in questions(client, app.store, ready).items():
            found[name] = await ask(question, ASKED)
            say(shown(name, found[name]))
        spare_collector()
        async with TopApp(client, by="bench", every=3600.0).run_test(size=(80, 24)) as pilot:
            for view in TopView:
                found[f"top: {view}"] = await ask(redraw(pilot, view), ASKED // 4)
                say(shown(f"top: {view}", found[f"top: {view}"]))
        began = time.perf_counter()
        findings = await examine(app.store.sibling())
        found["doctor"] = {"seconds": time.perf_counter() - began, "findings": len(findings)}
        say(f"doctor {found['doctor']['seconds']:.2f} s")
    return found


async def a_ready_job(client: Client) -> str:
    """On Valkey a page by state may end before the first: it walks over newer scheduled jobs."""
    page = await client.page(state=JobState.READY, limit=1)
    while not page.jobs:
        page = await client.page(state=JobState.READY, limit=1, cursor=page.next_cursor)
    return page.jobs[0].id


def redraw(pilot: Pilot[None], view: TopView) -> Question:
    app = cast("TopApp", pilot.app)

    async def read_and_draw() -> None:
        app.picture.view = view
        await app.read()

    return read_and_draw


def percentiles(took: Sequence[float]) -> dict[str, float]:
    """Of sorted times."""
    return {"p50": took[len(took) // 2], "p99": took[int(len(took) * 0.99) - 1]}


def shown(name: str, took: dict[str, float]) -> str:
    return f"{name} {took['p50']:.1f} / {took['p99']:.1f} ms, {took['cpu']:.1f} ms of processor"


def size_of(kind: str, share: float) -> Size:
    full = FULL[kind]
    numbers = (full.live, full.ended, full.worked)
    return Size(*(max(TASKS * 10, int(number * share)) for number in numbers))


def teller(store: str, console: Console) -> Callable[[str], None]:
    began = time.perf_counter()
    return lambda text: console.print(f"{time.perf_counter() - began:4.0f} s {store} {text}")


def main() -> None:
    parser = ArgumentParser(prog="python -m bench.books", description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--at", metavar="URL", help="of a store that stays, instead of new ones")
    parser.add_argument("--share", type=float, default=1.0, help="of the whole data set")
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    console = Console(highlight=False)
    # One handler in 200 fails on purpose.
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    found: dict[str, Any] = {}

    async def work() -> None:
        for place in chosen:
            found[place.name] = await measured(place, given.share, teller(place.name, console))

    async def work_at(url: str) -> None:
        found[url] = await measured_at(url, given.share, teller("", console))

    if given.at:
        on_fast_loop(work_at(given.at))
    else:
        with places(given.store or STORES) as chosen:
            on_fast_loop(work())
    if given.save is not None:
        given.save.parent.mkdir(parents=True, exist_ok=True)
        given.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
