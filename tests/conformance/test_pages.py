"""What pages say of limits is what each store does."""

from __future__ import annotations

import re

import msgspec
import pytest

from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    HandedBack,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.limits.model import Budget, Concurrency, Rate
from tests.conformance.builders import RAISED, RETURNED, Scene
from tests.conformance.limiting import bucket, costing, define
from tests.support.source import ROOT

LIMITS = ROOT / "docs/guides/limits.md"
SAID = re.compile(r"[Aa] job that waits for a limit is `(\w+)`")
PAGES = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/guides").glob("*.md"), ROOT / "README.md"]
COST, REPORTED = 10, 4
ENDS: dict[str, tuple[End, ...]] = {
    "a return": (RETURNED,),
    "an error, a timeout, a cancel, a deadline": (
        *(RAISED, TimedOut(3), Cancelled(), DeadlinePassed()),
    ),
    "`Snooze`, `Throttled`, a suspension": (Snoozed(5), WasThrottled(5, "429"), WasSuspended(5)),
    "the worker leaves before the handler began": (HandedBack(begun=False),),
    "the worker leaves or dies in the midst": (HandedBack(), WorkerLost()),
}
COUNTED = {"given back": 0, "stays counted": COST}
SPENT = {
    "what was reported is spent, else the cost": (REPORTED, COST),
    "what was reported is spent, the rest is refunded": (REPORTED, 0),
    "refunded": (0, 0),
}
"""Where so much was reported, and where nothing was."""


def table() -> list[list[str]]:
    """The rows of the table of the guide: how an attempt ends, and what becomes of each kind."""
    section = LIMITS.read_text().partition("\n## What is counted, and what comes back\n")[2]
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_the_table_has_every_way_to_end() -> None:
    assert {row[0] for row in table()} == set(ENDS)


def cases() -> list[tuple[list[str], End]]:
    return [(row, end) for row in table() for end in ENDS[row[0]]]


@pytest.mark.parametrize(
    ("row", "end"), cases(), ids=lambda one: str(one[0] if isinstance(one, list) else one)
)
async def test_what_an_end_gives_back_is_what_the_table_says(
    scene: Scene, row: list[str], end: End
) -> None:
    _, concurrency, rate, budget = row
    spent, _, otherwise = budget.partition(" (")
    with_report, without = SPENT[spent]
    charged = COST if otherwise.startswith('`on_failure="charge"`: the cost') else without
    await define(
        scene,
        places=Concurrency(1_000),
        starts=Rate(1_000, per=3_600),
        tokens=Budget(1_000),
        charged=Budget(1_000, on_failure="charge"),
    )
    await scene.enqueue_many(2, **costing(places=COST, starts=COST, tokens=COST, charged=COST))
    reporting, silent = await scene.claim(2)
    await finish(scene, silent, end)
    left = COUNTED[concurrency]
    assert await counted(scene) == (COST + left, COST + COUNTED[rate], without, charged)
    if spent != "refunded":
        await finish(scene, reporting, end, tokens=REPORTED)
        assert (await bucket(scene, "tokens:")).spent == without + with_report


async def counted(scene: Scene) -> tuple[int, int, int, int]:
    names = ("places:", "starts:", "tokens:", "charged:")
    places, starts, tokens, charged = [await bucket(scene, name) for name in names]
    return places.in_use, starts.spent, tokens.spent, charged.spent


async def finish(scene: Scene, job: Claimed, end: End, **spent: int) -> None:
    move = msgspec.structs.replace(decide(job, end), spent=tuple(spent.items()))
    [verdict] = await scene.store.jobs.finish([move])
    assert verdict.accepted


async def test_a_job_that_waits_for_a_limit_is_in_the_state_that_pages_say(scene: Scene) -> None:
    await define(scene, places=Concurrency(1))
    jobs = [await scene.enqueue(**costing(places=1)) for _ in range(2)]
    assert len(await scene.claim(2)) == 1
    assert await scene.state(jobs[1]) is JobState.READY
    found = {page.name: SAID.findall(page.read_text()) for page in PAGES}
    said = {name: states for name, states in found.items() if states}
    assert set(said) == {"glossary.md", "limits.md"}
    assert {state for states in said.values() for state in states} == {JobState.READY}
