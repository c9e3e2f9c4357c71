"""A growth of a flow beside what the flow has already. Pure.

A name that the flow has is kept as it is. A growth may name known and new nodes together: a handler
that is tried again adds what its first attempt added, and perhaps more. What is left of such a
growth names the nodes that are there, not those that it would have made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from holdfast.flow.elements import element_ids, element_names
from holdfast.flow.graph import decode_graph, encode_graph, encode_text, gates_behind
from holdfast.flow.inputs import decode_inputs, encode_inputs, renamed
from holdfast.flow.model import Growth, NewGate, NewNode
from holdfast.job.ids import JobId

_replace = msgspec.structs.replace
Gates = Mapping[JobId, tuple[NewGate, ...]]


def written_out(growth: Growth) -> Growth:
    """The same growth with nodes and gates instead of elements, of which the flow may have some."""
    new = growth.elements
    if new is None:
        return growth
    ids = element_ids(growth.by, new.indexes, new.anew)
    nodes = tuple(
        NewNode(name, _replace(new.like, id=job, args=args), is_sink=new.is_sink)
        for name, job, args in zip(element_names(new.map, new.indexes), ids, new.args, strict=True)
    )
    gates = gates_behind(ids, new.behind)
    graph = encode_graph(nodes, gates, made_by=new.map, by=growth.by)
    return _replace(growth, nodes=nodes, gates=gates, graph=graph, elements=None)


def without_known(growth: Growth, known: Mapping[str, JobId]) -> Growth:
    """What of the growth is new to a flow that has the nodes `known`, by name. A gate that waits
    for kept nodes of the growth alone was added with them, and is left out."""
    if not known:
        return growth
    ids = {node.job.id: known[node.name] for node in growth.nodes if node.name in known}
    return _replace(
        growth,
        nodes=tuple(_node(node, ids) for node in growth.nodes if node.name not in known),
        gates=_further(growth.gates, ids),
        graph=_graph(growth.graph, ids),
    )


def is_unchecked(growth: Growth, left: Growth) -> bool:
    """Whether what is left of a growth may close a cycle that nobody has looked for. A node that is
    new waits for a kept one, of which the growth does not say what that one waits for."""
    if growth.epoch is not None or not left.gates or len(left.nodes) == len(growth.nodes):
        return False
    return any(node.gates for node in left.nodes)


def _node(node: NewNode, ids: Mapping[JobId, JobId]) -> NewNode:
    inputs = encode_inputs([renamed(one, ids) for one in decode_inputs(node.inputs)])
    return _replace(node, gates=_renamed(node.gates, ids), inputs=inputs)


def _further(gates: Gates, ids: Mapping[JobId, JobId]) -> dict[JobId, tuple[NewGate, ...]]:
    """The gates for nodes that are there, without those that came with the kept nodes."""
    left = {
        job: _renamed((gate for gate in some if not _came_with(gate, ids)), ids)
        for job, some in gates.items()
        if job not in ids
    }
    return {job: some for job, some in left.items() if some}


def _came_with(gate: NewGate, ids: Mapping[JobId, JobId]) -> bool:
    return all(edge.upstream in ids for edge in gate.edges)


def _renamed(gates: Iterable[NewGate], ids: Mapping[JobId, JobId]) -> tuple[NewGate, ...]:
    return tuple(
        _replace(
            gate,
            edges=tuple(
                _replace(edge, upstream=ids.get(edge.upstream, edge.upstream))
                for edge in gate.edges
            ),
        )
        for gate in gates
    )


def _graph(text: str, ids: Mapping[JobId, JobId]) -> str:
    written = decode_graph(text)
    nodes = tuple(
        _replace(node, gates=_renamed(node.gates, ids))
        for node in written.nodes
        if node.job not in ids
    )
    return encode_text(_replace(written, nodes=nodes, gates=_further(written.gates, ids)))
