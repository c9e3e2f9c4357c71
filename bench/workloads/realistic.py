"""Realistic: what jobs carry outside of benchmarks, beside a drain of no-op jobs in the same run.

4 KiB of arguments, a unique key made of them, tags, a result that is kept, 20 queues, three
priorities; one job in twenty fails once and is retried after 10 ms. The floors tell what the
document alone costs: theirs carry it, and nothing else of this.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import floors
from bench.draining import Load, drained, numbered
from bench.measure import FLOOR, HOLDFAST, Contender, Workload
from bench.places import Place
from bench.program import FAILS_ONCE, LINES, Program
from bench.scale import Scale
from bench.targets import PLAIN_DRAIN
from holdfast.job.unique import UniqueBy

DOCUMENT = "All work and no play. " * 186  # 4,092 characters
PRIORITIES = (-10, 0, 10)
ONCE = UniqueBy(args=("number",))


def realistic(place: Place, scale: Scale) -> Sequence[Workload]:
    load = documents(scale.jobs)
    contenders = (
        Contender("floor, no-op", lambda: floors.drain(place, scale.jobs)),
        Contender(FLOOR, lambda: floors.drain(place, scale.jobs, DOCUMENT)),
        Contender(PLAIN_DRAIN, lambda: drained(place, numbered(scale.jobs))),
        Contender(HOLDFAST, lambda: drained(place, load)),
    )
    return [Workload("realistic", place.name, contenders)]


def documents(jobs: int) -> Load:
    failing = len(range(0, jobs, FAILS_ONCE))
    return Load("realistic", jobs, jobs + failing, lambda program: _fill(program, jobs))


async def _fill(program: Program, jobs: int) -> None:
    """Dealt out like cards, so that each queue and priority has its share of failing jobs."""
    kinds = [(line, priority) for priority in PRIORITIES for line in LINES]
    for nth, (line, priority) in enumerate(kinds):
        task = program.task.using(
            queue=line, priority=priority, unique=ONCE, tags=("tenant:42", f"part:{nth}")
        )
        await task.enqueue_many((number, DOCUMENT) for number in range(nth, jobs, len(kinds)))
