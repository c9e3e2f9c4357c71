"""Elements of a map are written by a few statements for all of them: a row at a time would hand the
interpreter to another thread and back for each."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.flow.model import SUCCESS, Growth, NewElements, first_gate
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.body import SHARED, body_reader
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.places import take_numbers
from holdfast.store.sqlite.rows import to_json, to_json_object
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import NOWHERE, Transaction

_shared_values = body_reader(SHARED, flat=to_json, empty=None)


def add_elements(
    tx: Transaction, growth: Growth, new: NewElements, ids: Sequence[JobId], epoch: int
) -> None:
    """Write elements that the flow does not have, and the gates of those that wait for them. No
    gate is decided by that: its upstreams are new."""
    like, gate, count = new.like, first_gate(epoch), len(ids)
    edges: dict[str, int] = dict.fromkeys(new.behind, 32 * gate + SUCCESS)
    shared = {"task": like.task, "now": tx.now}
    sql, named = steps("flows/elements"), to_json(ids)
    bodies = dict(zip(SHARED, _shared_values(like), strict=True))
    args = to_json_object(dict(zip(ids, new.args, strict=True)))
    tx.run(sql["bodies"], {**shared, **bodies, "args": args})
    line = {"queue": like.queue, "priority": like.priority, "ties": like.ties}
    tx.run(sql["line up"], {**shared, **line, "arrival": take_numbers(tx, count), "ids": named})
    tx.run(
        sql["nodes"],
        {
            "flow": growth.flow,
            "map": new.map,
            "first": new.first,
            "is_sink": new.is_sink,
            "edges": to_json_object(edges) if edges else None,
            "ids": named,
        },
    )
    gates = [
        (job, gate, growth.flow, count, count, losers, 0, 0, False)
        for job, losers in new.behind.items()
    ]
    tx.each(steps("flows/start")["gate"], gates)
    tx.count(like.queue, like.task, NOWHERE, JobState.READY, What.ENQUEUED, count)
    tx.wake(Topic.READY, like.queue, count)
