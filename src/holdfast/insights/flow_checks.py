"""The doctor's checks of flows: jobs that still wait for a flow that is over."""

from __future__ import annotations

from holdfast.flow.parents import stranded
from holdfast.insights.actions import START_WORKER
from holdfast.insights.diagnosis import PROBLEM, Diagnosis
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store

CHECKED_JOBS = 500
SUSPENDED = JobFilter(states=frozenset({JobState.SUSPENDED}))


async def check_parents(store: Store) -> list[Diagnosis]:
    page = await store.jobs.page(SUSPENDED, CHECKED_JOBS)
    found = await stranded(store, page.jobs)
    if not found:
        return []
    saw = f"{len(found)} jobs wait for a flow that is over, {found[0]} is one"
    advice = "start any worker of this store: it ends them within a minute; report this as a bug"
    return [Diagnosis("flows", PROBLEM, saw, advice, (START_WORKER,))]
