"""Two worker processes beside one: no-op jobs, and handlers that burn half a millisecond of CPU.

No-op jobs are bound by the store, so a second process can only cost; busy handlers are bound by
their own processor, so it should bring nearly as much again. Busy workers have the default of 50
slots: a thousand jobs claimed ahead would leave one process with the rest while the other idles.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.draining import SLOTS, Load, drained, numbered
from bench.measure import HOLDFAST, Contender, Workload
from bench.places import Place
from bench.scale import Scale
from bench.targets import ONE_WORKER

BUSY_SLOTS = 50


def two_workers(place: Place, scale: Scale) -> Sequence[Workload]:
    return [
        _workload("two workers", place, numbered(scale.jobs), SLOTS),
        _workload("two busy workers", place, numbered(scale.busy_jobs, "busy"), BUSY_SLOTS),
    ]


def _workload(name: str, place: Place, load: Load, slots: int) -> Workload:
    contenders = (
        Contender(ONE_WORKER, lambda: drained(place, load, slots=slots, together=True)),
        Contender(HOLDFAST, lambda: drained(place, load, workers=2, slots=slots, together=True)),
    )
    return Workload(name, place.name, contenders)
