"""What the end of a node does to its flow, in the transaction that ends it.

Rounds: the edges of all nodes that ended are counted at their gates; nodes whose gates are all met
are released, and nodes with an impossible gate are skipped. What was skipped are the ended nodes of
the next round. A transaction skips at most `CASCADE_LIMIT` nodes and owes the rest as an errand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.flow.model import (
    BITS,
    CASCADE_LIMIT,
    CloseWhat,
    ErrandKind,
    FlowId,
    FlowState,
    Losers,
    child_flow_id,
    is_bad_end,
    state_at_end,
)
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.places import Narrow, leave, take_numbers
from holdfast.store.sqlite.rows import after, to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Row, Transaction

_keep = msgspec.json.Decoder(dict[FlowState, float | None])


class EndedNode(NamedTuple):
    """A node that has ended. `is_bad`: its end makes what it blocks bad, if that is skipped."""

    state: JobState
    is_bad: bool


class _Lost(NamedTuple):
    """A node that is skipped, and the name of the upstream that decided it."""

    is_bad: bool
    because: str


def settle(tx: Transaction, ended: Mapping[str, JobState], *, are_new: bool = True) -> None:
    """Decide all edges of these nodes. `are_new`: they count as live nodes of their flows until
    now."""
    nodes = _nodes(tx, ended)
    round_of = {
        job_id: EndedNode(state, is_bad_end(state, is_bad=bool(nodes[job_id][3])))
        for job_id, state in ended.items()
        if job_id in nodes
    }
    skipped = 0
    while round_of:
        if are_new:
            _count_down(tx, round_of, nodes)
        lost = _decide(tx, round_of, {job_id: node[1] for job_id, node in nodes.items()})
        skipped += len(lost)
        _skip(tx, lost)
        are_new = True
        nodes = _nodes(tx, lost)
        round_of = {job_id: EndedNode(JobState.SKIPPED, one.is_bad) for job_id, one in lost.items()}
        if skipped >= CASCADE_LIMIT:
            _count_down(tx, round_of, nodes)
            for flow_id in {node[0] for node in nodes.values()}:
                owe(tx, FlowId(flow_id), ErrandKind.SETTLE)
            return


def settle_successes(tx: Transaction, ids: str) -> None:
    """The same for nodes that succeeded, which nearly all do. `ids` is their list as JSON: few of
    them pass Python."""
    running = _count_down_successes(tx, ids)
    judged: list[Row] = []
    counts: list[Row] = []
    for job_id, n, flow, need, total, won, lost, is_bad, losers in tx.rows(
        steps("flows/settle")["edges of successes"], (ids,)
    ):
        is_met, is_impossible = won >= need, lost > total - need
        if flow in running and (is_met or is_impossible):
            has_edges = won + lost < total
            judged.append((job_id, n, flow, is_met, is_impossible, is_bad, losers, has_edges))
        else:
            counts.append((won, lost, job_id, n))
    tx.each(steps("flows/settle")["set counts"], counts)
    because = _lost_to_successes(tx, ids) if any(gate[4] for gate in judged) else {}
    tx.run(steps("flows/settle")["drop taken edges"], (ids,))
    lost_nodes = _judge(tx, judged, because)
    _skip(tx, lost_nodes)
    settle(tx, dict.fromkeys(lost_nodes, JobState.SKIPPED))


def _count_down_successes(tx: Transaction, ids: str) -> set[str]:
    """Take these nodes from the live ones of their flows; returns the flows that run."""
    running: set[str] = set()
    for flow, state, left, bad, cancel_asked, keep in tx.rows(
        steps("flows/settle")["succeeded"], (ids,)
    ):
        if state == FlowState.RUNNING:
            running.add(flow)
        if left == 0:
            end_flow(tx, flow, bad, bool(cancel_asked), keep)
    return running


def _lost_to_successes(tx: Transaction, ids: str) -> dict[tuple[str, int], str]:
    rows = tx.rows(steps("flows/settle")["lost to successes"], (ids,))
    return {(job_id, n): f"'{name}' is {JobState.SUCCEEDED}" for job_id, n, name in rows}


def judge_flows(tx: Transaction, flows: Iterable[FlowId]) -> None:
    """Release and skip what the gates of these flows say by now."""
    lost = _judge(tx, tx.rows(steps("flows/settle")["judge flow"], (to_json(flows),)), {})
    _skip(tx, lost)
    settle(tx, dict.fromkeys(lost, JobState.SKIPPED))


def left_over(tx: Transaction, flows: Iterable[FlowId]) -> dict[str, JobState]:
    """EndedNode nodes with edges that nobody has decided."""
    rows = tx.rows(steps("flows/settle")["left over"], (to_json(flows),))
    return {job_id: JobState(state) for job_id, state in rows}


def owe(
    tx: Transaction,
    flow: FlowId,
    kind: ErrandKind,
    job: JobId | None = None,
    what: CloseWhat | None = None,
) -> None:
    """Write down what somebody has to do after the commit, and wake those who do such things."""
    tx.run(steps("flows/settle")["errand"], (flow, kind.value, job, what, tx.now))
    tx.wake(Topic.ERRANDS)


def _nodes(tx: Transaction, ids: Iterable[str]) -> dict[str, Row]:
    """Flow, name, whether it is a sink and bad, and the flow's state, of each node."""
    rows = tx.rows(steps("flows/settle")["nodes"], (to_json(ids),))
    return {job_id: tuple(columns) for job_id, *columns in rows}


def _count_down(tx: Transaction, ended: Mapping[str, EndedNode], nodes: Mapping[str, Row]) -> None:
    """Take these nodes from the live ones of their flows, and end a flow that has none left."""
    sql = steps("flows/settle")
    live = Counter(nodes[job_id][0] for job_id in ended)
    failed = Counter(
        nodes[job_id][0] for job_id, end in ended.items() if end.is_bad and nodes[job_id][2]
    )
    for flow, count in live.items():
        values = {"id": flow, "ended": count, "failed": failed[flow]}
        [(left, bad, cancel_asked, keep)] = tx.rows(sql["ended"], values)
        if left == 0:
            end_flow(tx, flow, bad, bool(cancel_asked), keep)


def end_flow(tx: Transaction, flow: str, bad: int, cancel_asked: bool, keep: str) -> None:
    """End a flow that has no live node, and so many sinks that ended badly."""
    sql = steps("flows/settle")
    has_failure = bool(bad and tx.rows(sql["has failure"], (flow,))[0][0])
    state = state_at_end(bad, cancel_asked=cancel_asked, has_failure=has_failure)
    kept = _keep.decode(keep).get(state)
    values = {
        "id": flow,
        "state": state.value,
        "now": tx.now,
        "expires_at": None if kept is None else after(tx.now, kept),
    }
    for (parent,) in tx.rows(sql["end"], values):
        if parent is not None:
            owe(tx, FlowId(flow), ErrandKind.PARENT, JobId(parent))


def orphan(tx: Transaction, parents: Iterable[JobId]) -> None:
    """These jobs have ended: owe the cancel of flows that they started and that are live."""
    children = {child_flow_id(parent): parent for parent in parents}
    for (flow,) in tx.rows(steps("flows/settle")["live"], (to_json(children),)):
        owe(tx, flow, ErrandKind.ORPHAN, children[flow])


def _decide(
    tx: Transaction, ended: Mapping[str, EndedNode], names: Mapping[str, str]
) -> dict[str, _Lost]:
    """Count the edges of these ends, and judge their gates. Returns what is to be skipped."""
    sql = steps("flows/settle")
    ids = to_json(ended)
    tx.run(sql["drop gates"], (ids,))
    tx.run(sql["drop edges"], (ids,))
    counts: dict[tuple[str, int], list[int]] = {}
    because: dict[tuple[str, int], str] = {}
    for upstream, downstream, n, wants in tx.rows(sql["take edges"], (ids,)):
        end, gate = ended[upstream], (downstream, n)
        counted = counts.setdefault(gate, [0, 0, 0])
        if wants & BITS[end.state]:
            counted[0] += 1
        else:
            counted[1] += 1
            counted[2] = max(counted[2], int(end.is_bad))
            said = f"'{names[upstream]}' is {end.state}"
            because[gate] = min(because.get(gate, said), said)
    tx.each(
        sql["count"],
        [
            {"won": won, "lost": lost, "is_bad": is_bad, "job_id": job_id, "n": n}
            for (job_id, n), (won, lost, is_bad) in counts.items()
        ],
    )
    waiting = {job_id for job_id, _ in counts}
    return _judge(tx, tx.rows(sql["judge"], (to_json(waiting),)), because)


def _judge(
    tx: Transaction, gates: Sequence[Row], because: Mapping[tuple[str, int], str]
) -> dict[str, _Lost]:
    """Drop the gates that are met, and release nodes that have none left. Returns the nodes of
    impossible gates."""
    sql = steps("flows/settle")
    lost: dict[str, _Lost] = {}
    met: list[Row] = []
    with_edges: list[Row] = []
    for job_id, n, flow, is_met, is_impossible, is_bad, losers, has_edges in gates:
        if is_impossible:
            said = because.get((job_id, n), "a node that it needs has ended")
            lost.setdefault(job_id, _Lost(bool(is_bad), said))
        elif is_met:
            met.append((job_id, n))
            if has_edges:
                with_edges.append((job_id, n))
            if losers == Losers.CANCEL:
                owe(tx, FlowId(flow), ErrandKind.LOSERS, JobId(job_id))
    tx.each(sql["drop gate edges"], with_edges)
    nodes = {job_id for job_id, _ in met}
    several = {job_id for (job_id,) in tx.rows(sql["with several gates"], (to_json(nodes),))}
    tx.run(sql["drop gates"], (to_json(nodes - several),))
    if several:
        tx.each(sql["drop gate"], [gate for gate in met if gate[0] in several])
        nodes -= {job_id for (job_id,) in tx.rows(sql["open gates"], (to_json(several),))}
    release(tx, nodes - set(lost))
    return lost


def release(tx: Transaction, ids: Iterable[str]) -> None:
    """Let blocked nodes go on: to ready, or by their delay to scheduled."""
    free = sorted(ids)
    if not free:
        return
    values = {"ids": to_json(free), "first": take_numbers(tx, len(free)), "now": tx.now}
    lined_up = tx.rows(steps("flows/settle")["line up"], values)
    for (queue, task), jobs in Counter((queue, task) for _, queue, task in lined_up).items():
        tx.count(queue, task, JobState.BLOCKED, JobState.READY, What.RELEASED, jobs)
        tx.wake(Topic.READY, queue, jobs)
    leave(tx, JobState.BLOCKED, [job_id for job_id, _, _ in lined_up])
    if len(lined_up) < len(free):
        _release_later(tx, free)


def _release_later(tx: Transaction, ids: Sequence[str]) -> None:
    """Those of these nodes that are blocked still have a delay, or are gone."""
    later: list[Row] = []
    for *columns, delay, _ in tx.rows(steps("flows/settle")["waiting"], (to_json(ids),)):
        row = Narrow._make(columns)
        later.append((*row, "released", after(tx.now, delay)))
        tx.count(row.queue, row.task, JobState.BLOCKED, JobState.SCHEDULED, What.RELEASED)
    if later:
        leave(tx, JobState.BLOCKED, [row[0] for row in later])
        tx.each(steps("parts/enter")[JobState.SCHEDULED], later)
        tx.wake(Topic.DUE)


def _skip(tx: Transaction, lost: Mapping[str, _Lost]) -> None:
    """End blocked nodes without an attempt. They are kept as long as their flow."""
    if not lost:
        return
    sql = steps("flows/settle")
    rows: list[Row] = []
    for *columns, _, deadline_at in tx.rows(sql["waiting"], (to_json(lost),)):
        row = Narrow._make(columns)
        facts = (deadline_at, None, None, None, JobState.SKIPPED.value, tx.now, None)
        rows.append((*row, *facts, lost[row.job_id].because, None, None))
        tx.count(row.queue, row.task, JobState.BLOCKED, JobState.SKIPPED, What.SKIPPED)
    leave(tx, JobState.BLOCKED, [row[0] for row in rows])
    tx.each(steps("jobs/finish")["end"], rows)
    tx.run(steps("jobs/finish")["drop deadlines"], (to_json(lost),))
    tx.each(sql["mark bad"], [(job_id,) for job_id, one in lost.items() if one.is_bad])
