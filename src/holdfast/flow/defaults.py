"""What a flow says of all its nodes, also of those that are added while it runs. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from holdfast.job.record import NewJob


class NodeDefaults(msgspec.Struct, frozen=True, omit_defaults=True):
    """The priority, the tags and the deadline of the nodes of a flow. `deadline_in` are seconds
    from its start, by the store's clock."""

    priority: int | None = None
    tags: tuple[str, ...] = ()
    deadline_at: datetime | None = None
    deadline_in: float | None = None

    @property
    def has_deadline(self) -> bool:
        return self.deadline_at is not None or self.deadline_in is not None

    def since(self, start: datetime) -> NodeDefaults:
        """The same for nodes that are added later: the deadline is the instant that it was at the
        start."""
        if self.deadline_in is None:
            return self
        at = start + timedelta(seconds=self.deadline_in)
        return msgspec.structs.replace(self, deadline_at=at, deadline_in=None)

    def without_deadline(self) -> NodeDefaults:
        return msgspec.structs.replace(self, deadline_at=None, deadline_in=None)


NO_DEFAULTS = NodeDefaults()


def inherits_deadline(job: NewJob, flow: NodeDefaults, named: Collection[str]) -> bool:
    """Whether a node has the deadline of its flow. `named` are options that the program has named
    for this node: those it keeps."""
    has_own = job.deadline_at is not None or job.deadline_in is not None
    return flow.has_deadline and not has_own and "deadline" not in named


def inherited(job: NewJob, flow: NodeDefaults, named: Collection[str]) -> NewJob:
    """The job of a node with what its flow says. A priority of the flow counts more than that of
    the task, a deadline of the task more than that of the flow."""
    if flow is NO_DEFAULTS:
        return job
    deadline = job.deadline_at, job.deadline_in
    if inherits_deadline(job, flow, named):
        deadline = flow.deadline_at, flow.deadline_in
    own_priority = flow.priority is None or "priority" in named
    return msgspec.structs.replace(
        job,
        priority=job.priority if own_priority else flow.priority,
        tags=tuple(dict.fromkeys((*job.tags, *flow.tags))),
        deadline_at=deadline[0],
        deadline_in=deadline[1],
    )
