"""Gathers the facts of a worker, which its heartbeats bring to the store.

The heartbeat's thread asks for them, so they are told while the event loop is blocked. Nothing here
waits or asks the store. A fact that cannot be had is left out, and an error costs the facts of one
beat, never the beat: a worker must not lose its lease because it cannot count its threads.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.background.counters import LoopCounters
from holdfast.background.service import Service
from holdfast.job.redaction import redact
from holdfast.job.serving import choice_of
from holdfast.job.text import clean, describe
from holdfast.store.contract.facts import NO_FACTS, OF_RECONCILERS, SlotFacts, WorkerFacts
from holdfast.worker.attempt import Attempt
from holdfast.worker.retirement import resident_memory

if TYPE_CHECKING:
    from holdfast.worker.pipeline import Pipeline

LONGEST_ERROR = 300
"""Characters of a reconciler's last error that are told."""
SHORTEST_SPAN = 0.05
"""Seconds: the use of the processor is not told for less."""
ALWAYS_TOLD = frozenset({"mended", "failed"})
"""Results of reconcilers that are told at 0 too: a rate needs a value to start from."""


class FactSheet:
    """The facts of one worker, whose parts may still be in the making when this is made. Its counts
    are since the last registration: those before it are kept by the store under the former name.
    """

    def __init__(self, pipeline: Pipeline, services: Sequence[Service]) -> None:
        self._pipeline = pipeline
        self._services = services
        self._began = time.monotonic()
        self._measured = (self._began, time.process_time())
        self._before: Mapping[str, int] = {}
        self._failed = False
        self._python = platform.python_version()
        self._platform = f"{platform.system()} {platform.release()} {platform.machine()}"

    def read(self) -> WorkerFacts:
        try:
            return self._read()
        except Exception as error:  # noqa: BLE001 - reported; the beat goes on without facts
            if not self._failed:
                self._failed = True
                self._pipeline.setup.events.error("worker.facts_failed", error=describe(error))
            return NO_FACTS

    def begin_anew(self, kept: WorkerFacts) -> None:
        """The worker has another name from now on. `kept`: the last facts that the store has heard
        under the former one."""
        before = self._before
        self._before = {name: before.get(name, 0) + n for name, n in kept.counts.items()}

    def _read(self) -> WorkerFacts:
        pipeline = self._pipeline
        loops = loop_counters(self._services)
        counted = _counted(pipeline) | _reconciled(loops)
        return WorkerFacts(
            slots=_slots(pipeline),
            up_for=round(time.monotonic() - self._began, 3),
            cpu=self._cpu(),
            memory=resident_memory(),
            threads=threading.active_count(),
            loop_lag=round(pipeline.identity.heartbeat.watchdog.late_by, 3),
            store_out_of_reach_for=round(pipeline.setup.outage.lasted, 3),
            unwritten=pipeline.finisher.unwritten,
            leaving=pipeline.runner.leaving,
            resting=pipeline.places.resting,
            labels=list(pipeline.setup.options.labels),
            only=list(pipeline.setup.options.only),
            signing_keys=list(pipeline.setup.options.signing_keys or ()),
            code=pipeline.setup.code,
            python=self._python,
            platform=self._platform,
            last_errors=_last_errors(loops),
            counts={name: n - self._before.get(name, 0) for name, n in counted.items()},
        )

    def _cpu(self) -> float | None:
        since, used = self._measured
        now, used_now = time.monotonic(), time.process_time()
        if now - since < SHORTEST_SPAN:
            return None
        self._measured = (now, used_now)
        return round((used_now - used) / (now - since), 4)


def loop_counters(services: Iterable[Service]) -> dict[str, LoopCounters]:
    """What the loops of these services have counted, by the name of the loop."""
    return {name: one for service in services for name, one in service.counters.items()}


def _counted(pipeline: Pipeline) -> dict[str, int]:
    """What this worker has counted since it began."""
    ends = pipeline.finisher.counters
    return {
        "claimed": pipeline.fetcher.claimed,
        "ended": ends.ended,
        "handed_back": ends.handed_back,
        "refused_writes": ends.refused,
        "discarded": pipeline.runner.discarded,
        "telemetry_dropped": pipeline.meter.dropped,
    }


def _reconciled(loops: Mapping[str, LoopCounters]) -> dict[str, int]:
    found = {}
    for name, loop in loops.items():
        for result, number in msgspec.structs.asdict(loop.items).items():
            if number or result in ALWAYS_TOLD:
                found[f"{OF_RECONCILERS}{name}.{result}"] = number
        found[f"{OF_RECONCILERS}{name}.errors"] = loop.errors
    return found


def _last_errors(loops: Mapping[str, LoopCounters]) -> dict[str, str]:
    """An error may name the store's URL, whose password must not be kept anywhere."""
    said = {name: loop.last_error for name, loop in loops.items()}
    return {name: clean(redact(text), LONGEST_ERROR) for name, text in said.items() if text}


def _slots(pipeline: Pipeline) -> dict[str, SlotFacts]:
    choices = pipeline.permits.choices
    running = pipeline.runner.running.copy().values()
    used = _by_choice((one for one in running if one.begun), choices)
    stuck = _by_choice(pipeline.runner.stuck.copy(), choices)
    shared = pipeline.permits.pool.free_parts(used + stuck)
    return {
        choice: SlotFacts(
            used=used[choice],
            free=shared.get(choice, max(0, slots - used[choice] - stuck[choice])),
            stuck=stuck[choice],
            share=pipeline.permits.share_of(choice),
        )
        for choice, slots in choices.items()
    }


def _by_choice(attempts: Iterable[Attempt], choices: Mapping[str, int]) -> Counter[str]:
    """Attempts by the queue or pattern whose slots they hold."""
    return Counter(choice_of(one.job.queue, choices) or one.job.queue for one in attempts)
