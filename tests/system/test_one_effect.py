"""An effect on something that can refuse nothing: with the mark that `guides/fencing.md` shows it
happens once or not at all, wherever its worker dies."""

from __future__ import annotations

import pytest

from holdfast import Context, Fail
from holdfast.job.ends import HandedBack, Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support.flaky import FlakyStore, Line
from tests.support.working import Shop


@pytest.mark.parametrize("end", [HandedBack(), Reclaimed("killed")], ids=["left", "died"])
@pytest.mark.parametrize("verb", ["record", "finish"])
async def test_an_effect_behind_a_mark_happens_at_most_once(
    live_store: Store, verb: str, end: HandedBack | Reclaimed
) -> None:
    """The job is taken from its worker before the mark is written, or after the effect. The worker
    knows nothing of that and goes on."""
    line, sent = Line(), list[int]()

    async def remind(ctx: Context) -> None:
        if await ctx.step("mark", lambda: ctx.fence) != ctx.fence:
            raise Fail("an earlier attempt may have sent it")
        sent.append(ctx.fence)

    shop = Shop(FlakyStore(live_store, line), remind)
    job = await shop.enqueue(remind)

    async def lose() -> None:
        [live] = await live_store.jobs.live([job])
        await live_store.jobs.finish([decide(live, end)])

    line.first[verb] = lose
    for _ in range(3):
        await shop.drain()
        await live_store.jobs.promote_due(10)
    assert not line.first, "it happened"
    found = await shop.get(JobId(job))
    if verb == "record":
        assert (len(sent), found.state) == (1, JobState.SUCCEEDED), "no mark was written before"
    else:
        assert (len(sent), found.state) == (1, JobState.FAILED)


async def test_without_a_mark_it_may_happen_twice(live_store: Store) -> None:
    line, sent = Line(), list[int]()

    async def remind(ctx: Context) -> None:
        sent.append(ctx.fence)

    shop = Shop(FlakyStore(live_store, line), remind)
    job = await shop.enqueue(remind)

    async def lose() -> None:
        [live] = await live_store.jobs.live([job])
        await live_store.jobs.finish([decide(live, HandedBack())])

    line.first["finish"] = lose
    for _ in range(2):
        await shop.drain()
    assert len(sent) == 2
