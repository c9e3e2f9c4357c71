"""An approval as a node of a flow: whom it asks, tier after tier, and who sends them their tokens.

The node is a job of the task `APPROVE`, which every worker knows. Tokens are in no store, so the
task that tells people is not given any: it is told whom to ask, and signs by `client.tokens(…)`.
"""

from __future__ import annotations

import msgspec

from holdfast.flow.inputs import added_id
from holdfast.job.ids import JobId
from holdfast.job.record import NewJob
from holdfast.job.undo import Undo

APPROVE = "holdfast.approve"
"""The task of all approvals. A name of a user's own cannot begin like this."""
ESCALATED = "escalated"
_encoder = msgspec.json.Encoder()


class Tier(msgspec.Struct, frozen=True):
    """People who are asked together, the name of their question, and how many have to say yes."""

    wait: str
    people: tuple[str, ...]
    need: int


class ApprovalPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Each tier is asked when the time of the one before it is over. `tell` is written down as a
    task that undoes is: it has one parameter."""

    tiers: tuple[Tier, ...]
    timeout: float | None = None
    tell: Undo | None = None


def telling_job(tell: Undo, tier: Tier, by: JobId, fence: int) -> NewJob:
    """The job that tells these people. An attempt that inserts it again inserts the same."""
    asked = {"job_id": by, "wait": tier.wait, "people": tier.people}
    return NewJob(
        added_id(by, f"tell {tier.wait} {fence}"),
        tell.task,
        tell.queue,
        _encoder.encode({tell.param: asked}).decode(),
        tell.policy,
        tell.priority,
        tags=tell.tags,
        headers=tell.headers,
    )
