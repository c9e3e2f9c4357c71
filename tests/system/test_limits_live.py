"""Limits changed while jobs run, in a fleet of real processes: within a second, and nobody is
stopped."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.app import App
from tests.support import books
from tests.support.limit_kills import limited_fleet, nothing_is_held, seat_at
from tests.support.limited import hold_until, tenant
from tests.support.overlaps import most_at_once, runs_of
from tests.support.processes import Fleet
from tests.support.waiting import comes_true, slowness, wait_until


@pytest.fixture
def fleet(shared_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with limited_fleet(shared_url, tmp_path) as fleet:
        yield fleet


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[App]:
    async with seat_at(fleet) as app:
        yield app


def sign(fleet: Fleet, number: int) -> Path:
    return fleet.folder / f"sign-{number}"


async def started(fleet: Fleet, count: int, within: float) -> None:
    await wait_until(
        lambda: len(fleet.diary.entries("started")) >= count, within, f"{count} have begun"
    )


async def ended(fleet: Fleet, count: int) -> None:
    def written() -> bool:
        return sum(entry.accepted for entry in fleet.diary.entries("finish")) >= count

    await wait_until(written, 5, f"{count} have ended")


async def test_a_limit_lowered_below_what_runs_stops_nobody_and_a_raised_one_counts_at_once(
    fleet: Fleet, app: App
) -> None:
    await app.client.limits.set(tenant, most=10, create=True)
    await fleet.workers(2, slots=20, lease=5.0)
    await hold_until.enqueue_many(("acme", str(sign(fleet, n))) for n in range(30))
    await started(fleet, 10, 10)

    await app.client.limits.set(tenant, most=2)
    running = [entry.job for entry in fleet.diary.entries("started")]
    for number in range(8):
        sign(fleet, number).touch()
    await ended(fleet, 8)
    assert not await comes_true(lambda: len(fleet.diary.entries("started")) > 10, 0.7)
    sign(fleet, 8).touch()
    await started(fleet, 11, 5)
    assert not await comes_true(lambda: len(fleet.diary.entries("started")) > 11, 0.3)

    asked = time.monotonic()
    await app.client.limits.set(tenant, most=20)
    await started(fleet, 29, 5)
    took = max(entry.at for entry in fleet.diary.entries("started")) - asked
    assert took < slowness(), f"{took:.2f} s after the limit was raised"

    for number in range(30):
        sign(fleet, number).touch()
    await wait_until(lambda: len(fleet.diary.entries("returned")) == 30, 10, "all return")
    await ended(fleet, 30)
    jobs = await books.all_of(app.store, running)
    assert [(job.attempts, job.crashes) for job in jobs] == [(1, 0)] * 10, "somebody was stopped"
    assert most_at_once(runs_of(fleet.diary.entries())) == {"acme": 20}
    await nothing_is_held(app.store)


@pytest.mark.parametrize(("workers", "slots"), [(1, 20), (2, 1)])
async def test_a_freed_permit_starts_the_next_job_without_a_poll(
    fleet: Fleet, app: App, workers: int, slots: int
) -> None:
    """One job at a time. A worker alone looks again when its own end is written, and where there
    are two, the other one is told."""
    await app.client.limits.set(tenant, most=1, create=True)
    await fleet.workers(workers, slots=slots, lease=5.0)
    await hold_until.enqueue_many(("acme", str(sign(fleet, n))) for n in range(20))
    for number in range(20):
        await started(fleet, number + 1, 5)
        sign(fleet, number).touch()
    await ended(fleet, 20)
    begun = [entry.at for entry in fleet.diary.entries("started")]
    returned = [entry.at for entry in fleet.diary.entries("returned")]
    gaps = [later - end for later, end in zip(begun[1:], returned[:-1], strict=True)]
    assert all(gap > 0 for gap in gaps), "two at once"
    assert sorted(gaps)[len(gaps) // 2] < 0.25, f"from an end to the next start: {gaps}"
    assert max(gaps) < 1.0, f"a freed permit woke nobody: {gaps}"
