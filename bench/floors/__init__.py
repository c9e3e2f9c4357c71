"""The least that a queue must do, done by the bare driver: no fence, no queues, no priorities.

Each store's floor is a module with the same functions, so that a workload asks for one by the
store's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from bench.floors import (
    postgres,
    postgres_flows,
    postgres_steps,
    sqlite,
    sqlite_flows,
    sqlite_steps,
    valkey,
    valkey_flows,
    valkey_steps,
)
from bench.floors.graphs import Graph, chain, diamonds
from bench.measure import Sample
from bench.places import Place, bare_url
from bench.stopwatch import Start, Stopwatch


class Floor(Protocol):
    """Rates are jobs per second. What is made ready before `start` is called is not counted."""

    async def single(self, url: str, jobs: int) -> Sample:
        """One job after the other, each durable before the next."""
        ...

    async def bulk(self, url: str, jobs: int, start: Start) -> Sample:
        """All jobs by the fastest way in."""
        ...

    async def drain(self, url: str, jobs: int, start: Start, document: str = "") -> Sample:
        """Claim a batch, finish it, claim the next, until none is left. Each job carries its
        number, and the document."""
        ...

    async def pickup(self, url: str, samples: int, gap: float, start: Start) -> Sample:
        """From before the insert until another connection was woken and has claimed the job."""
        ...


class FlowFloor(Protocol):
    """Graphs of jobs: counters, edges, and one write that ends nodes and releases those behind
    them. No gates of several kinds, no results, no books."""

    async def start(self, url: str, graphs: Sequence[Graph]) -> Sample:
        """Flows per second, some at a time in a transaction or script."""
        ...

    async def drain(self, url: str, graphs: Sequence[Graph]) -> Sample:
        """Nodes per second: claim a batch, finish it, claim the next."""
        ...

    async def hop(self, url: str, chain: Graph) -> Sample:
        """From before the end of a node until the node behind it is claimed."""
        ...


class StepFloor(Protocol):
    async def record(self, url: str, jobs: int, steps: int, batch: int) -> Sample:
        """Steps per second: the same step of so many jobs at a time, if the job's fence holds."""
        ...


FLOORS: dict[str, Floor] = {"postgres": postgres, "sqlite": sqlite, "valkey": valkey}
FLOW_FLOORS: dict[str, FlowFloor] = {
    "postgres": postgres_flows,
    "sqlite": sqlite_flows,
    "valkey": valkey_flows,
}


STEP_FLOORS: dict[str, StepFloor] = {
    "postgres": postgres_steps,
    "sqlite": sqlite_steps,
    "valkey": valkey_steps,
}


async def record(place: Place, jobs: int, steps: int, batch: int) -> Sample:
    async with bare_url(place) as url:
        return await STEP_FLOORS[place.name].record(url, jobs, steps, batch)


async def single(place: Place, jobs: int) -> Sample:
    async with bare_url(place) as url:
        return await FLOORS[place.name].single(url, jobs)


async def bulk(place: Place, jobs: int) -> Sample:
    async with bare_url(place) as url:
        return await FLOORS[place.name].bulk(url, jobs, partial(Stopwatch, place))


async def drain(place: Place, jobs: int, document: str = "") -> Sample:
    async with bare_url(place) as url:
        start = partial(Stopwatch, place)
        return await FLOORS[place.name].drain(url, jobs, start, document)


async def pickup(place: Place, samples: int, gap: float) -> Sample:
    async with bare_url(place) as url:
        start = partial(Stopwatch, place)
        return await FLOORS[place.name].pickup(url, samples, gap, start)


async def start_flows(place: Place, nodes: int) -> Sample:
    async with bare_url(place) as url:
        return await FLOW_FLOORS[place.name].start(url, diamonds(nodes))


async def drain_flows(place: Place, nodes: int) -> Sample:
    async with bare_url(place) as url:
        return await FLOW_FLOORS[place.name].drain(url, diamonds(nodes))


async def hop(place: Place, nodes: int) -> Sample:
    async with bare_url(place) as url:
        return await FLOW_FLOORS[place.name].hop(url, chain(nodes))
