"""Elements of a map are added to their flow by one statement: the flow is locked while the server
works on them, and for no round trip. A map locks it for each of its bites, and the ends of the
elements of the bite before wait for the same lock."""

from __future__ import annotations

import asyncpg

from holdfast.errors import RowRefused
from holdfast.flow.elements import element_ids
from holdfast.flow.model import Grown, Growth, NewElements
from holdfast.job.policy import readable_part
from holdfast.store.postgres.body import list_as_text, shared_values
from holdfast.store.postgres.connection import Connections

KNOWN = "known"


async def add_elements(connections: Connections, growth: Growth, new: NewElements) -> Grown | None:
    """None if the flow has such nodes already, or if one of those behind them waits no more: then
    each of them has to be looked at."""
    like = new.like
    try:
        [(answer, _)] = await connections.timed(
            "flows/add_elements",
            connections.options.channel,
            growth.flow,
            growth.by,
            growth.fence,
            growth.graph,
            ",".join(element_ids(growth.by, new.indexes, new.anew)),
            list_as_text(new.args),
            new.map,
            new.first,
            like.task,
            like.queue,
            like.priority,
            readable_part(like.policy).timeout,
            like.ties,
            new.is_sink,
            list(new.behind),
            list(new.behind.values()),
            *shared_values(like),
        )
    except RowRefused as error:
        if isinstance(error.__cause__, asyncpg.UniqueViolationError):
            return None
        raise
    return None if answer == KNOWN else Grown(answer)
