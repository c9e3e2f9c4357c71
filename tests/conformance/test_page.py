"""Jobs.page: newest first; every filter before the limit; a cursor that stays right."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.job.ends import Raised
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.reading import WalkBound
from tests.conformance.builders import RAISED, REACHABLE, RETURNED, Scene, ids


async def pages(scene: Scene, limit: int, **which: Any) -> list[list[JobId]]:
    found, cursor = [], None
    while True:
        page = await scene.store.jobs.page(JobFilter(**which), limit, cursor)
        found.append(ids(page.jobs))
        cursor = page.next_cursor
        if cursor is None:
            return found


async def all_of(scene: Scene, **which: Any) -> list[JobId]:
    return [job for page in await pages(scene, 100, **which) for job in page]


async def test_an_empty_store_has_one_empty_page(scene: Scene) -> None:
    assert await pages(scene, 10) == [[]]


async def test_newest_first(scene: Scene) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(await scene.enqueue())
        scene.clock.advance(1)
    assert await all_of(scene) == jobs[::-1]


async def test_pages_hold_every_job_once(scene: Scene) -> None:
    jobs = await scene.enqueue_many(25)
    found = await pages(scene, 10)
    assert [len(page) for page in found if page] == [10, 10, 5]
    assert [job for page in found for job in page] == jobs[::-1]


async def test_the_last_page_says_so(scene: Scene) -> None:
    await scene.enqueue_many(3)
    assert (await scene.store.jobs.page(JobFilter(), 10)).next_cursor is None


async def test_filters_apply_before_the_limit(scene: Scene) -> None:
    """A list that filters after the limit has pages two and on that nobody can reach."""
    rare = await scene.enqueue("rare")
    await scene.enqueue_many(30)
    page = await scene.store.jobs.page(JobFilter(tasks=("rare",)), 5)
    assert ids(page.jobs) == [rare]


async def test_page_two_of_a_filtered_list_is_reachable(scene: Scene) -> None:
    wanted = []
    for _ in range(8):
        wanted.append(await scene.enqueue(queue="mail"))
        await scene.enqueue_many(3)
    found = await pages(scene, 3, queues=("mail",))
    assert [job for page in found for job in page] == wanted[::-1]
    assert max(map(len, found)) == 3


async def test_pages_stay_right_while_jobs_come_move_and_go(scene: Scene) -> None:
    jobs = await scene.enqueue_many(30)
    first = await scene.store.jobs.page(JobFilter(), 10)
    newer = await scene.enqueue_many(5)
    claimed = await scene.claim(15)
    for job in claimed:
        await scene.finish(job, RETURNED)
    await scene.store.jobs.delete([jobs[12], jobs[13], jobs[25]])
    second = await scene.store.jobs.page(JobFilter(), 10, first.next_cursor)
    third = await scene.store.jobs.page(JobFilter(), 100, second.next_cursor)
    seen = ids(first.jobs) + ids(second.jobs) + ids(third.jobs)
    left = [job for job in jobs if job not in (jobs[12], jobs[13])]
    assert seen == left[::-1]
    assert not set(seen) & set(newer)


async def test_a_cursor_whose_job_is_gone_still_leads_on(scene: Scene) -> None:
    for _ in range(6):
        await scene.ended()
    first = await scene.store.jobs.page(JobFilter(), 3)
    await scene.store.jobs.delete(ids(first.jobs))
    second = await scene.store.jobs.page(JobFilter(), 3, first.next_cursor)
    assert len(second.jobs) == 3


@pytest.mark.parametrize("state", REACHABLE)
async def test_filter_by_state(scene: Scene, state: JobState) -> None:
    jobs = {each: await scene.in_state(each, queue=each) for each in REACHABLE}
    assert await all_of(scene, states=frozenset({state})) == [jobs[state]]
    others = frozenset(REACHABLE) - {state}
    assert set(await all_of(scene, states=others)) == set(jobs.values()) - {jobs[state]}


async def test_filter_by_id(scene: Scene) -> None:
    one, _, other = await scene.enqueue_many(3)
    assert await all_of(scene, ids=(one, other, new_job_id())) == [other, one]


async def test_filter_by_queue_and_task(scene: Scene) -> None:
    jobs = {
        (queue, task): await scene.enqueue(task, queue=queue)
        for queue in ("a", "b", "c")
        for task in ("x", "y")
    }
    assert set(await all_of(scene, queues=("a", "c"))) == {
        job for (queue, _), job in jobs.items() if queue in "ac"
    }
    assert await all_of(scene, queues=("a", "b"), tasks=("y",)) == [jobs["b", "y"], jobs["a", "y"]]


async def test_filter_by_tag_means_the_whole_tag(scene: Scene) -> None:
    job = await scene.enqueue(tags=("tenant:1", "bulk"))
    await scene.enqueue(tags=("tenant:12",))
    await scene.enqueue(tags=("TENANT:1",))
    await scene.enqueue()
    assert await all_of(scene, tags=("tenant:1",)) == [job]


@pytest.mark.parametrize("tag", ['say "hi"', "it's", "100%", "a_b", "back\\slash", "é🦊", "[1]"])
async def test_a_tag_is_text_not_a_pattern(scene: Scene, tag: str) -> None:
    job = await scene.enqueue(tags=(tag,))
    await scene.enqueue(tags=("axb", "100 percent", "1"))
    assert await all_of(scene, tags=(tag,)) == [job]


async def test_filter_by_time(scene: Scene) -> None:
    early = await scene.enqueue()
    scene.clock.advance(10)
    middle = await scene.enqueue()
    scene.clock.advance(10)
    late = await scene.enqueue()
    assert await all_of(scene, created_after=scene.after(-15)) == [late, middle]
    assert await all_of(scene, created_before=scene.after(-5)) == [middle, early]
    window = {"created_after": scene.after(-15), "created_before": scene.after(-5)}
    assert await all_of(scene, **window) == [middle]


async def test_filter_by_text_in_an_error(scene: Scene) -> None:
    job = (await scene.ended(Raised("OSError", "disk /dev/sda is 100% full"))).id
    await scene.ended(Raised("OSError", "disk /dev/sdb is 1000 percent full"))
    await scene.ended()
    assert await all_of(scene, error_text="100%") == [job]
    assert await all_of(scene, error_text="sda") == [job]
    assert await all_of(scene, error_text="sd_ is") == []
    assert len(await all_of(scene, error_text="/dev/sd")) == 2


async def test_filters_together_all_narrow(scene: Scene) -> None:
    wanted = (await scene.ended(RAISED, queue="a", tags=("t",))).id
    await scene.ended(RETURNED, queue="a", tags=("t",))
    await scene.ended(RAISED, queue="b", tags=("t",))
    await scene.ended(RAISED, queue="a")
    which: dict[str, Any] = {
        "states": frozenset({JobState.SCHEDULED}),
        "queues": ("a",),
        "tags": ("t",),
        "error_text": "user",
    }
    assert await all_of(scene, **which) == [wanted]


async def test_a_page_shows_the_newest_error_only(scene: Scene) -> None:
    job = await scene.enqueue()
    for message in ("first", "second"):
        await scene.finish(await scene.claim_one(), Raised("ValueError", message))
        await scene.store.jobs.reschedule([job], 0)
    page = await scene.store.jobs.page(JobFilter(), 10)
    assert [error.message for error in page.jobs[0].errors] == ["second"]


@pytest.mark.parametrize("state", REACHABLE)
async def test_a_page_shows_what_get_shows(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, tags=("t",), unique=Unique("k"), deadline_in=99.0)
    page = await scene.store.jobs.page(JobFilter(), 10)
    assert page.jobs == (await scene.job(job),)


async def test_a_page_looks_at_no_more_jobs_than_it_may(scene: Scene) -> None:
    rare = await scene.enqueue(tags=("rare",))
    scene.clock.advance(60)
    await scene.enqueue_many(30)
    which = JobFilter(tags=("rare",))
    page = await scene.store.jobs.page(which, 10, look=WalkBound(20))
    assert page.jobs == ()
    assert page.next_cursor is not None
    assert (page.looked_at, page.complete) == (20, False)
    assert page.reached == scene.after(0), "when the oldest of the twenty was created"
    rest = await scene.store.jobs.page(which, 10, page.next_cursor, look=WalkBound(20))
    assert ids(rest.jobs) == [rare]
    assert (rest.looked_at, rest.complete, rest.reached) == (11, True, None)
    assert rest.next_cursor is None


async def test_a_full_page_is_complete_and_has_looked_no_further(scene: Scene) -> None:
    await scene.enqueue_many(30, tags=("t",))
    page = await scene.store.jobs.page(JobFilter(tags=("t",)), 5, look=WalkBound(20))
    assert len(page.jobs) == 5
    assert (page.looked_at, page.complete) == (6, True)
    assert page.next_cursor == page.jobs[-1].id


async def test_a_page_that_is_full_where_it_stops_looking_is_complete(scene: Scene) -> None:
    await scene.enqueue_many(6, tags=("t",))
    page = await scene.store.jobs.page(JobFilter(tags=("t",)), 5, look=WalkBound(5))
    assert (len(page.jobs), page.looked_at, page.complete) == (5, 5, True)
    rest = await scene.store.jobs.page(
        JobFilter(tags=("t",)), 5, page.next_cursor, look=WalkBound(5)
    )
    assert (len(rest.jobs), rest.next_cursor) == (1, None)


@pytest.mark.parametrize(
    "which", [{"queues": ("nowhere",)}, {"states": frozenset({JobState.FAILED})}]
)
async def test_nothing_is_looked_at_where_the_tallies_know_of_no_job(
    scene: Scene, which: dict[str, Any]
) -> None:
    await scene.enqueue_many(30)
    for tags in ((), ("t",)):
        page = await scene.store.jobs.page(JobFilter(tags=tags, **which), 10, look=WalkBound(20))
        assert (page.jobs, page.looked_at, page.complete) == ((), 0, True)


async def test_places_of_other_states_are_not_looked_at(scene: Scene) -> None:
    wanted = [await scene.in_state(JobState.FAILED, queue="f") for _ in range(3)]
    await scene.enqueue_many(30)
    which = JobFilter(states=frozenset({JobState.FAILED}), created_before=scene.after(1))
    page = await scene.store.jobs.page(which, 10, look=WalkBound(20))
    assert ids(page.jobs) == wanted[::-1]
    assert page.looked_at == 3
