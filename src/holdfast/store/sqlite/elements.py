"""Elements of a map are written by a few statements for all of them: a row at a time would hand the
interpreter to another thread and back for each."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.flow.model import Growth, Losers, NewElements, first_gate
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.inserting import enter_alike, kind_of, write_alike
from holdfast.store.sqlite.places import take_numbers
from holdfast.store.sqlite.rows import to_json, to_json_object
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import NOWHERE, Transaction


def add_elements(
    tx: Transaction, growth: Growth, new: NewElements, ids: Sequence[JobId], epoch: int
) -> None:
    """Write elements that the flow does not have, and the gates of those that wait for them. No
    gate is decided by that: its upstreams are new."""
    like, gate, count = new.like, first_gate(epoch), len(ids)
    edges: dict[str, int] = {job: 32 * gate + wants for job, wants in new.behind.items()}
    write_alike(tx, kind_of(like), dict(zip(ids, new.args, strict=True)))
    arrival = take_numbers(tx, count)
    seqs = dict(zip(ids, range(arrival, arrival + count), strict=True))
    line = (like.queue, like.priority, like.task, like.ties)
    enter_alike(tx, JobState.READY, line, seqs)
    tx.run(
        script("flows/elements"),
        {
            "flow": growth.flow,
            "map": new.map,
            "first": new.first,
            "is_sink": new.is_sink,
            "edges": to_json_object(edges) if edges else None,
            "ids": to_json(ids),
        },
    )
    let_run = Losers.LET_RUN.value
    gates = [(job, gate, growth.flow, count, count, let_run, 0, 0, False) for job in new.behind]
    tx.each(steps("flows/start")["gate"], gates)
    tx.count(like.queue, like.task, NOWHERE, JobState.READY, What.ENQUEUED, count)
    tx.wake(Topic.READY, like.queue, count)
