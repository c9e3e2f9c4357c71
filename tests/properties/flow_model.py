"""Flows beside the model of jobs: their nodes are jobs of the model, moved by their formulas."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.flow.model import FLOW_LIVE, FlowId
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED, JobState
from holdfast.job.what import What
from tests.properties.model import Model, ModelJob
from tests.support.formula import FlowModel

S = JobState
KEPT = 50.5
"""Seconds that an ended flow is kept."""


@dataclass
class ModelFlow:
    """One flow: what its formulas say, and which jobs its nodes are."""

    id: FlowId
    formulas: FlowModel
    ids: dict[str, JobId]
    key: str | None = None
    kept_until: float = math.inf
    parent: JobId | None = None
    """The job whose steps it undoes. It is kept as long as that job."""
    reopened: bool = False

    @property
    def is_live(self) -> bool:
        return self.formulas.flow in FLOW_LIVE

    @property
    def grown(self) -> set[str]:
        """The nodes that were added while it ran."""
        return {name for name in self.ids if name.startswith("x")}

    def name_of(self, job: JobId) -> str | None:
        return next((name for name, one in self.ids.items() if one == job), None)


@dataclass
class FlowsModel:
    """All flows, and how often a node of theirs was released."""

    jobs: Model
    flows: dict[FlowId, ModelFlow] = field(default_factory=dict)
    released: int = 0

    def holder(self, key: str | None) -> ModelFlow | None:
        live = [flow for flow in self.flows.values() if flow.is_live and flow.key == key]
        return live[0] if live and key is not None else None

    def flow_of(self, job: JobId) -> ModelFlow | None:
        found = [flow for flow in self.flows.values() if job in flow.ids.values()]
        return found[0] if found else None

    def start(self, flow: ModelFlow, nodes: Mapping[str, ModelJob]) -> None:
        self.flows[flow.id] = flow
        self.add(flow, nodes)

    def add(self, flow: ModelFlow, nodes: Mapping[str, ModelJob]) -> None:
        for name, job in nodes.items():
            flow.ids[name] = job.id
            self.jobs.insert(job, "keep")

    def settle(self, flows: Iterable[ModelFlow] | None = None) -> None:
        """Move the nodes of these flows to where their formulas say; of all flows, if none is
        given."""
        for flow in self.flows.values() if flows is None else flows:
            self._settle(flow)

    def _settle(self, flow: ModelFlow) -> None:
        was_live = flow.is_live
        for name, node in flow.ids.items():
            state = self.jobs.jobs[node].state
            flow.formulas.states[name] = state if state in {*ENDED, S.BLOCKED} else S.READY
        before, released = dict(flow.formulas.states), flow.formulas.released
        flow.formulas.settle()
        self.released += flow.formulas.released - released
        for name, state in flow.formulas.states.items():
            job = self.jobs.jobs[flow.ids[name]]
            if before[name] is S.BLOCKED and state is S.READY:
                self.jobs.line_up(job)
            elif before[name] is S.BLOCKED and state is S.SKIPPED:
                self.jobs.end(job, S.SKIPPED)
        if was_live and not flow.is_live:
            flow.kept_until = self.jobs.now + KEPT if flow.parent is None else math.inf

    def reopen(self, flow: ModelFlow, again: set[str], wait: set[str]) -> None:
        for name in sorted(again | wait):
            job = self.jobs.jobs[flow.ids[name]]
            job.tell(What.REQUEUED)
            job.begin_anew()
            job.state = S.BLOCKED if name in wait else S.READY
            if name in again:
                self.jobs.line_up(job)
        flow.formulas.reopen(again, wait)
        flow.reopened = True
        flow.kept_until = math.inf
        self.settle([flow])

    def _is_over(self, flow: ModelFlow) -> bool:
        orphan = flow.parent is not None and flow.parent not in self.jobs.jobs
        return flow.kept_until <= self.jobs.now or (orphan and not flow.is_live)

    def cancelled(self, job: ModelJob) -> None:
        job.tell(What.CANCELLED)
        self.jobs.end(job, S.CANCELLED)

    def prune(self, owing: Collection[FlowId] = ()) -> list[ModelFlow]:
        """Remove what nobody needs any more. Those that owe their parent a word are needed."""
        over = [flow for flow in self.flows.values() if self._is_over(flow)]
        over = [flow for flow in over if flow.id not in owing]
        for flow in over:
            del self.flows[flow.id]
            for job in flow.ids.values():
                del self.jobs.jobs[job]
        return over
