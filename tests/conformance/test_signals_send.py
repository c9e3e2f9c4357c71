"""Signals: what is sent to a live job is kept until a step takes it, and wakes whoever waits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.job.ends import Cancelled, HandedBack
from holdfast.job.happening import FIRST_KEPT, NEWEST_KEPT
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.outcome import decide
from holdfast.job.signal import OWN_SIGNALS, NewSignal, Sent, Signal, SignalLimits, SignalWait
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from holdfast.store.contract.signals import wait_cursor
from tests.conformance.builders import FAILED, RAISED, RETURNED, Scene
from tests.conformance.signalling import (
    LIMITS,
    kept_of,
    send,
    signal_for,
    signals_of,
    take,
    wait,
    wait_of,
    waiting,
)


async def test_an_empty_batch_sends_nothing(scene: Scene) -> None:
    assert await scene.store.signals.send([], LIMITS) == []
    assert await scene.store.signals.of([]) == {}
    assert await scene.store.signals.wake([]) == []


@pytest.mark.parametrize("state", ["ready", "scheduled", "running", "suspended"])
async def test_a_signal_for_a_live_job_is_kept_whole(scene: Scene, state: str) -> None:
    job = (
        await scene.enqueue(delay=60.0 if state == "scheduled" else None)
        if state in ("ready", "scheduled")
        else (await (waiting(scene, "other") if state == "suspended" else scene.running())).id
    )
    scene.clock.advance(5)
    assert await send(scene, job, "bezahlt 🦊", '{"sum":1}', "evt 1") is Sent.KEPT
    assert await signals_of(scene, job) == [
        Signal(n=1, name="bezahlt 🦊", key="evt 1", at=scene.clock.now, value_json='{"sum":1}')
    ]
    found = await scene.job(job)
    assert found.state == state
    assert found.ties & Tie.STEPS


async def test_a_key_dedupes_also_when_its_signal_was_taken(scene: Scene) -> None:
    claimed = await scene.running()
    assert await send(scene, claimed.id) is Sent.KEPT
    assert await send(scene, claimed.id, "other", "2") is Sent.DUPLICATE
    [signal] = await signals_of(scene, claimed.id)
    assert await take(scene, claimed, signal)
    assert await send(scene, claimed.id) is Sent.DUPLICATE
    other = await scene.enqueue()
    assert await send(scene, other) is Sent.KEPT, "a key is of one job"


async def test_a_batch_is_answered_in_its_order(scene: Scene) -> None:
    over, suspended, unknown = await scene.ended(RETURNED), await waiting(scene), new_job_id()
    live = await scene.enqueue()
    batch = [
        signal_for(unknown),
        signal_for(live, "a", "1", "x"),
        signal_for(over.id),
        signal_for(live, "b", "2", "x"),
        signal_for(suspended.id, "note", key="1"),
        signal_for(suspended.id, "paid", key="2"),
        signal_for(suspended.id, "paid", key="3"),
        signal_for(live, "c", "3", "y"),
    ]
    assert await scene.store.signals.send(batch, LIMITS) == [
        *(Sent.UNKNOWN, Sent.KEPT, Sent.ENDED, Sent.DUPLICATE),
        *(Sent.KEPT, Sent.WOKE, Sent.KEPT, Sent.KEPT),
    ]
    assert await kept_of(scene, live) == ["a", "c"]
    assert await signals_of(scene, over.id) == []


async def test_a_signal_wakes_the_job_that_waits_for_it(scene: Scene) -> None:
    claimed = await waiting(scene)
    assert await send(scene, claimed.id, "note", key="k0") is Sent.KEPT
    assert (await scene.job(claimed.id)).state is JobState.SUSPENDED
    assert await send(scene, claimed.id) is Sent.WOKE
    again = await scene.claim_one()
    assert (again.id, again.attempt) == (claimed.id, claimed.attempt), "no attempt is spent"
    assert await kept_of(scene, claimed.id) == ["note", "paid"]


async def test_any_of_several_signals_wakes_the_job(scene: Scene) -> None:
    claimed = await waiting(scene, "paid", "cancelled")
    assert await send(scene, claimed.id, "cancelled") is Sent.WOKE


async def test_a_job_is_not_suspended_for_a_signal_that_is_kept(scene: Scene) -> None:
    """F9: an early signal is not lost."""
    claimed = await scene.running()
    assert await send(scene, claimed.id) is Sent.KEPT
    assert (await wait(scene, claimed, "cancelled", "paid")).accepted
    assert await scene.state(claimed.id) is JobState.READY
    assert (await scene.claim_one()).id == claimed.id


async def test_a_kept_signal_counts_in_a_batch_that_ends_an_attempt_twice(scene: Scene) -> None:
    claimed, other = await scene.running(), await scene.running()
    assert await send(scene, claimed.id) is Sent.KEPT
    twice = decide(other, RETURNED)
    verdicts = await scene.store.jobs.finish([twice, wait_of(claimed), twice])
    assert [one.accepted for one in verdicts] == [True, True, False]
    assert await scene.state(claimed.id) is JobState.READY


async def test_a_job_that_is_moved_still_waits_for_its_signal(scene: Scene) -> None:
    job = (await waiting(scene)).id
    assert await scene.store.jobs.move([job], "other") == [job]
    assert await scene.store.jobs.reprioritise([job], -1) == [job]
    assert await send(scene, job) is Sent.WOKE


async def test_a_taken_signal_keeps_nobody_from_waiting_for_the_next(scene: Scene) -> None:
    claimed = await scene.running()
    await send(scene, claimed.id)
    [signal] = await signals_of(scene, claimed.id)
    assert await take(scene, claimed, signal, "the first one")
    assert (await wait(scene, claimed, "paid")).accepted
    assert await scene.state(claimed.id) is JobState.SUSPENDED
    assert await send(scene, claimed.id, key="k2") is Sent.WOKE


async def test_a_wait_of_an_earlier_attempt_wakes_nobody(scene: Scene) -> None:
    """The newest suspension says what a job waits for."""
    claimed = await waiting(scene, "old")
    await scene.store.jobs.resume([claimed.id])
    again = await scene.claim_one()
    await wait(scene, again, "new")
    assert await send(scene, claimed.id, "old") is Sent.KEPT
    assert (await scene.job(claimed.id)).state is JobState.SUSPENDED
    assert await send(scene, claimed.id, "new", key="k2") is Sent.WOKE


async def test_a_signal_is_taken_with_the_record_of_its_value(scene: Scene) -> None:
    claimed = await scene.running()
    await send(scene, claimed.id, value='"a"')
    await send(scene, claimed.id, value='"b"', key="k2")
    [first, _] = await signals_of(scene, claimed.id)
    assert await take(scene, claimed, first, "paid")
    assert await take(scene, claimed, first, "paid"), "a lost answer is asked for again"
    [taken, kept] = await signals_of(scene, claimed.id)
    assert (taken.taken_by, taken.value_json) == ("paid", None)
    assert (kept.taken_by, kept.value_json) == (None, '"b"')
    [step] = (await scene.store.steps.load([claimed.id]))[claimed.id]
    assert (step.result_json, step.awaits) == ('"a"', None)


async def test_a_zombie_takes_no_signal(scene: Scene) -> None:
    """F9: sent = consumed + kept."""
    zombie = await scene.ended(HandedBack())
    await send(scene, zombie.id)
    successor = await scene.claim_one()
    [signal] = await signals_of(scene, zombie.id)
    assert not await take(scene, zombie, signal)
    assert await kept_of(scene, zombie.id) == ["paid"]
    assert await take(scene, successor, signal)
    assert await kept_of(scene, zombie.id) == []


async def test_a_zombie_is_not_suspended_and_its_wait_is_not_written(scene: Scene) -> None:
    zombie = await scene.ended(HandedBack())
    await scene.claim_one()
    assert not (await wait(scene, zombie)).accepted
    assert await scene.store.signals.waits(10) == []


async def test_signals_over_a_limit_are_refused(scene: Scene) -> None:
    job = await scene.enqueue()
    two, small = SignalLimits(number=2), SignalLimits(size=10)
    for n, (limits, value, sent) in enumerate(
        [
            (small, '"123456789"', Sent.FULL),
            (small, '"123"', Sent.KEPT),
            (small, '"1234"', Sent.FULL),
            (small, '"123"', Sent.KEPT),
            (two, "1", Sent.FULL),
        ]
    ):
        batch = [signal_for(job, value=value, key=f"k{n}")]
        assert await scene.store.signals.send(batch, limits) == [sent], n
    assert len(await signals_of(scene, job)) == 2
    [again] = await scene.store.signals.send([signal_for(job, key="k1")], two)
    assert again is Sent.DUPLICATE, "also where nothing more fits"


async def test_limits_count_within_a_batch(scene: Scene) -> None:
    job = await scene.enqueue()
    batch = [signal_for(job, key=f"k{n}") for n in range(3)]
    sent = await scene.store.signals.send(batch, SignalLimits(number=2))
    assert sent == [Sent.KEPT, Sent.KEPT, Sent.FULL]


async def test_signals_of_holdfast_itself_do_not_count(scene: Scene) -> None:
    """There is one for each call of a job: callers of many must not shut out everybody else."""
    job, two = await scene.enqueue(), SignalLimits(number=2)
    own = [signal_for(job, f"{OWN_SIGNALS}call {n}", key=f"own {n}") for n in range(5)]
    first = signal_for(job, key="k0")
    sent = await scene.store.signals.send([*own[:3], first, *own[3:]], two)
    assert sent == [Sent.KEPT] * 6
    others = [signal_for(job, key="k1"), signal_for(job, key="k2")]
    assert await scene.store.signals.send(others, two) == [Sent.KEPT, Sent.FULL]


async def test_a_wait_ends_by_its_timeout(scene: Scene) -> None:
    claimed = await waiting(scene, seconds=60.0)
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    assert (await scene.claim_one()).id == claimed.id
    assert await send(scene, claimed.id) is Sent.KEPT
    [step] = (await scene.store.steps.load([claimed.id]))[claimed.id]
    assert (step.awaits, step.until) == ("paid", scene.clock.now)


async def test_an_ended_job_takes_its_signals_with_it(scene: Scene) -> None:
    deleted = await scene.running()
    await send(scene, deleted.id)
    await scene.finish(deleted, FAILED)
    assert len(await signals_of(scene, deleted.id)) == 1, "kept as long as the job"
    await scene.store.jobs.delete([deleted.id])
    pruned = await scene.running()
    await send(scene, pruned.id)
    await scene.finish(pruned, RETURNED)
    scene.clock.advance(30 * 86_400)
    await scene.store.jobs.prune(10)
    assert await scene.store.signals.of([deleted.id, pruned.id]) == {}


async def test_a_requeued_job_begins_without_signals(scene: Scene) -> None:
    claimed = await scene.running()
    await send(scene, claimed.id)
    await scene.finish(claimed, FAILED)
    await scene.store.jobs.requeue([claimed.id])
    assert await signals_of(scene, claimed.id) == []
    assert not (await scene.job(claimed.id)).ties & Tie.STEPS
    assert await send(scene, claimed.id) is Sent.KEPT, "its keys are forgotten too"


async def test_waits_are_listed_by_job_and_signal(scene: Scene) -> None:
    """F10: a suspended job that waits for signals is on the list."""
    first = await waiting(scene, "b", "a", seconds=60.0)
    scene.clock.advance(5)
    second = await waiting(scene, "paid")
    slept = await scene.ended(HandedBack())
    await scene.claim_one()
    since = scene.clock.now
    found = await scene.store.signals.waits(10)
    assert set(found) == {
        SignalWait(first.id, "greet", "default", "a", scene.after(-5), scene.after(55)),
        SignalWait(first.id, "greet", "default", "b", scene.after(-5), scene.after(55)),
        SignalWait(second.id, "greet", "default", "paid", since),
    }
    assert slept.id not in {one.id for one in found}
    paged, cursor = [], None
    while page := await scene.store.signals.waits(2, cursor):
        paged += page
        cursor = wait_cursor(page[-1])
    assert paged == found


@pytest.mark.parametrize("how", ["woken", "resumed", "cancelled", "due"])
async def test_a_job_that_is_not_suspended_any_more_waits_for_nothing(
    scene: Scene, how: str
) -> None:
    claimed = await waiting(scene, "paid", "note", seconds=60.0)
    match how:
        case "woken":
            await send(scene, claimed.id)
        case "resumed":
            await scene.store.jobs.resume([claimed.id])
        case "cancelled":
            [live] = await scene.store.jobs.live([claimed.id])
            await scene.finish(live, Cancelled())
        case "due":
            scene.clock.advance(61)
            await scene.store.jobs.promote_due(10)
    assert await scene.store.signals.waits(10) == []


async def test_nobody_has_to_be_woken(scene: Scene) -> None:
    """F10: the net finds nothing, whatever came first."""
    early = await scene.running()
    await send(scene, early.id)
    await wait(scene, early)
    await scene.claim_one()
    late = await waiting(scene)
    await send(scene, late.id)
    await scene.claim_one()
    other = await waiting(scene, "other")
    await send(scene, other.id)
    assert await scene.store.signals.wake([early.id, late.id, other.id, new_job_id()]) == []


async def test_a_woken_job_tells_which_signal_it_was(scene: Scene) -> None:
    claimed = await waiting(scene)
    await scene.store.signals.send([signal_for(claimed.id)], LIMITS, "ann")
    told = (await scene.store.jobs.life([claimed.id]))[-1]
    assert (told.what, told.by, told.message) == ("resumed", "ann", "signal paid")


async def test_a_plain_success_of_a_job_with_signals_is_taken(scene: Scene) -> None:
    """The worker does not know of a signal that came while it ran the job."""
    claimed = await scene.running()
    await send(scene, claimed.id)
    assert (await scene.finish(claimed, RETURNED)).accepted


async def test_a_lazy_record_may_take_a_signal_with_the_end(scene: Scene) -> None:
    claimed = await scene.running()
    await send(scene, claimed.id)
    record = StepRecord(claimed.id, claimed.fence, "paid", 1, result="1", takes=1)
    move = msgspec.structs.replace(decide(claimed, RAISED), steps=(record,))
    assert [one.accepted for one in await scene.store.jobs.finish([move])] == [True]
    assert await kept_of(scene, claimed.id) == []


@pytest.mark.parametrize(
    ("ends", "sent"),
    [
        ({}, Sent.KEPT),
        ({"awaits": "vote"}, Sent.KEPT),
        ({"kind": "ValueError", "seconds": 60.0}, Sent.KEPT),
        ({"result": "1"}, Sent.LATE),
        ({"kind": "ValueError"}, Sent.LATE),
    ],
)
async def test_a_signal_is_late_once_the_step_it_must_come_before_has_ended(
    scene: Scene, ends: dict[str, Any], sent: Sent
) -> None:
    claimed = await scene.running()
    record = StepRecord(claimed.id, claimed.fence, "decision" if ends else "other", 1, **ends)
    await scene.store.steps.record([msgspec.structs.replace(record, result=ends.get("result"))])
    vote = NewSignal(claimed.id, "vote", "1", "ann", before="decision")
    assert await scene.store.signals.send([vote], LIMITS) == [sent]
    assert len(await signals_of(scene, claimed.id)) == (sent is Sent.KEPT)
    plain = msgspec.structs.replace(vote, before=None, key="bob")
    assert await scene.store.signals.send([plain], LIMITS) == [Sent.KEPT]


async def test_a_duplicate_that_comes_late_is_a_duplicate(scene: Scene) -> None:
    claimed = await scene.running()
    vote = NewSignal(claimed.id, "vote", "1", "ann", before="decision")
    batch = [vote, vote]
    assert await scene.store.signals.send(batch, LIMITS) == [Sent.KEPT, Sent.DUPLICATE]
    record = StepRecord(claimed.id, claimed.fence, "decision", 1, result="1")
    await scene.store.steps.record([record])
    late = msgspec.structs.replace(vote, key="bob")
    assert await scene.store.signals.send([late, vote], LIMITS) == [Sent.LATE, Sent.DUPLICATE]
    assert await kept_of(scene, claimed.id) == ["vote"]


SMALL = SignalLimits(number=2, size=10)
OPEN, OVER = "open", "over"
SENDING: tuple[tuple[tuple[dict[str, Any], ...], list[Sent]], ...] = (
    (({},), [Sent.WOKE]),
    (({"name": "note"},), [Sent.KEPT]),
    (({"name": "note"}, {"key": "k2"}), [Sent.KEPT, Sent.WOKE]),
    (({"name": "note"}, {}), [Sent.KEPT, Sent.DUPLICATE]),
    (({"value": '"123456789"'},), [Sent.FULL]),
    (({"name": "a", "key": "k2"}, {"name": "b", "key": "k3"}, {}), [Sent.KEPT] * 2 + [Sent.FULL]),
    (
        ({"name": f"{OWN_SIGNALS}a", "key": "k2"}, {"name": "b", "key": "k3"}, {}),
        [Sent.KEPT] * 2 + [Sent.WOKE],
    ),
    (({"before": OPEN},), [Sent.WOKE]),
    (({"before": OVER},), [Sent.LATE]),
    (({}, {"key": "k2"}), [Sent.WOKE, Sent.KEPT]),
)


async def left_of(scene: Scene, job: JobId) -> tuple[object, ...]:
    """What became of a job and its signals, but for what differs between any two jobs."""
    found = await scene.job(job)
    life = [
        (one.what, one.attempt, one.fence == found.fence, one.by, one.kind, one.message)
        for one in await scene.store.jobs.life([job])
    ]
    place = (found.state, found.queue, found.priority, found.ties, found.attempts, found.due_at)
    return place, life, await signals_of(scene, job)


async def two_that_wait(scene: Scene, times: int = 1) -> list[JobId]:
    """Two jobs that have gone on so often, have recorded a step, and wait again."""
    jobs = [(await waiting(scene)).id for _ in range(2)]
    for job in jobs:
        for n in range(times):
            assert await scene.store.jobs.resume([job], by="ann") == [job]
            again = await scene.claim_one()
            over = StepRecord(job, again.fence, OVER, 1, result="1")
            assert await scene.store.steps.record([over]) == [True]
            assert (await wait(scene, again, n=2 + n)).accepted
    return jobs


@pytest.mark.parametrize(("sending", "expected"), SENDING)
async def test_a_signal_alone_leaves_what_it_leaves_in_a_batch(
    scene: Scene, sending: tuple[dict[str, Any], ...], expected: list[Sent]
) -> None:
    alone, beside = await two_that_wait(scene)
    bystander = await scene.enqueue()
    for said, sent in zip(sending, expected, strict=True):
        other = signal_for(bystander, key=new_job_id())
        mine, its = (
            NewSignal(job, **{"name": "paid", "value": "1", "key": "k1", **said})
            for job in (alone, beside)
        )
        assert await scene.store.signals.send([mine], SMALL, "bob") == [sent]
        assert (await scene.store.signals.send([other, its], SMALL, "bob"))[1] is sent
    assert await left_of(scene, alone) == await left_of(scene, beside)
    assert await scene.store.telemetry.recount() in (None, []), "both are counted"


async def test_a_signal_alone_pushes_out_of_a_long_life_what_it_does_in_a_batch(
    scene: Scene,
) -> None:
    alone, beside = await two_that_wait(scene, (FIRST_KEPT + NEWEST_KEPT) // 2)
    bystander = await scene.enqueue()
    assert await send(scene, alone) is Sent.WOKE
    batch = [signal_for(bystander), signal_for(beside)]
    assert await scene.store.signals.send(batch, LIMITS) == [Sent.KEPT, Sent.WOKE]
    assert len(await scene.store.jobs.life([alone])) == FIRST_KEPT + NEWEST_KEPT
    assert await left_of(scene, alone) == await left_of(scene, beside)


async def test_a_suspension_takes_a_signal_before_it_looks_for_the_next(scene: Scene) -> None:
    """The wait is for the next signal of the name, not for the one that is taken by the same
    write."""
    claimed = await scene.running()
    await send(scene, claimed.id)
    taking = StepRecord(claimed.id, claimed.fence, "first", 1, result="1", takes=1)
    move = wait_of(claimed, n=2)
    both = msgspec.structs.replace(move, steps=(taking, *move.steps))
    assert [one.accepted for one in await scene.store.jobs.finish([both])] == [True]
    assert await scene.state(claimed.id) is JobState.SUSPENDED
    assert await kept_of(scene, claimed.id) == []
    assert await send(scene, claimed.id, key="k2") is Sent.WOKE
