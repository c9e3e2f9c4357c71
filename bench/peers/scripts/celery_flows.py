"""Celery's chords and chains, with Redis as the result backend that chords need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery import chain, chord

from bench.peers.scripts.celery import CeleryPeer, app
from bench.peers.scripts.flow_peer import FlowPeer
from bench.peers.scripts.marks import mark
from bench.peers.scripts.peer import URL

app.conf.update(task_ignore_result=False, result_backend=URL)


@app.task(name="node")
def node(number: int) -> int:
    mark(number)
    return number


@app.task(name="behind")
def behind(before: Any, number: int) -> int:
    """It is given the result of the one before, or those of a whole group."""
    mark(number)
    return number


class CeleryFlowsPeer(CeleryPeer, FlowPeer):
    async def start_group(self, numbers: Sequence[int]) -> None:
        members = [node.s(number) for number in numbers[:-1]]
        chord(members)(behind.s(numbers[-1]))

    async def start_pipeline(self, numbers: Sequence[int]) -> None:
        first, *others = numbers
        chain(node.s(first), *(behind.s(number) for number in others)).apply_async()
