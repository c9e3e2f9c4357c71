"""The machine learns limits: the jobs of one queue pass buckets, beside everything else that may
happen to jobs.

By the numbers of the chapter on limits: 1 a bucket counts what its leases say, after every step. 2
no bucket exceeds its limit at an admission. 5 every accepted end gives back once, a refused one
nothing. 6 a claim gives every job that its bucket has room for. 7 and 8 follow: a line that waits
where there is room would not be served. 9 a line is served in its order. Rates, budgets and fair
turns have machines of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, multiple, rule

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.limits.model import Concurrency
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from tests.conformance.builders import TASK
from tests.conformance.limiting import through
from tests.properties.machine import StoreMachine
from tests.properties.model import ModelJob
from tests.properties.orders import QUEUES, Order, orders
from tests.properties.step_machine import StepMachine

NARROW = "narrow"
LIMIT = "lane"
BUCKETS = [f"{LIMIT}:a", f"{LIMIT}:b"]

buckets = st.sampled_from(BUCKETS)
some_orders = st.lists(orders, min_size=1, max_size=3)


class LimitMachine(StepMachine):
    """A store with all that jobs can be: plain, nodes, waiting for signals, and limited."""

    served: ClassVar[list[str]] = [*QUEUES, NARROW]

    def __init__(self) -> None:
        super().__init__()
        steady = QueueSettings(throttle_base=0.3, throttle_cap=0.3)
        self.do(self.store.queues.ensure({NARROW: steady}))
        self.most = 2
        self.do(self.store.limits.declare({LIMIT: Concurrency(self.most)}))

    @initialize(target=StoreMachine.jobs, orders=some_orders, bucket=buckets)
    def first_in_the_lane(self, orders: list[Order], bucket: str) -> Any:
        return self.enqueue_limited(orders, bucket)

    @rule(target=StoreMachine.jobs, orders=some_orders, bucket=buckets)
    def enqueue_limited(self, orders: list[Order], bucket: str) -> Any:
        return multiple(*(self._enqueue_limited(order, bucket) for order in orders))

    def _enqueue_limited(self, order: Order, bucket: str) -> JobId:
        part = next(self.numbers) / 1000
        options = through(bucket)
        order = replace(order, queue=NARROW, ties=options["ties"])
        job = msgspec.structs.replace(order.job(part), **options)
        twin = order.twin(part, self.model.now)
        twin.bucket = bucket
        return self._insert(order, part, job, twin)

    @rule(most=st.integers(1, 3))
    def put_limit(self, most: int) -> None:
        """Fewer than run may be allowed from now on: those that run go on."""
        self.do(self.store.limits.put(LIMIT, Concurrency(most)))
        self.most = most

    def _claim(self, worker: WorkerId, queue: str, limit: int) -> list[Claimed]:
        """What limits let through comes in no order that the model knows, but for each bucket."""
        if queue != NARROW:
            return super()._claim(worker, queue, limit)
        claimed = self.do(self.store.jobs.claim(worker, [Want(queue, limit)], [TASK]))
        for job in claimed:
            firsts = {one.id: one for one in self._may_begin(worker)}
            assert job.id in firsts, "2, 9: it has no room, or is not the first of its line"
            self.model.begin(firsts[job.id], worker)
            self._saw_claim(job)
        if len(claimed) < limit:
            assert not self._may_begin(worker), "6: who could begin was not given"
        return claimed

    def _may_begin(self, worker: WorkerId) -> list[ModelJob]:
        """The first job of each bucket that has room."""
        used, line = self._used(), self.model.line(worker, NARROW)
        firsts = {job.bucket: job for job in reversed(line)}
        return [job for bucket, job in firsts.items() if used[bucket] < self.most]

    def _used(self) -> Counter[str | None]:
        jobs = self.model.jobs.values()
        return Counter(job.bucket for job in jobs if job.state is JobState.RUNNING)

    def _move(self, job: JobId) -> None:
        """Who passes a bucket stays in its queue, whose claims the model follows."""
        twin = self.model.jobs.get(job)
        if twin is None or twin.bucket is None:
            super()._move(job)

    @invariant()
    def what_is_always_true_of_limits_holds(self) -> None:
        assert self.do(self.store.limits.recount(1_000, mend=False)).wrong == (), "1, 5"
        used = self._used()
        shown = self.do(self.store.limits.get(BUCKETS))
        assert [(one.name, one.in_use) for one in shown] == [(one, used[one]) for one in BUCKETS]
