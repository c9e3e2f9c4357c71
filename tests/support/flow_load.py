"""A hundred nodes a flow, for workers that are killed, and what the diary says of them afterwards.

A flow fans out to twenty nodes, joins them, fans out again, joins again, and races three nodes of
which the first wins. Some flows are told to fail, or to skip a node: `FLAWS` says where. What each
node and each flow must come to follows from the formulas alone (`FlowModel`), but for the nodes
that a race may cancel.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.background.options import ReconcileOptions
from holdfast.events import Events
from holdfast.flow.model import BITS, FLOW_LIVE, NewFlow
from holdfast.job.policy import Policy
from holdfast.job.state import ENDED, JobState
from holdfast.job.what import What
from holdfast.reconcile.flow_drift import FlowDriftReconciler
from holdfast.store.contract.store import Store
from tests.support.diary import Entry
from tests.support.flows import Waits, Wanted, any_of, ended, every, failed, new_flow
from tests.support.formula import FlowModel
from tests.support.program import SOON, visit

S = JobState
FAN = 20
STARTED_AT_ONCE = 50


def hundred_nodes() -> dict[str, Waits]:
    def names(letter: str, count: int = FAN) -> list[str]:
        return [f"{letter}{number:02}" for number in range(count)]

    first, second, third, fourth = (names(letter) for letter in "abcd")
    chain = names("e", 10)
    graph: dict[str, Waits] = {"root": []}
    graph |= {name: ["root"] for name in first}
    graph |= {name: [before] for before, name in zip(first, second, strict=True)}
    graph["join1"] = every(*second)
    graph |= {name: ["join1"] for name in third}
    graph |= {name: [before] for before, name in zip(third, fourth, strict=True)}
    graph["join2"] = every(*fourth)
    graph |= {name: ["join1"] for name in RACERS}
    graph["winner"] = any_of(*RACERS, cancel=True)
    graph["rescue"] = failed(*second)
    graph["always"] = ended("join2", "winner")
    graph |= {name: [before] for before, name in zip(["join2", *chain], chain, strict=False)}
    graph["last"] = [chain[-1], "winner"]
    return graph


RACERS = ("race0", "race1", "race2")
FLAWS: Sequence[Mapping[str, str]] = (
    {},
    {"b03": "fail"},
    {},
    {"race1": "fail"},
    {},
    {"race0": "fail", "race1": "fail", "race2": "fail"},
    {},
    {"d07": "skip"},
    {},
    {"e05": "fail"},
)
"""How some nodes of a flow end, by the flow's number: the others return."""


@dataclass(frozen=True)
class Told:
    """A flow that was started, and how its nodes were told to end."""

    flow: NewFlow
    flaws: Mapping[str, str]

    @classmethod
    def number(cls, number: int) -> Told:
        flaws = FLAWS[number % len(FLAWS)]
        graph = hundred_nodes()
        options: dict[str, dict[str, object]] = {
            name: {
                "task": visit.name,
                "policy": Policy(retry=SOON, max_crashes=1_000, keep_result=False),
                "args": f'{{"how":"{flaws.get(name, "return")}"}}',
            }
            for name in graph
        }
        return cls(new_flow(graph, name="long", node_options=options), flaws)

    def expected(self) -> FlowModel:
        """Run it by its formulas. What a race cancels is left out by who compares."""
        model = FlowModel(hundred_nodes())
        while ready := [name for name, state in model.states.items() if state is S.READY]:
            for name in ready:
                how = self.flaws.get(name, "return")
                model.end(name, {"fail": S.FAILED, "skip": S.SKIPPED}.get(how, S.SUCCEEDED))
        return model


async def start_flows(store: Store, count: int) -> list[Told]:
    told = [Told.number(number) for number in range(count)]
    for first in range(0, count, STARTED_AT_ONCE):
        some = [one.flow for one in told[first : first + STARTED_AT_ONCE]]
        started = await store.flows.start(some)
        assert {one.how for one in started} == {"created"}
    return told


@asynccontextmanager
async def watched_for_drift(store: Store) -> AsyncIterator[None]:
    """Sweep for drift all the time: flows that move between two looks must not look wrong."""
    reconciler = FlowDriftReconciler(store, Events(), ReconcileOptions())

    async def sweep() -> None:
        while True:
            await reconciler.run_once()
            await asyncio.sleep(0.1)

    sweeping = asyncio.create_task(sweep())
    try:
        yield
        assert not sweeping.done(), sweeping.exception()
    finally:
        sweeping.cancel()
    found = reconciler.counters.items.found
    assert found == 0, f"the drift reconciler found {found}"


# What must hold afterwards --------------------------------------------------------------------


async def every_flow_came_to_its_end(
    store: Store, told: Iterable[Told], entries: Sequence[Entry]
) -> None:
    counts = await store.flows.count()
    assert not FLOW_LIVE & counts.keys(), f"F14: flows are stuck: {counts}"
    log = Log.of(entries)
    released = 0
    for one in told:
        released += await _came_to_its_end(store, one, log)
    totals = await store.telemetry.totals()
    counted = sum(total.jobs for total in totals if total.what is What.RELEASED)
    assert counted == released, "F3: a node leaves blocked once"
    assert await store.flows.errands(10) == []


async def _came_to_its_end(store: Store, told: Told, log: Log) -> int:
    """Compare a flow with its formulas; answers how many of its nodes were released."""
    model = told.expected()
    nodes = {node.name: node for node in await store.flows.nodes(told.flow.id, 1_000)}
    assert nodes.keys() == model.states.keys(), "F12: a start is whole"
    for name, node in nodes.items():
        wanted = {model.states[name]}
        if name in RACERS and model.states["winner"] is S.SUCCEEDED:
            wanted.add(S.CANCELLED)  # it came second
        assert node.state in wanted, f"{told.flaws}: {name} is {node.state}, not {wanted}"
    [info] = await store.flows.get([told.flow.id])
    assert (info.state, info.open) == (model.flow, 0), "F5: as its sinks say"
    ids = {node.name: node.job.id for node in told.flow.nodes}
    states = {name: node.state for name, node in nodes.items()}
    gated = [name for name in model.graph if model.gates(name)]
    for name in ids:
        log.ended_once(ids[name])
    for name in gated:
        log.began_when_it_was_true(model.gates(name), ids[name], ids, states)
    # A racer is released before it can be cancelled.
    return sum(bool(log.starts[ids[name]]) or states[name] is S.CANCELLED for name in gated)


@dataclass(frozen=True)
class Log:
    """What the processes noted, by job."""

    starts: Mapping[str, list[Entry]]
    ends: Counter[str]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Log:
        starts: dict[str, list[Entry]] = defaultdict(list)
        ends: Counter[str] = Counter()
        for entry in entries:
            if entry.what == "started":
                starts[entry.job].append(entry)
            elif entry.what in ("finish", "reclaim") and entry.accepted and entry.to in ENDED:
                ends[entry.job] += 1
        return cls(starts, ends)

    def ended_once(self, job: str) -> None:
        """A worker that was killed may have ended a node and not noted it."""
        assert self.ends[job] <= 1, f"{job} has {self.ends[job]} accepted ends"

    def began_when_it_was_true(
        self,
        gates: Iterable[Wanted],
        job: str,
        ids: Mapping[str, str],
        states: Mapping[str, JobState],
    ) -> None:
        """Before the job began at all, enough of its upstreams had begun the attempts that ended
        them: those with the highest fences."""
        if not self.starts[job]:
            return
        first = min(entry.at for entry in self.starts[job])
        for gate in gates:
            won = [name for name in gate.names if gate.wants & BITS[states[name]]]
            last = [max(self.starts[ids[name]], key=by_fence, default=None) for name in won]
            before = sum(entry is None or entry.at < first for entry in last)
            assert before >= gate.need, f"F3: {job} began before {gate.names} had ended"


def by_fence(entry: Entry) -> int:
    return entry.fence
