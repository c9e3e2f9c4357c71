"""Flows to measure with. Every node carries a number of its own, from 0 on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from bench.program import BESIDE, Program
from holdfast.declaring.flows import Flow
from holdfast.declaring.nodes import Node

DIAMOND = (1, 4, 1, 3, 1)  # a double diamond: 10 nodes in layers, 14 edges
DIAMOND_NODES, DIAMOND_EDGES = 10, 14
GROUP = 101  # a hundred nodes and the one that waits for them
PIPELINE = 10  # each takes the result of the one before
STARTED_AT_ONCE = 500
CALLERS = 100

Shape = Callable[[Program, int], Flow]  # of a program, with its first number


def diamond(program: Program, first: int) -> Flow:
    flow, numbers = program.app.flow("diamond"), iter(range(first, first + DIAMOND_NODES))
    layers = [[flow.add(program.task, next(numbers)) for _ in range(width)] for width in DIAMOND]
    for before, layer in pairwise(layers):
        for node in layer:
            node.after(*before)
    return flow


def group(program: Program, first: int) -> Flow:
    """Members, and one node behind all of them."""
    return fan(program, first, GROUP)


def fan(program: Program, first: int, nodes: int) -> Flow:
    flow = program.app.flow("fan")
    members = [flow.add(program.task, first + n) for n in range(nodes - 1)]
    flow.add(program.task, first + nodes - 1).after(*members)
    return flow


def pipeline(program: Program, first: int) -> Flow:
    flow = program.app.flow("pipeline")
    last: Node[Any] = flow.add(program.task, first)
    for number in range(first + 1, first + PIPELINE):
        last = flow.add(program.task, number, last.output)
    return flow


def chain(program: Program, first: int, nodes: int, *, beside: bool = False) -> Flow:
    """One node after the other, without results. `beside`: in the other queue."""
    task = program.task.using(queue=BESIDE) if beside else program.task
    flow = program.app.flow("chain")
    links = [flow.add(task, number) for number in range(first, first + nodes)]
    for before, link in pairwise(links):
        link.after(before)
    return flow


def mapped(program: Program, elements: int) -> Flow:
    """A node that makes a list, one for each element, and one that takes all their results."""
    flow, task = program.app.flow("map"), program.task
    items = flow.add(task, elements, None, elements)
    flow.add(task, elements + 1, flow.map(task, items.output).outputs)
    return flow


def several(program: Program, shape: Shape, nodes: int, *, each: int) -> list[Flow]:
    """As many flows as have so many nodes, each of which has `each`."""
    return [shape(program, first) for first in range(0, nodes, each)]


async def started(flows: Iterable[Flow]) -> None:
    """All of them, by callers that call at the same time."""
    waiting = list(flows)
    for first in range(0, len(waiting), STARTED_AT_ONCE):
        some = waiting[first : first + STARTED_AT_ONCE]
        await asyncio.gather(*(flow.start() for flow in some))


async def started_by_callers(program: Program, shape: Shape, nodes: int, *, each: int) -> None:
    """By a hundred callers, each of which builds a flow, starts it and goes on to the next. So the
    first flows run while others are built, as with a queue that starts them one by one."""
    firsts = iter(range(0, nodes, each))

    async def call() -> None:
        for first in firsts:
            await shape(program, first).start()

    await asyncio.gather(*(call() for _ in range(CALLERS)))
