"""The parts of one running worker, wired together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.events import Events
from holdfast.handlers.processes import Processes
from holdfast.handlers.registry import Mode, Registry
from holdfast.handlers.threads import Threads
from holdfast.job.ends import End, HandedBack, PutOff
from holdfast.job.ids import JobId
from holdfast.job.outcome import Transition, leave
from holdfast.job.record import Claimed
from holdfast.store.contract.records import Topic, Wakeup
from holdfast.store.contract.store import Store
from holdfast.worker.admission import admit
from holdfast.worker.attempt import Attempt
from holdfast.worker.executor import Executor
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.lost_claims import LostClaims
from holdfast.worker.options import WorkerOptions
from holdfast.worker.permits import Permits
from holdfast.worker.places import Places
from holdfast.worker.poller import Poller
from holdfast.worker.progress import ProgressReporter
from holdfast.worker.rescue import Rescue
from holdfast.worker.runner import Runner
from holdfast.worker.settle import settle
from holdfast.worker.watch import Watch
from holdfast.worker.watchdog import Frozen

GLANCE = 0.005
"""Seconds between two looks whether ends that something waits for are written."""


class Pipeline:
    """fetcher → runner → finisher, and those who look after them."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        options: WorkerOptions,
        events: Events,
        replicas: Replicas,
        on_frozen: Callable[[Frozen], None],
        on_exhausted: Callable[[str, int, int], None],
    ) -> None:
        self._registry = registry
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._on_exhausted = on_exhausted
        self._closed: dict[str, JobId | None] = {}
        self.leaving = False
        self.discarded = 0
        self.put_off_until = 0.0
        self.slots = Permits(options.queues, time.monotonic)
        self.outage = Outage(events)
        self.progress = ProgressReporter(store, self.outage)
        self.threads = Threads(options.thread_count)
        self.processes = Processes(options.process_count)
        self._apart: set[asyncio.Task[None]] = set()
        self.finisher = Finisher(
            store,
            events,
            self.outage,
            batch=options.batch,
            most_unwritten=options.max_unwritten,
            on_room=self._room_for_ends,
            on_given_up=lambda: self.strays.suspect(),
        )
        executor = Executor(self.threads, self.processes, max_result=options.max_payload)
        self.runner = Runner(
            options.queues,
            executor,
            patience=options.patience,
            on_end=self._ended,
            on_return=self._returned,
        )
        self._rescue = Rescue(
            self.runner, self.finisher, events, lambda: self.identity.id, on_frozen
        )
        self.identity = Identity(
            store,
            registry,
            options,
            events,
            self.outage,
            self.runner,
            self.finisher.is_behind,
            self._renewed,
            self._rescue,
        )
        self.strays = LostClaims(
            store,
            tuple(options.queues),
            events,
            self.outage,
            again_after=options.lease,
            worker_id=lambda: self.identity.id,
            is_known=self._is_known,
            is_claiming=lambda: self.fetcher.claiming,
            hand_back=self.finisher.add,
        )
        watch = Watch(
            replicas, options.queues, lambda dozes: store.wakeups.doze(self.on_wakeup, dozes)
        )
        self.fetcher = Fetcher(
            store,
            self.slots,
            Places(registry, _bounds(options), self.runner.running, self.runner.stuck),
            events,
            self.outage,
            watch,
            poll=options.poll,
            batch=options.batch,
            worker_id=lambda: self.identity.id,
            deliver=self._deliver,
            may_claim=self._may_claim,
            is_open=self._is_open,
            after_doubt=self.strays.suspect,
        )
        self.poller = Poller(
            store,
            tuple(options.queues),
            tuple(registry),
            events,
            self.outage,
            replicas,
            watch,
            poll=options.poll,
            worker_id=lambda: self.identity.id,
        )

    def on_wakeup(self, wakeup: Wakeup) -> None:
        if wakeup.topic is Topic.READY:
            self.fetcher.wake(wakeup.name)
        elif wakeup.topic is Topic.PAUSED and wakeup.name in self._options.queues:
            self._close_line(wakeup.name, None)
        elif wakeup.topic is Topic.CANCEL and wakeup.name in ("", self.identity.id):
            self.identity.heartbeat.beat_now()

    def _may_claim(self) -> bool:
        return self.identity.trusted and not self.finisher.full

    def _is_known(self, job_id: JobId) -> bool:
        return job_id in self.runner.running or self.finisher.holds(job_id)

    def _room_for_ends(self) -> None:
        if not self.finisher.full:
            self.fetcher.look()

    def _renewed(self) -> None:
        self.fetcher.wake("")

    def _deliver(self, claimed: list[Claimed]) -> None:
        """From the fetcher to the runner; what comes while leaving goes straight back."""
        now = self._loop.time()
        attempts: list[Attempt] = []
        for job in claimed:
            if self.strays.has_returned(job):
                self.slots.give(job.queue)
                continue
            try:
                attempts.append(Attempt(job, self._registry[job.task], self.progress, now))
            except Exception as problem:  # noqa: BLE001 - left, visibly, for a worker that can read it
                self.slots.give(job.queue)
                self.finisher.add(leave(job, problem))
                self._events.warning("job.left", job=job.id, queue=job.queue, error=str(problem))
        if self.leaving or self._closed:
            attempts = self._return_late(attempts)
        if attempts:
            self._admit(attempts, now)

    def _return_late(self, attempts: list[Attempt]) -> list[Attempt]:
        """Hand back what may not begin here any more; returns the rest."""
        in_time: list[Attempt] = []
        for attempt in attempts:
            if self.leaving or attempt.job.queue in self._closed:
                self._return([attempt], HandedBack())
            else:
                in_time.append(attempt)
        return in_time

    def _admit(self, attempts: list[Attempt], now: float) -> None:
        admitted = admit(attempts, self.runner.running.values(), now)
        self.slots.cautious = admitted.careful
        self.runner.dispatch(admitted.begin)
        self._return(admitted.hand_back, HandedBack())
        for suspect, seconds in admitted.put_off:
            self.put_off_until = max(self.put_off_until, now + seconds)
            self._return(
                [suspect], PutOff(seconds, "another job that may be why a worker died runs")
            )
        if admitted.apart is not None:
            self._hold_apart(admitted.apart, [one.job.id for one, _ in admitted.put_off])

    def _return(self, attempts: Iterable[Attempt], end: End) -> None:
        """They never came to the runner."""
        for attempt in attempts:
            self._ended(attempt, settle(attempt, end))

    def _hold_apart(self, suspect: Attempt, others: list[JobId]) -> None:
        if not others:
            self.runner.dispatch([suspect])
            return
        self.runner.hold(suspect)
        task = asyncio.create_task(self._begin_apart(suspect, others), name="holdfast-suspect")
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)

    async def _begin_apart(self, suspect: Attempt, others: list[JobId]) -> None:
        """Not before the others are written: were this worker to die now, they would pay too."""
        while not suspect.ended and any(map(self.finisher.holds, others)):  # noqa: ASYNC110
            await asyncio.sleep(GLANCE)
        if not suspect.ended:
            if self.leaving:
                self.runner.hand_back([suspect])
            else:
                self.runner.dispatch([suspect])

    def _ended(self, attempt: Attempt, transition: Transition | None) -> None:
        """The slot is free when the handler ends, not when its end is written; a stuck handler
        keeps it."""
        queue = attempt.job.queue
        if attempt.stuck:
            self._count_stuck(attempt)
        elif attempt.begun:
            self.slots.ended(queue)
        else:
            self.slots.give(queue)
        self.fetcher.room_in(queue)
        if transition is None:
            self.discarded += 1
            return
        self.finisher.add(transition)
        if transition.cool is not None:
            self._close_line(queue, attempt.job.id)
        if transition.error is not None:
            self._report(attempt, transition)

    def _returned(self, attempt: Attempt) -> None:
        """A stuck handler has come back after all, and its slot is free again. While the worker
        leaves, its slots are ended and their handlers may still go on."""
        if self.leaving:
            return
        job = attempt.job
        self._events.info("job.stuck_handler_returned", job=job.id, task=job.task, queue=job.queue)
        self.slots.ended(job.queue)
        self.fetcher.room_in(job.queue)

    def stuck_in(self, queue: str) -> int:
        return sum(attempt.job.queue == queue for attempt in self.runner.stuck)

    def _count_stuck(self, attempt: Attempt) -> None:
        job, slots = attempt.job, self._options.queues[attempt.job.queue]
        stuck = self.stuck_in(job.queue)
        self._events.warning(
            "job.handler_stuck",
            job=job.id,
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            stuck=stuck,
            slots=slots,
        )
        self._loop.call_later(self._options.patience, self._judge_stuck, job.queue)

    def _judge_stuck(self, queue: str) -> None:
        """Only those count that had time to return: a process that was stopped for a while is told
        of many lost attempts at once, and most of their handlers are about to end."""
        for_long = self._loop.time() - self._options.patience
        stuck = [one for one, since in self.runner.stuck.items() if since <= for_long]
        of_queue = sum(one.job.queue == queue for one in stuck)
        threads = sum(one.handler.mode is Mode.THREAD for one in stuck)
        for lost, of in (
            (of_queue, self._options.queues[queue]),
            (threads, self._options.thread_count),
        ):
            if lost >= of * self._options.stuck_share and not self.leaving:
                self._on_exhausted(queue, lost, of)

    def _close_line(self, queue: str, until_written: JobId | None) -> None:
        """The store gives nothing of this queue from now on, or once this job's end is written:
        what was claimed before that goes back, and nothing is claimed meanwhile."""
        self._closed[queue] = until_written
        self.runner.hand_back_waiting(queue)

    def _is_open(self, queue: str) -> bool:
        """Asked before each claim. A claim sent after the end was written is refused by the
        store itself, so from then on the line needs no closing of ours."""
        if not self._closed:
            return True
        written = self._closed.get(queue)
        if written is not None and self.finisher.holds(written):
            return False
        self._closed.pop(queue, None)
        return True

    def _report(self, attempt: Attempt, transition: Transition) -> None:
        job, error = attempt.job, transition.error
        assert error is not None
        self._events.warning(
            "job.attempt_failed",
            job=job.id,
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            error=error.kind,
            message=error.message,
            next=transition.to,
        )


def _bounds(options: WorkerOptions) -> Mapping[Mode, int]:
    return {Mode.THREAD: options.thread_count, Mode.PROCESS: options.process_count}
