"""Every field of a JobFilter, on jobs that differ: pages and counts agree with a full scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from holdfast.job.fingerprint import fingerprint
from holdfast.job.ids import JobId, new_worker_id
from holdfast.job.record import Job
from holdfast.job.state import ENDED, JobState
from holdfast.store import walks
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.reading import WalkBound
from tests.conformance.builders import FAILED, RAISED, RETURNED, TASK, Scene

GAVE_UP = fingerprint(TASK, FAILED.kind, FAILED.message)
HEADERS = '{"holdfast-schedule":"nightly"}'


async def furnish(scene: Scene) -> dict[str, JobId]:
    """Jobs by name, each different from the others in something that a filter can name."""
    made: dict[str, JobId] = {}
    made["vip"] = await scene.enqueue("send_mail", queue="mail", tags=("vip", "eu"))
    made["eu"] = await scene.enqueue("send_sms", queue="mail-eu", tags=("eu",))
    made["urgent"] = await scene.enqueue("bill", queue="cash", priority=-5)
    made["idle"] = await scene.enqueue("bill", queue="cash", priority=7)
    made["planned"] = await scene.enqueue("report", queue="night", headers=HEADERS)
    for name, args in ARGS.items():
        made[name] = await scene.enqueue("odd", queue="odd", args=args)
    scene.clock.advance(100)
    made["held"] = (await scene.running(queue="a")).id
    made["done"] = (await scene.ended(RETURNED, queue="b")).id
    scene.clock.advance(100)
    made["failed"] = (await scene.ended(FAILED, queue="c")).id
    made["retried"] = (await scene.ended(RAISED, queue="d")).id
    made["blocked"] = await scene.enqueue(blocked=True, queue="e")
    made["later"] = await scene.enqueue(delay=500.0, queue="f")
    return made


ARGS = {
    "customer 42": '{"customer":42,"order":{"id":7,"lines":["a","b/c"]},"paid":true}',
    "customer '42'": '{"customer":"42","order":{"id":"7"},"paid":1}',
    "customer 4.2e1": '{"customer":4.2e1,"order":null}',
    "escaped": '{"customer":"\\u0041da \\"x\\"","nothing":"\\u0000"}',
    "spelled out": '{ "customer" : "Ada \\"x\\"" , "paid" : false , "price": 1.50 }',
    "deep": '{"deep":{"customer":42},"0":"key"}',
    "no JSON": "{broken",
}

CASES: Mapping[str, tuple[Callable[[Scene], dict[str, Any]], set[str]]] = {
    "task prefix": (lambda _: {"tasks": ("send_*",)}, {"vip", "eu"}),
    "a prefix and a name": (lambda _: {"tasks": ("send_m*", "report")}, {"vip", "planned"}),
    "a prefix of nothing": (lambda _: {"tasks": ("nobody*",)}, set()),
    "queue prefix": (lambda _: {"queues": ("mail*",)}, {"vip", "eu"}),
    "a queue is no prefix": (lambda _: {"queues": ("mail",)}, {"vip"}),
    "one tag": (lambda _: {"tags": ("eu",)}, {"vip", "eu"}),
    "all of the tags": (lambda _: {"tags": ("eu", "vip")}, {"vip"}),
    "a tag with a prefix": (lambda _: {"tags": ("eu",), "tasks": ("send_s*",)}, {"eu"}),
    "priority": (lambda _: {"priority": 7}, {"idle"}),
    "priority over": (lambda _: {"priority_over": 0}, {"idle"}),
    "priority under": (lambda _: {"priority_under": 0}, {"urgent"}),
    "schedule": (lambda _: {"schedule": "nightly"}, {"planned"}),
    "another schedule": (lambda _: {"schedule": "night"}, set()),
    "worker": (
        lambda s: {"worker": s.worker, "states": frozenset({JobState.RUNNING})},
        {"held"},
    ),
    "a worker also of ended jobs": (lambda s: {"worker": s.worker}, {"held", "done", "failed"}),
    "fingerprint": (lambda _: {"fingerprint": GAVE_UP}, {"failed"}),
    "a fingerprint and a queue": (
        lambda _: {"fingerprint": GAVE_UP, "queues": ("b", "c")},
        {"failed"},
    ),
    "another fingerprint": (lambda _: {"fingerprint": "0" * 16}, set()),
    "another worker": (lambda _: {"worker": new_worker_id()}, set()),
    "attempts over": (lambda _: {"attempts_over": 0}, {"done", "failed", "retried"}),
    "finished after": (lambda s: {"finished_after": s.after(-50)}, {"failed"}),
    "finished before": (lambda s: {"finished_before": s.after(-50)}, {"done"}),
    "finished, but live": (
        lambda s: {"finished_before": s.after(0), "states": frozenset({JobState.READY})},
        set(),
    ),
    "a number": (lambda _: {"args": {"customer": 42}}, {"customer 42", "customer 4.2e1"}),
    "the same as a float": (
        lambda _: {"args": {"customer": 42.0}},
        {"customer 42", "customer 4.2e1"},
    ),
    "a fraction": (lambda _: {"args": {"price": 1.5}}, {"spelled out"}),
    "text": (lambda _: {"args": {"customer": "42"}}, {"customer '42'"}),
    "escaped text": (lambda _: {"args": {"customer": 'Ada "x"'}}, {"escaped", "spelled out"}),
    "text with a zero": (lambda _: {"args": {"nothing": "\x00"}}, {"escaped"}),
    "true": (lambda _: {"args": {"paid": True}}, {"customer 42"}),
    "false": (lambda _: {"args": {"paid": False}}, {"spelled out"}),
    "null": (lambda _: {"args": {"order": None}}, {"customer 4.2e1"}),
    "a path": (lambda _: {"args": {"order.id": 7}}, {"customer 42"}),
    "a place in a list": (lambda _: {"args": {"order.lines.1": "b/c"}}, {"customer 42"}),
    "a key of digits": (lambda _: {"args": {"0": "key"}}, {"deep"}),
    "past a list": (lambda _: {"args": {"order.lines.2": None}}, set()),
    "two arguments": (lambda _: {"args": {"customer": 42, "paid": True}}, {"customer 42"}),
    "a path to an object": (lambda _: {"args": {"order": "7"}}, set()),
    "an argument of another task": (
        lambda _: {"args": {"customer": 42}, "tasks": ("bill",)},
        set(),
    ),
    "a tag and a state": (
        lambda _: {"tags": ("eu",), "states": frozenset({JobState.READY})},
        {"vip", "eu"},
    ),
    "an argument and a state": (
        lambda _: {"args": {"customer": 42}, "states": frozenset({JobState.READY})},
        {"customer 42", "customer 4.2e1"},
    ),
    "a tag of another state": (
        lambda _: {"tags": ("eu",), "states": ENDED - {JobState.SUCCEEDED}},
        set(),
    ),
    "error text": (lambda _: {"error_text": "GIVE up"}, {"failed"}),
    "created after and a tag": (
        lambda s: {"created_after": s.after(-150), "tags": ("eu",)},
        set(),
    ),
    "unhappy ends": (lambda _: {"states": ENDED - {JobState.SUCCEEDED}}, {"failed"}),
}


async def full_walk(scene: Scene, which: JobFilter, limit: int, look: WalkBound) -> list[Job]:
    """All pages, however many of them are incomplete or empty."""
    found, cursor = list[Job](), None
    while True:
        page = await scene.store.jobs.page(which, limit, cursor, look)
        assert len(page.jobs) <= limit
        assert look.jobs is None or page.looked_at <= look.jobs
        assert page.complete or (len(page.jobs) < limit and page.next_cursor)
        assert (page.reached is None) == page.complete
        found += page.jobs
        if page.next_cursor is None:
            return found
        assert cursor is None or page.next_cursor < cursor, "a walk goes on"
        cursor = page.next_cursor


async def test_each_filter_finds_what_it_names(scene: Scene) -> None:
    made = await furnish(scene)
    names = {job: name for name, job in made.items()}
    for case, (which_of, expected) in CASES.items():
        which = JobFilter(**which_of(scene))
        jobs = await full_walk(scene, which, 100, WalkBound())
        assert {names[job.id] for job in jobs} == expected, case
        assert [job.id for job in jobs] == sorted((job.id for job in jobs), reverse=True), case
        counted = await scene.store.jobs.count(which)
        assert sum(counted.values()) == len(expected), case
        for state, number in counted.items():
            assert number == sum(job.state is state for job in jobs), case


@pytest.mark.parametrize(("limit", "look"), [(1, 1), (2, 3), (3, 7), (100, 4)])
async def test_short_looks_find_exactly_what_a_full_scan_finds(
    scene: Scene, limit: int, look: int
) -> None:
    await furnish(scene)
    for case, (which_of, _) in CASES.items():
        which = JobFilter(**which_of(scene))
        whole = [job.id for job in await full_walk(scene, which, 100, WalkBound())]
        assert [job.id for job in await full_walk(scene, which, limit, WalkBound(look))] == whole, (
            case
        )


@pytest.mark.parametrize(("limit", "first"), [(1, 1), (2, 3), (100, 4)])
async def test_pages_without_time_find_exactly_what_a_full_scan_finds(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, limit: int, first: int
) -> None:
    """Where no time is left, each step of a walk is a page of its own."""
    await furnish(scene)
    wholes = {
        case: [
            job.id for job in await full_walk(scene, JobFilter(**which_of(scene)), 100, WalkBound())
        ]
        for case, (which_of, _) in CASES.items()
    }
    monkeypatch.setattr(walks, "FIRST_LOOK", first)
    for case, (which_of, _) in CASES.items():
        found = await full_walk(scene, JobFilter(**which_of(scene)), limit, WalkBound(seconds=0.0))
        assert [job.id for job in found] == wholes[case], case


async def test_a_page_without_time_looks_at_some_jobs_and_says_how_far_it_came(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "FIRST_LOOK", 10)
    await scene.enqueue_many(30)
    page = await scene.store.jobs.page(JobFilter(tags=("rare",)), 5, look=WalkBound(seconds=0.0))
    assert (page.jobs, page.looked_at, page.complete) == ((), 10, False)
    assert page.next_cursor is not None
    assert page.reached == scene.after(0)
