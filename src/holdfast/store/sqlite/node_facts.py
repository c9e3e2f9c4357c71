"""What a claim reads of the nodes among its jobs.

Their rows were read a moment ago, by the end that released them, and the claim has the connection:
to ask for them later would mean a change of threads, which takes longer than reading them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.flow.inputs import decode_inputs, only_results
from holdfast.flow.model import FlowState
from holdfast.job.ids import JobId
from holdfast.job.record import MAY_BEGIN, Claimed, NodeFacts
from holdfast.job.state import JobState
from holdfast.job.ties import NODE
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction

_replace = msgspec.structs.replace


def with_facts(tx: Transaction, claimed: list[Claimed]) -> list[Claimed]:
    """The same jobs; nodes of flows with what their worker needs of them."""
    nodes = [job.id for job in claimed if job.ties & NODE]
    if not nodes:
        return claimed
    facts = facts_of(tx, tx.rows(steps("flows/inputs")["facts"], (to_json(nodes),)))
    return [_replace(job, node=facts[job.id]) if job.id in facts else job for job in claimed]


def facts_of(tx: Transaction, rows: Sequence[Row]) -> dict[JobId, NodeFacts]:
    """By the ids of nodes, from rows of an id, inputs and the state of the flow."""
    wanted = {job: only_results(decode_inputs(inputs)) for job, inputs, _ in rows if inputs}
    results = _results(tx, (job for some in wanted.values() for job in some or ()))
    return {
        job: NodeFacts(inputs, state == FlowState.CANCELLING, _of(wanted.get(job), results))
        if inputs or state == FlowState.CANCELLING
        else MAY_BEGIN
        for job, inputs, state in rows
    }


def _of(
    wanted: Sequence[JobId] | None, results: Mapping[JobId, str | None]
) -> dict[JobId, str | None] | None:
    return None if wanted is None else {job: results.get(job) for job in wanted}


def _results(tx: Transaction, jobs: Iterable[JobId]) -> dict[JobId, str | None]:
    ids = sorted(set(jobs))
    if not ids:
        return {}
    rows = tx.rows(script("jobs/outcomes"), (to_json(ids),))
    return {job: result for job, state, result, *_ in rows if state == JobState.SUCCEEDED}
