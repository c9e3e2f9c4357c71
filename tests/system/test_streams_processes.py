"""Streams between real processes: a worker dies, and followers elsewhere see one whole try."""

from __future__ import annotations

import asyncio

from holdfast.app import App
from tests.support.following import Seen
from tests.support.processes import Fleet
from tests.support.program import talkative
from tests.support.waiting import wait_until

JOBS, FRAMES, RATE = 4, 60, 100.0


async def test_followers_see_one_whole_try_although_the_writer_is_killed(
    fleet: Fleet, app: App
) -> None:
    handles = await talkative.enqueue_many((FRAMES, RATE) for _ in range(JOBS))
    seen = [Seen() for _ in handles]
    following = [
        asyncio.create_task(one.follow(handle)) for one, handle in zip(seen, handles, strict=True)
    ]
    [first] = await fleet.workers(1, slots=JOBS, lease=1.0)
    await wait_until(lambda: all(len(one.delays) > 5 for one in seen), 20, "all are being followed")
    first.kill()
    await fleet.workers(1, slots=JOBS, lease=1.0)
    await asyncio.gather(*following)
    for one, handle in zip(seen, handles, strict=True):
        one.check(FRAMES, await handle.result(timeout=20))
        assert one.restarts >= 1
