"""Workers that are killed while they work, and what became of the jobs they held."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.app import App
from holdfast.job.record import Job
from holdfast.store.contract.store import Store
from tests.support import books
from tests.support.diary import Entry
from tests.support.processes import Fleet, Process
from tests.support.program import brief, brief_sync
from tests.support.waiting import comes_true, wait_until

SLOWEST_RUN = 100.0


@dataclass(frozen=True, slots=True)
class Orphan:
    """An attempt whose worker was killed, and how long the store went on believing in it."""

    job: str
    fence: int
    reclaimed_after: float


async def enqueue_briefs(
    count: int, seed: int = 1, milliseconds: tuple[float, float] = (5, 20)
) -> list[str]:
    """Short jobs that wait so long, by turns on the loop and in a thread."""
    lengths = random.Random(seed)
    half = count // 2
    on_the_loop = await brief.enqueue_many((lengths.uniform(*milliseconds),) for _ in range(half))
    in_threads = await brief_sync.enqueue_many(
        (lengths.uniform(*milliseconds),) for _ in range(count - half)
    )
    return [handle.id for handle in (*on_the_loop, *in_threads)]


async def kill_one_every(
    seconds: float,
    fleet: Fleet,
    app: App,
    *,
    slots: int,
    lease: float,
    within: float = SLOWEST_RUN,
    most: int = 1_000,
) -> list[Process]:
    """Kill a worker and start another, time and again until all jobs have ended, but not more often
    than `most`. The first one lives: somebody has to be there all the time, who can tell that the
    others died."""
    chance = random.Random(2)
    killed: list[Process] = []
    began = time.monotonic()

    async def all_ended() -> bool:
        return await books.live_jobs(app.store) == 0

    while not await comes_true(all_ended, within=seconds, look_every=0.1):
        assert time.monotonic() - began < within, f"the queue does not drain:\n{fleet.logs()}"
        ready = {entry.pid for entry in fleet.diary.entries("ready")}
        victims = [worker for worker in fleet.alive()[1:] if worker.pid in ready]
        if not victims or len(killed) == most:
            continue  # those that were started are not at work yet, or are to go on
        victim = chance.choice(victims)
        victim.kill()
        killed.append(victim)
        fleet.worker(slots, lease=lease)
    return killed


async def orphans_of(
    killed: Sequence[Process], entries: Sequence[Entry], store: Store
) -> list[Orphan]:
    """What the killed held when they died: claimed by them, ended by somebody else."""
    deaths = {process.pid: process.killed_at or 0.0 for process in killed}
    ended_by_holder = {
        (entry.job, entry.fence) for entry in entries if entry.what == "finish" and entry.accepted
    }
    claims = [
        entry
        for entry in entries
        if entry.what == "claimed"
        and entry.pid in deaths
        and (entry.job, entry.fence) not in ended_by_holder
    ]
    jobs: dict[str, Job] = {
        job.id: job for job in await books.all_of(store, [claim.job for claim in claims])
    }
    taken: dict[str, list[float]] = {}
    for entry in entries:
        if entry.what == "claimed" or (entry.what == "reclaim" and entry.accepted):
            taken.setdefault(entry.job, []).append(entry.at)
    return [
        Orphan(claim.job, claim.fence, _taken_away_at(jobs[claim.job], taken, died) - died)
        for claim in claims
        if jobs[claim.job].fence > claim.fence  # else its end was written, but not noted
        for died in [deaths[claim.pid]]
    ]


def _taken_away_at(job: Job, taken: Mapping[str, Sequence[float]], died: float) -> float:
    """By the job's own history too, since whoever took it away may have been killed in turn before
    it could note that; a job that was spared has only its next claim to show for it. The store's
    clock and the diary's differ by a constant on one machine."""
    apart = time.time() - time.monotonic()
    times = [e.at.timestamp() - apart for e in job.errors if e.kind == "WorkerLost" and e.at]
    return min(at for at in (*times, *taken.get(job.id, ())) if at > died)


async def stop_between_heartbeats(process: Process, app: App) -> None:
    """Just after a heartbeat the process holds no lock: a stop in the middle of a write would
    hold up every other writer of a SQLite file, which is the system's doing and not ours."""

    async def last_beat() -> object:
        return {w.pid: w.heartbeat_at for w in await app.client.workers.all()}[process.pid]

    before = await last_beat()

    async def beaten() -> bool:
        return await last_beat() != before

    await wait_until(beaten, 5, "a heartbeat", look_every=0.005)
    process.stop()
