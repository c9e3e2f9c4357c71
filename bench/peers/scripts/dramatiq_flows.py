"""Dramatiq's groups with a completion callback, which Redis counts, and its pipelines."""

from __future__ import annotations

from collections.abc import Sequence

import dramatiq
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from bench.peers.scripts.dramatiq import DramatiqPeer, noop
from bench.peers.scripts.flow_peer import FlowPeer
from bench.peers.scripts.marks import mark
from bench.peers.scripts.peer import URL

dramatiq.get_broker().add_middleware(GroupCallbacks(RedisBackend(url=URL)))


@dramatiq.actor(queue_name="q")
def link(number: int, before: int | None = None) -> int:
    mark(number)
    return number


class DramatiqFlowsPeer(DramatiqPeer, FlowPeer):
    async def start_group(self, numbers: Sequence[int]) -> None:
        group = dramatiq.group([noop.message(number) for number in numbers[:-1]])
        group.add_completion_callback(noop.message(numbers[-1]))
        group.run()

    async def start_pipeline(self, numbers: Sequence[int]) -> None:
        dramatiq.pipeline([link.message(number) for number in numbers]).run()
