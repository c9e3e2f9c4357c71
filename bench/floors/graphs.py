"""Graphs as the floors write them: nodes are numbers, an edge is a pair of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

from bench.shapes import DIAMOND, DIAMOND_NODES

FLOWS_AT_ONCE = 50


class Graph(NamedTuple):
    """`edges` are pairs of an upstream and the node that waits for it."""

    flow: int
    nodes: Sequence[int]
    edges: Sequence[tuple[int, int]]

    def waits(self) -> dict[int, int]:
        """How many edges each node waits for."""
        found = dict.fromkeys(self.nodes, 0)
        for _, node in self.edges:
            found[node] += 1
        return found


def diamonds(nodes: int) -> list[Graph]:
    return [_diamond(flow) for flow in range(nodes // DIAMOND_NODES)]


def chain(nodes: int) -> Graph:
    return Graph(0, range(nodes), list(pairwise(range(nodes))))


def bites(graphs: Sequence[Graph]) -> list[Sequence[Graph]]:
    starts = range(0, len(graphs), FLOWS_AT_ONCE)
    return [graphs[start : start + FLOWS_AT_ONCE] for start in starts]


def _diamond(flow: int) -> Graph:
    first = flow * DIAMOND_NODES
    layers: list[range] = []
    for width in DIAMOND:
        layers.append(range(first, first + width))
        first += width
    edges = [edge for before, layer in pairwise(layers) for edge in product(before, layer)]
    return Graph(flow, [node for layer in layers for node in layer], edges)
