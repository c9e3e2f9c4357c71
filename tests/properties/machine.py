"""The machine that drives a store and a small model side by side.

Each rule does one thing to both and compares their answers; after each step the places of all
jobs are compared and every line of `always_true` is asserted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from holdfast.clock import ManualClock
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    Released,
    Skipped,
    TimedOut,
    WasSuspended,
    WorkerLost,
)
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed, Live, NewJob
from holdfast.job.state import JobState as S
from holdfast.job.step import StepRecord
from holdfast.job.stream import NewFrames
from holdfast.store.contract.facts import WorkerFacts
from holdfast.store.contract.queues import EVERY_QUEUE, QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.contract.workers import Drain, Held
from holdfast.store.open import open_store
from tests.conformance.builders import TASK, new_worker
from tests.properties import always_true
from tests.properties.always_true import Record, Snapshot
from tests.properties.model import Model, ModelJob
from tests.properties.orders import END, QUEUES, Order, ends, orders, queues
from tests.support.backends import Backend

T = TypeVar("T")
steps = st.sampled_from(["pay", "mail"])
sections = st.sampled_from(["", "draft"])
naps = st.sampled_from(["nap", "doze"])
LEASE = 30.5
SWEEPS = [
    "reclaim_lost",
    "end_overdue",
    "expire",
    "promote",
    "prune",
    "sweep_workers",
    "fold",
    "roll_up",
]
VERBS = ["cancel", "resume", "requeue", "postpone", "hasten", "hurry", "move", "edit", "delete"]
VERBS += ["release", "postpone_release", "skip"]


def distinct(attempts: Iterable[Claimed]) -> list[Claimed]:
    """Each attempt once. What a claim brought beside it may be a list, which has no hash."""
    return list({(one.id, one.fence): one for one in attempts}.values())


class StoreMachine(RuleBasedStateMachine):
    """One life of a store. `backend` says of which kind."""

    backend: ClassVar[Backend]
    served: ClassVar[list[str]] = QUEUES
    seen: Snapshot
    jobs = Bundle("jobs")
    attempts = Bundle("attempts")
    workers = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.clock.now = self.clock.now.replace(microsecond=0)
        self.model = Model()
        self.record = Record()
        self.numbers = itertools.count(1)
        self.fractions: dict[JobId, float] = {}
        self.tries: dict[tuple[JobId, int], dict[str, int]] = {}
        self.to_drain: set[WorkerId] = set()
        self.beats: Counter[WorkerId] = Counter()
        self.store = open_store(self.do(self.backend.empty()), clock=self.clock)
        self.do(self.store.open())
        # The curve of throttles has its own tests; here every cool-down is the hint's.
        steady = QueueSettings(throttle_base=0.3, throttle_cap=0.3)
        self.do(self.store.queues.ensure(dict.fromkeys(QUEUES, steady)))

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        """Not by `runner.run`, which prepares for Ctrl-C: that takes as long as many a step."""
        return self.runner.get_loop().run_until_complete(step)

    def teardown(self) -> None:
        try:
            drained = always_true.line_11_when_faults_stop_the_queue_drains
            self.do(drained(self.store, self.clock))
        finally:
            self.do(self.store.close())
            self.runner.close()

    # Enqueueing

    @initialize(target=workers)
    def open_shop(self) -> Any:
        return multiple(self.hire(), self.hire())

    @initialize(target=jobs, orders=st.lists(orders, min_size=2, max_size=4))
    def first_customers(self, orders: list[Order]) -> Any:
        return multiple(*(self._enqueue(order) for order in orders))

    @rule(target=jobs, orders=st.lists(orders, min_size=1, max_size=2))
    def enqueue(self, orders: list[Order]) -> Any:
        return multiple(*(self._enqueue(order) for order in orders))

    def _enqueue(self, order: Order) -> JobId:
        part = next(self.numbers) / 1000
        return self._insert(order, part, order.job(part), order.twin(part, self.model.now))

    def _insert(self, order: Order, part: float, job: NewJob, twin: ModelJob) -> JobId:
        twin.id = job.id
        mode = order.unique[1] if order.unique else "keep"
        [answer] = self.do(self.store.jobs.insert([job]))
        assert (answer.id, answer.how) == self.model.insert(twin, mode)
        self.fractions.setdefault(answer.id, part)
        self.record.acknowledged.add(answer.id)
        return answer.id

    # Workers

    def hire(self) -> WorkerId:
        worker = new_worker()
        self.do(self.store.workers.register(worker, LEASE))
        self.model.leases[worker.id] = self.model.now + LEASE
        self.model.beaten[worker.id] = self.model.written[worker.id] = self.model.now
        return worker.id

    @rule(worker=workers, held=st.lists(attempts, max_size=3), caught_up=st.booleans())
    def heartbeat(self, worker: WorkerId, held: list[Claimed], caught_up: bool) -> None:
        mine = [Held(a.id, a.fence) for a in held]
        said = WorkerFacts(counts={"beats": self.beats[worker] + 1})
        beat = self.do(self.store.workers.heartbeat(worker, LEASE, mine, caught_up, said))
        assert beat.known == (worker in self.model.leases)
        assert beat.orders == ((Drain(),) if beat.known and worker in self.to_drain else ())
        if beat.known:
            self.beats[worker] += 1
            self.model.leases[worker] = self.model.now + LEASE
            if caught_up:
                self.model.written[worker] = self.model.beaten[worker]
            self.model.beaten[worker] = self.model.now
            lost = {a.id for a in held if not self._runs(a, worker)}
            assert set(beat.lost) == lost
            asked = {a.id for a in held if self._runs(a, worker) and self.model.jobs[a.id].cancel}
            assert asked <= set(beat.cancel)

    @rule(worker=workers)
    def request_drain(self, worker: WorkerId) -> None:
        told = self.do(self.store.workers.request_drain([worker]))
        assert told == ([worker] if worker in self.model.leases else [])
        self.to_drain.update(told)

    @invariant()
    def what_workers_counted_is_kept(self) -> None:
        """Also by those that were swept."""
        counted = self.do(self.store.workers.counts())
        assert counted.get("beats", 0) == self.beats.total()

    def _runs(self, attempt: Claimed, worker: WorkerId) -> bool:
        job = self.model.jobs.get(attempt.id)
        return job is not None and (job.worker, job.fence) == (worker, attempt.fence)

    def _sweep_workers(self) -> None:
        self.do(self.store.workers.sweep(100, 60.0))
        busy = {job.worker for job in self.model.jobs.values()}
        for worker, until in list(self.model.leases.items()):
            if until + 60 < self.model.now and worker not in busy:
                del self.model.leases[worker]

    # Attempts

    @rule(target=attempts, worker=workers, limit=st.integers(1, 4))
    def claim(self, worker: WorkerId, limit: int) -> Any:
        return multiple(*self._claim_each(worker, limit))

    @rule(target=attempts, worker=workers, hows=st.lists(ends, min_size=1, max_size=4))
    def work(self, worker: WorkerId, hows: list[str]) -> Any:
        """A worker does what workers do: beats, takes something from each queue, ends some."""
        self.heartbeat(worker, [], caught_up=True)
        claimed = self._claim_each(worker, 3)
        for attempt, how in zip(claimed, hows, strict=False):
            self._finish(attempt, how, heard=False)
        return multiple(*claimed)

    def _claim_each(self, worker: WorkerId, limit: int) -> list[Claimed]:
        """So many of each queue."""
        return [job for queue in self.served for job in self._claim(worker, queue, limit)]

    def _claim(self, worker: WorkerId, queue: str, limit: int) -> list[Claimed]:
        claimed = self.do(self.store.jobs.claim(worker, [Want(queue, limit)], [TASK]))
        assert [job.id for job in claimed] == self.model.claim(worker, queue, limit)
        for job in claimed:
            self._saw_claim(job)
        return claimed

    def _saw_claim(self, job: Claimed) -> None:
        twin = self.model.jobs[job.id]
        assert job.fence > twin.fence
        twin.fence = job.fence
        assert (job.attempts, job.crashes) == (twin.attempts, twin.crashes)
        assert (job.priority, job.ties) == (twin.priority, twin.ties)

    @rule(chosen=st.lists(attempts, min_size=1, max_size=3), how=ends, heard=st.booleans())
    def finish(self, chosen: list[Claimed], how: str, heard: bool) -> None:
        """By its own worker or by a zombie: any attempt there ever was may be ended again."""
        for attempt in chosen:
            self._finish(attempt, how, heard=heard)

    @rule(chosen=st.lists(attempts, min_size=1, max_size=3), names=st.lists(steps, min_size=1))
    def record_steps(self, chosen: list[Claimed], names: list[str]) -> None:
        """By an attempt that runs or by a zombie, once or again."""
        records = [self._record(attempt, name) for attempt in chosen for name in names]
        kept = self.do(self.store.steps.record(records))
        assert kept == [self.model.record(one) for one in records]

    @rule(chosen=st.lists(attempts, min_size=1, max_size=3), section=sections, anew=st.booleans())
    def write_frames(self, chosen: list[Claimed], section: str, anew: bool) -> None:
        """By an attempt that runs or by a zombie: the same try of the section, or another one."""
        rows = [self._frames(attempt, section, anew) for attempt in distinct(chosen)]
        assert self.do(self.store.streams.append(rows)) == [self.model.write(row) for row in rows]
        sent_again = self.do(self.store.streams.append(rows))
        assert sent_again == [self.model.runs(row.id, row.fence) for row in rows]

    def _frames(self, attempt: Claimed, section: str, anew: bool) -> NewFrames:
        n = next(self.numbers)
        tries = self.tries.setdefault((attempt.id, attempt.fence), {})
        again = section not in tries or anew
        since = n if again else tries[section]
        tries[section] = since
        data = f'["{n}"]'
        return NewFrames(
            *(attempt.id, attempt.fence, always_true.STREAM, n, 1, data),
            section=section,
            since=since,
            replaces=since if again else None,
        )

    @rule(target=attempts, worker=workers, name=steps)
    def a_zombie_records(self, worker: WorkerId, name: str) -> Any:
        """Jobs are handed back and claimed again; then both of their attempts record a step."""
        self.heartbeat(worker, [], caught_up=True)
        zombies = self._claim_each(worker, 2)
        for attempt in zombies:
            self._finish(attempt, "hand back", heard=False)
        own = self._claim_each(worker, 2)
        self.record_steps([*zombies, *own], [name])
        self.write_frames([*zombies, *own], "", anew=False)
        return multiple(*zombies, *own)

    @rule(attempt=attempts, name=naps, seconds=st.sampled_from([2, 10, 40]))
    def sleep(self, attempt: Claimed, name: str, seconds: int) -> None:
        """A sleep is recorded by the move that suspends its job, or not at all."""
        nap = self._record(attempt, name, seconds=float(seconds))
        move = decide(attempt, WasSuspended(seconds, f"sleeps {name!r}"))
        move = msgspec.structs.replace(move, steps=(nap,))
        [verdict] = self.do(self.store.jobs.finish([move]))
        assert verdict.accepted == self.model.apply(move)
        self.record.saw_end(verdict, move)
        self.settle_flows()  # a node whose flow is being cancelled ends instead

    def _record(self, attempt: Claimed, name: str, **said: Any) -> StepRecord:
        n = next(self.numbers)
        said = said or {"result": str(n)}
        return StepRecord(attempt.id, attempt.fence, name, n, **said)

    @rule(attempt=attempts, how=ends)
    def cancel_behind_the_workers_back(self, attempt: Claimed, how: str) -> None:
        self._cancel(attempt.id)
        self._finish(attempt, how, heard=False)

    @rule(target=workers, worker=consumes(workers), found=st.booleans())
    def crash(self, worker: WorkerId, found: bool) -> WorkerId:
        """A worker goes, another comes in its place; what it held is found now or later."""
        self.do(self.store.workers.deregister(worker))
        self.model.leases.pop(worker, None)
        if found:
            self._reclaim_lost()
        return self.hire()

    def _finish(self, attempt: Claimed, how: str, *, heard: bool) -> None:
        part = self.fractions[attempt.id]
        twin = self.model.jobs.get(attempt.id)
        cancel = heard and twin is not None and twin.cancel
        move = decide(attempt, END[how](part), cancel_requested=cancel)
        [verdict] = self.do(self.store.jobs.finish([move]))
        assert verdict.accepted == self.model.apply(move)
        if not verdict.accepted:
            truth = (twin.state, twin.fence) if twin else (None, None)
            assert (verdict.state, verdict.fence) == truth
        self.record.saw_end(verdict, move)
        self.settle_flows()

    def settle_flows(self) -> None:
        """What ended jobs do to their flows. Here there are none."""

    # Time, and what mends what it breaks

    @rule(seconds=st.sampled_from([1, 4, 4, 15, 15, 31, 70]), mend=st.booleans())
    def pass_time(self, seconds: int, mend: bool) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds
        if mend:
            self.sweep(SWEEPS)

    @rule(sweeps=st.lists(st.sampled_from(SWEEPS), min_size=1, max_size=7, unique=True))
    def sweep(self, sweeps: list[str]) -> None:
        for name in sweeps:
            getattr(self, f"_{name}")()

    def _reclaim_lost(self) -> None:
        found = self.do(self.store.jobs.lapsed_leases(1_000))
        assert [live.id for live in found] == self.model.expired()
        moves = [
            decide(live, WorkerLost(), cancel_requested=live.cancel_requested) for live in found
        ]
        for move, verdict in zip(moves, self.do(self.store.jobs.reclaim(moves)), strict=True):
            assert verdict.accepted
            assert self.model.apply(move, only_if_lost=True)
            self.record.saw_end(verdict, move)
        self.settle_flows()

    def _end_overdue(self) -> None:
        found = self.do(self.store.jobs.overdue_attempts(1_000))
        assert [live.id for live in found] == self.model.overdue()
        self._end_all(found, TimedOut(1))

    def _expire(self) -> None:
        found = self.do(self.store.jobs.past_deadline(1_000))
        assert [live.id for live in found] == self.model.past_deadline()
        self._end_all(found, DeadlinePassed())

    def _promote(self) -> None:
        assert self.do(self.store.jobs.promote_due(1_000)).count == self.model.promote()

    def _prune(self) -> None:
        over = self.model.prune()
        assert self.do(self.store.jobs.prune(1_000)) == len(over)
        self.record.removed |= set(over)

    def _fold(self) -> None:
        while self.do(self.store.telemetry.fold(3)):
            pass

    def _roll_up(self) -> None:
        self.do(self.store.telemetry.roll_up(2))

    def _end_all(self, found: list[Live], end: End) -> None:
        moves = [decide(live, end, cancel_requested=live.cancel_requested) for live in found]
        for move, verdict in zip(moves, self.do(self.store.jobs.finish(moves)), strict=True):
            assert verdict.accepted
            assert self.model.apply(move)
            self.record.saw_end(verdict, move)
        self.settle_flows()

    # An operator

    @rule(chosen=st.lists(jobs, min_size=1, max_size=3), verb=st.sampled_from(VERBS))
    def operate(self, chosen: list[JobId], verb: str) -> None:
        for job in chosen:
            getattr(self, f"_{verb}")(job)

    def _cancel(self, job: JobId) -> None:
        """As the client does it: a waiting job is ended, a running one is marked."""
        for live in self.do(self.store.jobs.live([job])):
            if live.state is S.RUNNING:
                assert self.do(self.store.jobs.request_cancel([job])) == [job]
                assert self.model.request_cancel(job)
            else:
                self._end_all([live], Cancelled())

    @rule(queue=queues | st.just(EVERY_QUEUE), pause=st.sampled_from([True, False, False]))
    def pause_or_resume(self, queue: str, pause: bool) -> None:
        if pause:
            self.do(self.store.queues.pause([queue]))
            self.model.paused.add(queue)
            return
        self.do(self.store.queues.resume([queue]))
        self.model.paused.discard(queue)
        self.model.cooling.pop(queue, None)

    def _release(self, job: JobId) -> None:
        self._unblock(job, Released())

    def _postpone_release(self, job: JobId) -> None:
        self._unblock(job, Released(10 + self.fractions[job]))

    def _skip(self, job: JobId) -> None:
        self._unblock(job, Skipped("not needed"))

    def _unblock(self, job: JobId, end: End) -> None:
        live = self.do(self.store.jobs.live([job]))
        self._end_all([one for one in live if one.state is S.BLOCKED], end)

    def _resume(self, job: JobId) -> None:
        assert self.do(self.store.jobs.resume([job])) == [job] * self.model.resume(job)

    def _requeue(self, job: JobId) -> None:
        expected = self.model.requeue(job)
        assert self.do(self.store.jobs.requeue([job])) == [job] * expected
        if expected:
            self.record.saw_requeue(job)

    def _postpone(self, job: JobId) -> None:
        self._reschedule(job, 10 + self.fractions[job])

    def _hasten(self, job: JobId) -> None:
        self._reschedule(job, 0.0)

    def _reschedule(self, job: JobId, wait: float) -> None:
        expected = [job] * self.model.reschedule(job, wait)
        assert self.do(self.store.jobs.reschedule([job], wait)) == expected

    def _hurry(self, job: JobId) -> None:
        expected = [job] * self.model.change(job, priority=-1)
        assert self.do(self.store.jobs.reprioritise([job], -1)) == expected

    def _move(self, job: JobId) -> None:
        expected = [job] * self.model.change(job, queue=QUEUES[0])
        assert self.do(self.store.jobs.move([job], QUEUES[0])) == expected

    def _edit(self, job: JobId) -> None:
        expected = [job] * self.model.edit(job)
        assert self.do(self.store.jobs.edit([job], '{"edited":true}', ["edited"])) == expected

    def _delete(self, job: JobId) -> None:
        expected = self.model.remove(job)
        assert self.do(self.store.jobs.delete([job])) == [job] * expected
        if expected:
            self.record.removed.add(job)

    # What must hold after each of them

    @invariant()
    def what_is_always_true_holds(self) -> None:
        seen = self.seen = self.do(Snapshot.of(self.store))
        always_true.check_all(seen, self.record)
        for job in seen.jobs.values():
            twin = self.model.jobs[job.id]
            assert (job.state, job.fence) == (twin.state, twin.fence)
            assert (job.attempts, job.crashes) == (twin.attempts, twin.crashes)
            assert (job.queue, job.priority, job.ties) == (twin.queue, twin.priority, twin.ties)
            assert job.worker_id == twin.worker or job.ended
            assert seen.lives.get(job.id, []) == [what for what, _ in twin.life]
        self._steps_are_those_of_the_model(seen)
        self._frames_are_those_of_the_model(seen)

    def _steps_are_those_of_the_model(self, seen: Snapshot) -> None:
        """F8: at most one result is recorded for each step, and none by an old fence."""
        recorded = {
            job.id: {
                name: (one.n, one.fence, one.result, job.waits.get(name))
                for name, one in job.steps.items()
            }
            for job in self.model.jobs.values()
            if job.steps
        }
        began = self.clock.now - timedelta(seconds=self.model.now)
        assert recorded == {
            job: {
                one.name: (
                    *(one.n, one.fence, one.result_json),
                    None if one.until is None else (one.until - began).total_seconds(),
                )
                for one in some
            }
            for job, some in seen.steps.items()
        }

    def _frames_are_those_of_the_model(self, seen: Snapshot) -> None:
        """F11: frames of one section are of one try, and none of an old fence comes after it."""
        written = {job.id: job.frames for job in self.model.jobs.values() if job.frames}
        assert {
            job: [(one.fence, one.last, one.data) for one in some] for job, some in written.items()
        } == {
            job: [(one.fence, one.last, one.data) for one in some]
            for job, some in seen.frames.items()
        }
