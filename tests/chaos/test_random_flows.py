"""Three hundred random flows while workers are killed, the store is away and operators act: each
comes to what it may have come to."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import get_args

import pytest

from holdfast.flow.model import FLOW_LIVE
from tests.support import books, random_flows
from tests.support.backends import Backend, SqliteFile
from tests.support.diary import Entry
from tests.support.flow_log import ENDS, ActKind, FlowLog, logs_of
from tests.support.flow_operators import Operators
from tests.support.flow_oracle import Final, Judge, Node, every_fence_ended_once
from tests.support.processes import Fleet, fleet_on
from tests.support.proxy import Mode, Proxy, proxy_to
from tests.support.random_flows import Plan, app, plans
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

FLOWS = 300
STARTED_FOR, ACTED_FOR, ENDS_WITHIN = 25.0, 40.0, 200.0
WORKERS, SLOTS, LEASE = 4, 6, 2.0
AWAY = 1.5
LEAST_KILLED = 10


@pytest.fixture
def seed() -> int:
    """The same flows again: `SEED=… make chaos ARGS=tests/chaos/test_random_flows.py`. What befalls
    them depends on the machine too."""
    return int(os.environ.get("SEED") or random.SystemRandom().randrange(1_000_000))


async def test_random_flows_come_to_what_they_may_come_to(
    shared_backend: Backend, tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    url = await shared_backend.own()
    some = list(plans(FLOWS, seed))
    async with trouble(shared_backend, url) as (near, away):
        with fleet_on(near, tmp_path, random_flows.__name__) as fleet:
            await fleet.workers(WORKERS, slots=SLOTS, lease=LEASE)
            with app.using_store(url):
                async with app:
                    operators = Operators(app.client, random.Random(seed), away.lock)
                    await roughly(fleet, operators, some, away, random.Random(seed + 1))
                    await wait_until_over(operators, fleet)
                    finals = await finals_of(operators)
                    entries = fleet.diary.entries()
                    judge_all(some, entries, operators, finals)
                    for event in ("flow.adrift", "finisher.listener_failed"):
                        assert fleet.diary.events(event) == []
                    killed = sum(process.killed_at is not None for process in fleet.processes)
                    assert killed >= LEAST_KILLED, "the run was over before it was rough"
                    assert await app.store.flows.errands(10) == []
                    await books.the_store_finds_nothing_wrong(app.store)


async def roughly(
    fleet: Fleet, operators: Operators, some: list[Plan], away: Outage, chance: random.Random
) -> None:
    """Start flows, act on them, kill workers and take the store away, all at once."""
    over = asyncio.Event()

    async def start() -> None:
        for plan in some:
            async with away.lock:
                operators.flows[plan.number] = (await plan.build().start()).id
            await asyncio.sleep(STARTED_FOR / FLOWS * 2 * chance.random())

    async def kill() -> None:
        while not over.is_set():
            await asyncio.sleep(1 + chance.random())
            ready = {entry.pid for entry in fleet.diary.entries("ready")}
            victims = [worker for worker in fleet.alive()[1:] if worker.pid in ready]
            if victims:
                chance.choice(victims).kill()
                fleet.worker(SLOTS, lease=LEASE)

    async def take_away() -> None:
        while not over.is_set():
            await asyncio.sleep(4 + 4 * chance.random())
            await away.strike(chance)

    rough = [asyncio.create_task(kill()), asyncio.create_task(take_away())]
    await asyncio.gather(start(), operators.act_for(ACTED_FOR, pause=0.05))
    over.set()
    await asyncio.gather(*rough)


async def wait_until_over(operators: Operators, fleet: Fleet) -> None:
    async def none_is_live() -> bool:
        await operators.let_go()
        return not FLOW_LIVE & (await app.store.flows.count()).keys()

    await wait_until(none_is_live, ENDS_WITHIN, "all flows have ended", look_every=0.5)

    async def nothing_is_owed() -> bool:
        return not await app.store.flows.errands(1) and not await books.live_jobs(app.store)

    await wait_until(nothing_is_owed, 30, "all errands are done", look_every=0.5)


async def finals_of(operators: Operators) -> dict[int, Final]:
    finals: dict[int, Final] = {}
    for number, flow in operators.flows.items():
        info, nodes = await app.client.flows.get(flow), await app.client.flows.nodes(flow)
        jobs = {job.id: job for job in await books.all_of(app.store, [n.job_id for n in nodes])}
        told = {
            node.name: Node(node.job_id, node.state.value, jobs[node.job_id].result, node.reason)
            for node in nodes
        }
        finals[number] = Final(info.state.value, told)
    return finals


def judge_all(
    some: list[Plan], entries: list[Entry], operators: Operators, finals: dict[int, Final]
) -> None:
    logs: dict[int, FlowLog] = logs_of(some, entries, operators.acts)
    every_fence_ended_once(entries)
    accepted: dict[str, list[Entry]] = defaultdict(list)
    asked: dict[tuple[str, int], float] = {}
    for entry in entries:
        if entry.what in ("finish", "reclaim") and entry.accepted and entry.to in ENDS:
            accepted[entry.job].append(entry)
        elif entry.what == "claimed":
            asked[entry.job, entry.fence] = entry.asked
    wrong: list[str] = []
    for number, log in logs.items():
        try:
            Judge(log, finals[number], accepted, asked).judge()
        except AssertionError as error:
            wrong.append(str(error))
    acts = Counter(act.kind for act in operators.acts)
    states = Counter(final.state for final in finals.values())
    attempts = sum(len(runs) for log in logs.values() for runs in log.runs.values())
    print(f"{acts}, {len(operators.refused)} refused\n{states}, {attempts} attempts")
    assert not wrong, f"{len(wrong)} flows are wrong:\n" + "\n\n".join(wrong[:5])
    assert len(acts) == len(get_args(ActKind)), f"not every act was done: {acts}"


# Outages --------------------------------------------------------------------------------------


class Outage:
    """Workers cannot reach the store for a moment."""

    def __init__(self, path: str | None, proxy: Proxy | None) -> None:
        self.lock = asyncio.Lock()
        self._path, self._proxy = path, proxy

    async def strike(self, chance: random.Random) -> None:
        if self._path is not None:
            await self._lock_the_file(self._path)
        if self._proxy is not None:
            self._proxy.mode = chance.choice([Mode.BLACK_HOLE, Mode.LOSE_ANSWERS, Mode.CUT])
            if self._proxy.mode is Mode.CUT:
                self._proxy.break_connections()
            await asyncio.sleep(AWAY)
            self._proxy.mode = Mode.PASS
            self._proxy.break_connections()

    async def _lock_the_file(self, path: str) -> None:
        """A user's own long write transaction. Operators wait for its end."""
        async with self.lock:
            with closing(sqlite3.connect(path, isolation_level=None, timeout=0.2)) as own:
                with suppress(sqlite3.OperationalError):  # somebody else writes
                    own.execute("BEGIN IMMEDIATE")
                await asyncio.sleep(AWAY)


@asynccontextmanager
async def trouble(backend: Backend, url: str) -> AsyncIterator[tuple[str, Outage]]:
    if isinstance(backend, SqliteFile):
        yield url, Outage(url.removeprefix("sqlite:///"), None)
        return
    async with proxy_to(url) as proxy:
        yield proxy.url, Outage(None, proxy)
