"""The parts of one running worker, wired together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

from holdfast.ends import End, HandedBack, PutOff
from holdfast.events import Events
from holdfast.handlers.process import Processes
from holdfast.handlers.registry import Mode, Registry
from holdfast.handlers.threads import Threads
from holdfast.job import Claimed, JobId
from holdfast.outcome import Transition
from holdfast.store.contract import Store
from holdfast.store.records import Topic, Wakeup
from holdfast.worker.admission import admit
from holdfast.worker.attempt import Attempt
from holdfast.worker.execute import Executor
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outage import Outage
from holdfast.worker.places import Places
from holdfast.worker.progress import ProgressReporter
from holdfast.worker.runner import Runner
from holdfast.worker.settle import settle, undecidable
from holdfast.worker.slots import Slots
from holdfast.worker.strays import Strays

GLANCE = 0.005
"""Seconds between two looks whether ends that something waits for are written."""


class Crew:
    """fetcher → runner → finisher, and those who look after them."""

    def __init__(
        self, store: Store, registry: Registry, options: WorkerOptions, events: Events
    ) -> None:
        self._registry = registry
        self._events = events
        self._loop = asyncio.get_running_loop()
        self.leaving = False
        self.discarded = 0
        self.put_off_until = 0.0
        self.slots = Slots(options.queues, time.monotonic)
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
        )
        executor = Executor(self.threads, self.processes, max_result=options.max_payload)
        self.runner = Runner(options.queues, executor, self._ended)
        self.identity = Identity(
            store,
            registry,
            options,
            events,
            self.outage,
            self.runner,
            self.finisher.is_behind,
            self._renewed,
        )
        self.strays = Strays(
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
        self.fetcher = Fetcher(
            store,
            self.slots,
            Places(registry, _bounds(options), self.runner.running),
            events,
            self.outage,
            poll=options.poll,
            batch=options.batch,
            worker_id=lambda: self.identity.id,
            deliver=self._deliver,
            may_claim=self._may_claim,
            after_doubt=self.strays.suspect,
        )

    def on_wakeup(self, wakeup: Wakeup) -> None:
        if wakeup.topic is Topic.READY:
            self.fetcher.wake(wakeup.name)
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
            except Exception as problem:  # noqa: BLE001 - a job that cannot be read ends, visibly
                self.slots.give(job.queue)
                self.finisher.add(undecidable(job, problem))
        if self.leaving:
            self._return(attempts, HandedBack())
        elif attempts:
            self._admit(attempts, now)

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
        """The slot is free when the handler ends, not when its end is written."""
        queue = attempt.job.queue
        if attempt.begun:
            self.slots.ended(queue)
        else:
            self.slots.give(queue)
        self.fetcher.room_in(queue)
        if transition is None:
            self.discarded += 1
            return
        self.finisher.add(transition)
        if transition.error is not None:
            self._report(attempt, transition)

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
