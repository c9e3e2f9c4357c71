"""Operators who do at random what operators do to flows, and note what the store accepted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field

from holdfast.client.client import Client
from holdfast.errors import HoldfastError
from holdfast.flow.model import FlowState, NodeInfo
from holdfast.job.state import ENDED
from tests.support.flow_log import Act, ActKind
from tests.support.random_flows import STAND_INS

MOST_ACTS = 4
"""On one flow, so that each comes to its end."""
ACTS: dict[FlowState, list[ActKind]] = {
    FlowState.RUNNING: [
        *("cancel node", "cancel node", "cancel flow", "pause", "pause"),
        *("retry", "cascade", "cascade"),
    ],
    FlowState.PAUSED: ["resume", "resume", "cancel node", "cascade"],
}
ON_ENDED: list[ActKind] = ["retry", "cascade", "cascade"]
RECENT = 20
"""Most acts are on flows that were started last: others have ended."""


@dataclass
class Operators:
    client: Client
    chance: random.Random
    away: asyncio.Lock
    """Held while the store cannot be asked."""
    flows: dict[int, str] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def act_for(self, seconds: float, pause: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(pause * self.chance.random())
            done = [act.flow for act in self.acts]
            free = [number for number in self.flows if done.count(number) < MOST_ACTS]
            if self.chance.random() < 0.7:
                free = free[-RECENT:]
            if free:
                async with self.away:
                    await self._act(self.chance.choice(free))

    async def let_go(self) -> None:
        """Resume what is paused."""
        page = await self.client.flows.page(state=FlowState.PAUSED, limit=1_000)
        for flow in page.flows:
            await self.client.flows.resume(flow.id)

    async def _act(self, number: int) -> None:
        flow = self.flows[number]
        info = await self.client.flows.get(flow)
        kind = self.chance.choice(ACTS.get(info.state, ON_ENDED))
        nodes = await self.client.flows.nodes(flow)
        match kind:
            case "cancel node":
                live = [node for node in nodes if node.state not in ENDED and is_own(node)]
                if live:
                    node = self.chance.choice(live)
                    await self._do(kind, number, self.client.cancel(node.job_id), node.name)
            case "cancel flow":
                await self._do(kind, number, self.client.flows.cancel(flow))
            case "pause":
                await self._do(kind, number, self.client.flows.pause(flow))
            case "resume":
                await self._do(kind, number, self.client.flows.resume(flow))
            case "retry" | "cascade":
                names = self._names(nodes)
                again = self.client.flows.retry(flow, *names, cascade=kind == "cascade")
                await self._do(kind, number, again, *names)

    def _names(self, nodes: list[NodeInfo]) -> list[str]:
        """None, for all that failed, or some that have ended."""
        ended = [node.name for node in nodes if node.state in ENDED and is_own(node)]
        count = self.chance.choice([0, 1, 1, 2])
        return self.chance.sample(ended, min(count, len(ended)))

    async def _do(self, kind: ActKind, flow: int, act: Awaitable[object], *names: str) -> None:
        began = time.monotonic()
        try:
            await act
        except HoldfastError as error:
            self.refused.append(f"{kind}: {error}")
        else:
            self.acts.append(Act(kind, flow, began, time.monotonic(), names))


def is_own(node: NodeInfo) -> bool:
    """Whether the flow was written down with this node, or a handler has added it."""
    return not node.name.startswith(STAND_INS)
