"""What a claim brings of the nodes among its jobs, as `lua/parts/node_facts.lua` answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.flow.inputs import decode_inputs, only_results
from holdfast.job.ids import JobId
from holdfast.job.record import MAY_BEGIN, NodeFacts
from holdfast.job.state import JobState
from holdfast.store.valkey import rows
from holdfast.store.valkey.flow_layout import NodeRow
from holdfast.store.valkey.flow_rows import to_node_row

Results = Mapping[JobId, str | None]


class NodesTold(NamedTuple):
    """Nodes, those of them whose flow is being cancelled, their rows, and the upstreams whose
    results they take, with their records. The rows of many nodes come by another command, and
    their upstreams not at all."""

    ids: Sequence[bytes] = ()
    closing: Sequence[bytes] = ()
    rows: Sequence[bytes | None] = ()
    upstreams: Sequence[bytes] = ()
    records: Sequence[bytes | None] = ()


def facts_in(told: NodesTold) -> dict[str, NodeFacts]:
    """The facts of each node. Nodes whose rows cannot be read are left out."""
    facts: dict[str, NodeFacts] = {}
    results = {
        JobId(job.decode()): _result(job.decode(), record)
        for job, record in zip(told.upstreams, told.records, strict=True)
    }
    for job_id, row in zip(told.ids, told.rows, strict=True):
        if (node := rows.readable(to_node_row, row)) is not None:
            facts[job_id.decode()] = _of(node, job_id in told.closing, results)
    return facts


def _result(job: str, record: bytes | None) -> str | None:
    """None of a node that has not succeeded."""
    outcome = rows.readable(rows.outcome, job, record)
    if outcome is None or outcome.state is not JobState.SUCCEEDED:
        return None
    return outcome.result


def _of(node: NodeRow, closing: bool, results: Results) -> NodeFacts:
    inputs = rows.known(node.inputs)
    if inputs is None:
        return NodeFacts(None, closing) if closing else MAY_BEGIN
    return NodeFacts(inputs, closing, _taken(inputs, results) if results else None)


def _taken(inputs: str, results: Results) -> dict[JobId, str | None] | None:
    """The results that a node takes one by one; None if the claim has not brought them all."""
    wanted = only_results(decode_inputs(inputs))
    if wanted is None or not results.keys() >= set(wanted):
        return None
    return {job: results[job] for job in wanted}
