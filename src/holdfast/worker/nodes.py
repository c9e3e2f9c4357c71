"""What a node of a flow needs before it begins: the results that its arguments take.

Either the claim has brought it, or one question to the store serves all nodes of the claim. Jobs of
no flow pass untouched. A node of a flow that is being cancelled does not begin. If the store does
not answer, the nodes are handed back: they lose no attempt, and are claimed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.errors import HoldfastError
from holdfast.events import Events
from holdfast.flow.errands import CLOSED
from holdfast.flow.inputs import (
    NULL_TEXT,
    Given,
    Input,
    Winner,
    decode_inputs,
    elements,
    needed,
    splice,
)
from holdfast.flow.model import FlowState
from holdfast.handlers.exceptions import refused
from holdfast.job.ends import Cancelled, End, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed, NodeFacts
from holdfast.job.state import JobState
from holdfast.job.text import describe
from holdfast.job.ties import NODE
from holdfast.store.contract.store import Store
from holdfast.worker.finisher import Finisher
from holdfast.worker.permits import Permits
from holdfast.worker.setup import WorkerSetup


class Nodes:
    """Fills in the arguments of claimed nodes."""

    def __init__(self, setup: WorkerSetup, permits: Permits, finisher: Finisher) -> None:
        self._store: Store = setup.store
        self._events: Events = setup.events
        self._permits = permits
        self._finisher = finisher

    async def ready_to_begin(self, claimed: Sequence[Claimed]) -> list[Claimed]:
        """The same jobs, nodes with all their arguments. Nodes that may not begin are left out, and
        have been ended."""
        nodes = [job for job in claimed if job.ties & NODE]
        if not nodes:
            return list(claimed)
        try:
            facts = await self._facts(nodes)
            wanted = {job: decode_inputs(one.inputs) for job, one in facts.items()}
            given = await self._given(wanted, facts)
        except Exception as error:  # noqa: BLE001 - an outage: the nodes are claimed again later
            self._events.warning("worker.nodes_handed_back", jobs=len(nodes), error=describe(error))
            self._end_all(nodes, HandedBack(begun=False))
            return [job for job in claimed if not job.ties & NODE]
        filled = (self._filled(job, facts.get(job.id), wanted, given) for job in claimed)
        return [job for job in filled if job is not None]

    async def _facts(self, nodes: Sequence[Claimed]) -> dict[JobId, NodeFacts]:
        """What the claim has brought of these nodes, or the store tells."""
        facts = {job.id: job.node for job in nodes if job.node is not None}
        asked = [job.id for job in nodes if job.node is None]
        told = await self._store.flows.inputs(asked) if asked else {}
        for job, one in told.items():
            facts[job] = NodeFacts(one.inputs, one.flow_state is FlowState.CANCELLING)
        return facts

    async def _given(
        self, wanted: Mapping[JobId, Sequence[Input]], facts: Mapping[JobId, NodeFacts]
    ) -> Given:
        """What the upstreams of these nodes have come to."""
        given = Given()
        inputs: list[Input] = []
        for job, some in wanted.items():
            if (results := facts[job].results) is None:
                inputs += some
            else:
                known = ((upstream, one) for upstream, one in results.items() if one is not None)
                given.results.update(known)
        if inputs:
            await self._read(needed(inputs), inputs, given)
            given.elements = elements(inputs, given.results)
            for some_elements in given.elements.values():
                await self._read(some_elements, (), given)
        return given

    async def _read(self, jobs: Iterable[JobId], inputs: Sequence[Input], given: Given) -> None:
        """Only where the first success counts does it matter when a node has ended."""
        races = {job for one in inputs if isinstance(one.source, Winner) for job in one.source.jobs}
        outcomes = await self._store.jobs.outcomes([job for job in jobs if job not in races])
        succeeded = JobState.SUCCEEDED
        for one in outcomes:
            if one.state is succeeded and one.result is not None:
                given.results[one.id] = one.result
        for job in await self._store.jobs.get(sorted(races)) if races else ():
            if job.state is succeeded and job.finished_at is not None:
                given.results[job.id] = job.result_json or NULL_TEXT
                given.ended_at[job.id] = job.finished_at

    def _filled(
        self,
        job: Claimed,
        facts: NodeFacts | None,
        wanted: Mapping[JobId, Sequence[Input]],
        given: Given,
    ) -> Claimed | None:
        if facts is None:
            return job
        if facts.closing:
            self._end(job, Cancelled(CLOSED))
            return None
        if not wanted[job.id]:
            return job
        try:
            args = splice(job.args, wanted[job.id], given)
        except Exception as error:  # noqa: BLE001 - a result that does not fit ends its reader only
            problem = HoldfastError(f"the results of other nodes do not fit: {describe(error)}")
            self._end(job, refused(problem))
            return None
        return msgspec.structs.replace(job, args=args)

    def _end(self, job: Claimed, end: End) -> None:
        self._permits.give(job.queue)
        self._finisher.add(None, decide(job, end))

    def _end_all(self, jobs: Iterable[Claimed], end: End) -> None:
        for job in jobs:
            self._end(job, end)
