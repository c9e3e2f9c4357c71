"""What a claim reads of the nodes among its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from holdfast.flow.inputs import decode_inputs, only_results
from holdfast.job.ids import JobId
from holdfast.job.record import NodeFacts
from holdfast.job.ties import NODE
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record

_ties = itemgetter("ties")


async def facts_of(
    connections: Connections, found: Sequence[Record]
) -> dict[str, NodeFacts] | None:
    """What a worker needs of the nodes among these jobs, without those that may simply begin;
    None if there are no nodes."""
    if not any(map(_ties, found)):
        return None
    nodes = [row["job_id"] for row in found if row["ties"] & NODE]
    if not nodes:
        return None
    return _node_facts(await connections.fetch("flows/facts", ",".join(nodes)))


def _node_facts(told: Sequence[Record]) -> dict[str, NodeFacts]:
    """A node that takes the result of one other node, and no more, gets it with its facts."""
    results: dict[str, str] = {row[0]: row[4] for row in told if row[2] is None}
    facts = {}
    for job, inputs, closing, upstream, _ in told:
        if closing is None:
            continue
        alone = upstream is not None and only_results(decode_inputs(inputs)) == [upstream]
        given = {JobId(upstream): results.get(upstream)} if alone else None
        facts[job] = NodeFacts(inputs, closing, given)
    return facts
