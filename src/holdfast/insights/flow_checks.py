"""The doctor's checks of flows: it finds, and can mend, what the reconciler `flow_drift` does. It
finds nodes that wait for each other, and jobs that wait for a flow that is over.

The counts of a flow are right by construction, so every finding is a defect. By default the newest
live flows are read, up to a number of nodes. A deep examination reads all flows, ended ones too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import msgspec

from holdfast.flow.model import FLOW_LIVE, FlowInfo, FlowState
from holdfast.flow.parents import stranded
from holdfast.flow.whole_flow import Drift, find_drift
from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.job.state import JobState
from holdfast.job.text import counted
from holdfast.store.contract.audit import Act, ActOutcome, new_act_id
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.store import Store

CHECKED_NODES = 2_000
"""The most nodes that are read, unless the examination is deep."""
CHECKED_JOBS = 500
"""The most suspended jobs that are read."""
SUSPENDED = JobFilter(states=frozenset({JobState.SUSPENDED}))
FLOWS_AT_ONCE = 100
WRONGS_SHOWN = 3
NODES_NAMED = 10
FLOWS_NAMED = 20
"""So many flows are named; the others are counted."""

Tell = Callable[[str], None]


async def check_flows(
    store: Store, *, deep: bool, fix: bool, by: str | None, tell: Tell
) -> list[Diagnosis]:
    """Whether the counts, gates and edges of flows are what their graphs say."""
    found: list[Diagnosis] = []
    looked = left_out = ill = 0
    total = sum((await store.flows.count()).values()) if deep else 0
    nodes = 0
    async for flow in _flows(store, deep=deep):
        nodes += flow.total
        if not deep and nodes > CHECKED_NODES and looked:
            left_out += 1
            continue
        looked += 1
        if deep and looked % FLOWS_AT_ONCE == 0:
            tell(f"{looked:,} of {total:,} flows read")
        if (drift := await find_drift(store, flow)) is not None:
            ill += 1
            if ill <= FLOWS_NAMED or fix:
                found += await _diagnoses(store, drift, fix=fix, by=by)
    if ill > FLOWS_NAMED and not fix:
        found.append(_problem(f"{ill - FLOWS_NAMED:,} more flows differ from their graphs"))
    return found or [_well(looked, left_out, deep=deep)]


async def _flows(store: Store, *, deep: bool) -> AsyncIterator[FlowInfo]:
    which = FlowFilter(states=frozenset(FlowState) if deep else FLOW_LIVE)
    cursor: str | None = None
    while True:
        page = await store.flows.page(which, FLOWS_AT_ONCE, cursor)
        for flow in page.flows:
            yield flow
        if (cursor := page.next_cursor) is None or not deep:
            return


def _well(looked: int, left_out: int, *, deep: bool) -> Diagnosis:
    flow = "flow" if deep else "live flow"
    if not looked:
        return Diagnosis("flows", OK, f"no {flow}s")
    right = counted(looked, f"{flow} examined counts right", f"{flow}s examined all count right")
    beside = f"; {left_out:,} more were not read: a deep examination reads all" if left_out else ""
    return Diagnosis("flows", OK, f"{right}{beside}")


def _problem(saw: str, flow: str = "") -> Diagnosis:
    advice = "report this as a bug; live workers mend running flows within a minute, or now"
    return Diagnosis("flows", PROBLEM, saw, advice, (Action(Noun.FLOWS, Verb.CORRECT, flow),))


async def _diagnoses(store: Store, drift: Drift, *, fix: bool, by: str | None) -> list[Diagnosis]:
    found = [await _diagnosis(store, drift, fix=fix, by=by)] if drift.wrong else []
    return [*found, _circle(drift.flow, drift.circle)] if drift.circle else found


def _circle(flow: FlowInfo, circle: list[str]) -> Diagnosis:
    waits = " waits for ".join(map(repr, circle[:NODES_NAMED]))
    more = f" and so on, {len(circle) - 1:,} nodes" if len(circle) > NODES_NAMED else ""
    saw = f"flow {flow.id} ({flow.name}): {waits}{more}, so none of them can ever begin"
    advice = "cancel one of these nodes: the others are skipped then; or cancel the flow"
    return Diagnosis("flows", PROBLEM, saw, advice, (Action(Noun.FLOWS, Verb.CANCEL, flow.id),))


async def _diagnosis(store: Store, drift: Drift, *, fix: bool, by: str | None) -> Diagnosis:
    flow, wrong = drift.flow, drift.wrong
    shown = "; ".join(wrong[:WRONGS_SHOWN])
    more = f" and {len(wrong) - WRONGS_SHOWN:,} more" if len(wrong) > WRONGS_SHOWN else ""
    saw = f"flow {flow.id} ({flow.name}): {shown}{more}"
    if not fix:
        return _problem(saw, flow.id)
    if await _mend(store, drift, by):
        return Diagnosis("flows", OK, f"{saw}; it is mended")
    return Diagnosis("flows", WARNING, f"{saw}; it changed meanwhile", "examine it again")


async def _mend(store: Store, drift: Drift, by: str | None) -> bool:
    """The audit keeps what was wrong."""
    if by is None:
        return bool(await store.flows.mend([drift.mending]))
    wrong = msgspec.json.encode({"wrong": drift.wrong[:WRONGS_SHOWN]}).decode()
    verb = f"{Noun.FLOWS}.{Verb.CORRECT}"
    act = Act(id=new_act_id(), by=by, verb=verb, target=drift.flow.id, arguments=wrong)
    await store.audit.begin(act)
    mended = await store.flows.mend([drift.mending])
    outcome = ActOutcome.DONE if mended else ActOutcome.REFUSED
    await store.audit.close(act.id, outcome, len(mended))
    return bool(mended)


async def check_parents(store: Store) -> list[Diagnosis]:
    page = await store.jobs.page(SUSPENDED, CHECKED_JOBS)
    found = await stranded(store, page.jobs)
    if not found:
        return []
    waiting = counted(len(found), "job waits", "jobs wait")
    saw = f"{waiting} for a flow that is over, {found[0]} is one"
    advice = "start any worker of this store: it ends them within a minute; report this as a bug"
    return [Diagnosis("flows", PROBLEM, saw, advice, (START_WORKER,))]
