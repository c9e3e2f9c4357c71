"""What happens in the demo, and what must have happened at its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from statistics import median

import msgspec

from holdfast.cli import demo_tasks as shop
from holdfast.client.client import Client
from holdfast.client.flow_handle import FlowHandle
from holdfast.declaring.nodes import any_of
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.schedule.model import Decision

Say = Callable[[str], None]
FLOW = "album"
FLOW_PATIENCE_SECONDS = 30.0


class Pace(msgspec.Struct, frozen=True):
    """How many jobs the demo enqueues, and how fast."""

    waves: int
    wave: int
    pause: float
    slow: float
    later: float
    rounds: int

    @property
    def total(self) -> int:
        return self.waves * self.wave + sum(
            count for task, (count, *_) in EXPECTED.items() if task != shop.welcome.name
        )


FULL = Pace(waves=14, wave=40, pause=1.0, slow=13.0, later=8.0, rounds=400_000)
QUICK = Pace(waves=3, wave=20, pause=0.3, slow=1.0, later=1.0, rounds=20_000)

# For each task: enqueued, succeeded, failed, cancelled, retries. The numbers of `welcome` depend on
# the pace.
EXPECTED: dict[str, tuple[int, int, int, int, int]] = {
    shop.welcome.name: (0, 0, 0, 0, 0),
    shop.thumbnail.name: (24, 24, 0, 0, 0),
    shop.fingerprint.name: (6, 6, 0, 0, 0),
    shop.charge.name: (6, 6, 0, 0, 12),
    shop.import_feed.name: (2, 0, 2, 0, 4),
    shop.report.name: (3, 3, 0, 0, 0),
    shop.reminder.name: (5, 5, 0, 0, 0),
    shop.await_partner.name: (3, 3, 0, 0, 0),
    shop.export.name: (4, 0, 0, 4, 0),
    shop.release.name: (1, 1, 0, 0, 0),
    shop.answer.name: (1, 1, 0, 0, 0),
    shop.ask_model.name: (8, 8, 0, 0, 0),
}


async def play(pace: Pace, say: Say) -> None:
    """Enqueue everything, and cancel what takes too long."""
    run = await start_flow(pace)
    say("a flow: 8 pictures in parallel, a race of two captions, and a page that waits for both")
    release = await shop.release.enqueue("1.4")
    await shop.report.enqueue_many((20, pace.slow * share) for share in (0.5, 0.75, 1.0))
    await shop.fingerprint.enqueue_many((pace.rounds,) for _ in range(6))
    await shop.thumbnail.enqueue_many((f"photo-{n}.jpg", 320) for n in range(24))
    say("reports, fingerprints and thumbnails enqueued")
    later = shop.reminder.using(delay=pace.later)
    await later.enqueue_many((f"reader-{n}@example.org",) for n in range(5))
    say(f"5 reminders enqueued for {pace.later:g} s later")
    exports = await shop.export.enqueue_many((f"customer {n}",) for n in range(2))
    exports += await shop.export.using(delay=30).enqueue_many(
        (f"customer {n}",) for n in range(2, 4)
    )
    await shop.charge.enqueue_many((n,) for n in range(6))
    await shop.import_feed.enqueue_many((f"https://example.org/{n}",) for n in range(2))
    await shop.await_partner.enqueue_many((3, pace.pause) for _ in range(3))
    say("charges that fail twice, feeds that never work, partners that are not ready")
    questions = await shop.ask_model.enqueue_many([("flood", 400)] * 6 + [("small", 400)] * 2)
    say("8 questions of two tenants: one at a time for each, and a budget of tokens")
    asked = await shop.answer.enqueue("What does a stream promise?")
    words = [frame.data async for frame in asked.stream("tokens")]
    say(f"a stream of {len(words)} frames, followed word by word: {''.join(words)}")
    for number in range(pace.waves):
        start = number * pace.wave
        await shop.welcome.enqueue_many(
            (f"user-{start + n}@example.org",) for n in range(pace.wave)
        )
        await asyncio.sleep(pace.pause)
    for who, approve in (("cyd", False), ("ann", True), ("bob", True)):
        await shop.app.client.answer(shop.mailbox[who], approve)
    said = await release.result(timeout=FLOW_PATIENCE_SECONDS)
    say(f"three people were asked by a token each: {said}")
    for export in exports:
        await export.cancel()
    say("4 exports cancelled: 2 were running, 2 still scheduled")
    say(f"flow 'album': {await run.result(timeout=FLOW_PATIENCE_SECONDS)}, the slow caption lost")
    for question in questions:
        await question.result(timeout=FLOW_PATIENCE_SECONDS)
    flood = await shop.app.client.limits.get(shop.tokens, "flood")
    said = f"{shop.most_asking['flood']} ran at a time, and it has spent {flood.spent} tokens"
    say(f"limits: of the flood {said} of 1,000")
    clock = await until_fired(shop.app.client, 2)
    say(f"schedule {clock.name!r} has fired {clock.fired} plans, each once")


async def start_flow(pace: Pace) -> FlowHandle:
    """A map and its join, and a race of which the loser is cancelled."""
    flow = shop.app.flow(FLOW)
    pictures = flow.map(shop.retouch, flow.add(shop.list_pictures, "summer").output)
    quick = flow.add(shop.write_caption, "summer", pace.pause).named("quick-caption")
    slow = flow.add(shop.write_caption, "summer", 60.0).named("slow-caption")
    flow.add(shop.publish, any_of(quick, slow, losers="cancel").output, pictures.outputs)
    return await flow.start()


class FlowLine(msgspec.Struct, frozen=True):
    """How the flow of the demo ended: its state, and its nodes by state."""

    name: str
    state: str
    nodes: dict[str, int]


async def flow_line(client: Client) -> FlowLine:
    [flow] = (await client.flows.page(name=FLOW)).flows
    nodes = Counter(node.state.value for node in await client.flows.nodes(flow.id))
    return FlowLine(flow.name, flow.state.value, dict(nodes))


class OnSchedule(msgspec.Struct, frozen=True):
    """What the ledger says about the schedule of the demo."""

    name: str
    fired: int
    others: int
    median_late: float | None


async def on_schedule(client: Client) -> OnSchedule:
    rows = await client.schedules.history(shop.stocktaking.name, limit=1_000)
    fired = [row for row in rows if row.decision is Decision.FIRED]
    late = [(row.claimed_at - row.at).total_seconds() for row in fired if row.claimed_at]
    name = shop.stocktaking.name
    return OnSchedule(name, len(fired), len(rows) - len(fired), median(late) if late else None)


async def until_fired(client: Client, number: int) -> OnSchedule:
    """Wait until the schedule has fired so many plans: a quick demo may be faster than that."""
    for _ in range(100):
        if (clock := await on_schedule(client)).fired >= number:
            return clock
        await asyncio.sleep(0.1)
    return await on_schedule(client)


class Row(msgspec.Struct, frozen=True):
    """One task in the summary."""

    task: str
    enqueued: int
    succeeded: int
    failed: int
    cancelled: int
    retries: int
    median_wait: float | None
    median_run: float | None

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        return self.enqueued, self.succeeded, self.failed, self.cancelled, self.retries


async def summarise(client: Client) -> list[Row]:
    return [_row(task, await _all_of(client, task)) for task in EXPECTED]


async def _all_of(client: Client, task: str) -> list[Job]:
    jobs: list[Job] = []
    cursor = None
    while True:
        page = await client.page(limit=1_000, cursor=cursor, task=task)
        jobs += page.jobs
        if page.next_cursor is None:
            return jobs
        cursor = page.next_cursor


def _row(task: str, jobs: list[Job]) -> Row:
    ran = [job for job in jobs if job.claimed_at is not None]
    waits = [(job.claimed_at - job.created_at).total_seconds() for job in ran if job.claimed_at]
    runs = [
        (job.finished_at - job.claimed_at).total_seconds()
        for job in ran
        if job.finished_at and job.claimed_at
    ]
    return Row(
        task,
        len(jobs),
        sum(job.state is JobState.SUCCEEDED for job in jobs),
        sum(job.state is JobState.FAILED for job in jobs),
        sum(job.state is JobState.CANCELLED for job in jobs),
        sum(max(0, job.attempts - 1) for job in jobs),
        median(waits) if waits else None,
        median(runs) if runs else None,
    )


def unmet(rows: list[Row], flow: FlowLine, pace: Pace) -> list[str]:
    """Each number of the summary that differs from what it must be."""
    ended = {"succeeded": shop.PICTURES + 4, "cancelled": 1}
    problems = _unmet_rows(rows, pace)
    if (flow.state, flow.nodes) != ("succeeded", ended):
        problems.append(f"flow {flow.name}: expected {ended}, got {flow.state}, {flow.nodes}")
    return problems


def _unmet_rows(rows: list[Row], pace: Pace) -> list[str]:
    welcomes = pace.waves * pace.wave
    expected = EXPECTED | {shop.welcome.name: (welcomes, welcomes, 0, 0, 0)}
    names = ("enqueued", "succeeded", "failed", "cancelled", "retries")
    return [
        f"{row.task}: expected {want} {name}, got {got}"
        for row in rows
        for name, want, got in zip(names, expected[row.task], row.counts, strict=True)
        if want != got
    ]
