"""The task of approvals in flows, which every worker knows by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from holdfast.context import Context
from holdfast.flow.approving import APPROVE, ApprovalPlan, Tier, telling_job
from holdfast.handlers.registry import Handler
from holdfast.job.ids import JobId
from holdfast.job.undo import Undo
from holdfast.job.vote import Approval
from holdfast.store.contract.store import Store


def approve_handler(store: Store) -> Handler:
    async def approve(ctx: Context, plan: dict[str, Any]) -> Approval:
        """Ask people, tier after tier; raises `Denied` unless one of them grants it."""
        read = msgspec.convert(plan, ApprovalPlan)
        vote = Approval(granted=False, timed_out=True)
        for tier in read.tiers:
            asked = ctx.invite(tier.wait, of=tier.people)
            if read.tell is not None:
                await ctx.step(f"tell {tier.wait}", partial(_tell, store, ctx, read.tell, tier))
            vote = await asked.quorum(tier.need, timeout=read.timeout)
            if not vote.timed_out:
                break
        return vote.require()

    return Handler.of(APPROVE, approve)


async def _tell(store: Store, ctx: Context, tell: Undo, tier: Tier) -> None:
    await store.jobs.insert([telling_job(tell, tier, JobId(ctx.job.id), ctx.fence)])
