"""What the end of a node does to its flow, in the transaction that ends it.

Rounds: the edges of all nodes that ended are counted at their gates; nodes whose gates are all met
are released, and nodes with an impossible gate are skipped. What was skipped are the ended nodes of
the next round. A transaction skips at most `CASCADE_LIMIT` nodes and owes the rest as an errand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from holdfast.flow.model import (
    BITS,
    CASCADE_LIMIT,
    CloseWhat,
    ErrandKind,
    FlowId,
    FlowState,
    Losers,
    is_bad_end,
    state_at_end,
)
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.releasing import Lost, Taker, release, skip
from holdfast.store.sqlite.rows import after, to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Row, Transaction

_keep = lru_cache(maxsize=64)(msgspec.json.Decoder(dict[FlowState, float | None]).decode)


class EndedNode(NamedTuple):
    """A node that has ended. `is_bad`: its end makes what it blocks bad, if that is skipped."""

    state: JobState
    is_bad: bool


def settle(tx: Transaction, ended: Mapping[str, JobState], *, are_new: bool = True) -> None:
    """Decide all edges of these nodes. `are_new`: they count as live nodes of their flows until
    now."""
    nodes = nodes_of(tx, ended)
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
        skip(tx, lost)
        are_new = True
        nodes = nodes_of(tx, lost)
        round_of = {job_id: EndedNode(JobState.SKIPPED, one.is_bad) for job_id, one in lost.items()}
        if skipped >= CASCADE_LIMIT:
            _count_down(tx, round_of, nodes)
            for step in ("leave unsettled", "drop gates"):
                tx.run(steps("flows/settle")[step], (to_json(round_of),))
            for flow_id in {node[0] for node in nodes.values()}:
                owe(tx, FlowId(flow_id), ErrandKind.SETTLE)
            return


def settle_successes(tx: Transaction, ids: str) -> None:
    """The same for nodes that succeeded, which nearly all do. `ids` is their list as JSON: few of
    them pass Python."""
    sql = steps("flows/settle")
    running = _running_of(tx, tx.rows(sql["succeeded"], (ids,)))
    _count_successes(tx, ids, running, tx.rows(sql["gates behind successes"], (ids,)))


def settle_success(
    tx: Transaction,
    job: str,
    edges: str | None,
    flow: Sequence[Any],
    taker: Taker | None = None,
) -> None:
    """The same for one node, of which the edges and the flow are known: `jobs/finish`."""
    sql = steps("flows/settle")
    tx.run(sql["one succeeded"], (flow[0],))
    running = _running_of(tx, [flow])
    if edges is not None:
        gates = tx.rows(sql["gates behind one success"], (edges,))
        _count_successes(tx, to_json([job]), running, gates, taker)


def _count_successes(
    tx: Transaction,
    ids: str,
    running: Container[str],
    gates: Iterable[Row],
    taker: Taker | None = None,
) -> None:
    """Judge the gates behind nodes that succeeded: each with its counts after that."""
    judged: list[Row] = []
    counts: list[Row] = []
    for job_id, n, flow, need, total, won, lost, is_bad, losers, has_others in gates:
        is_met, is_impossible = won >= need, lost > total - need
        if flow in running and (is_met or is_impossible):
            judged.append((job_id, n, flow, is_met, is_impossible, is_bad, losers, has_others))
        else:
            counts.append((won, lost, job_id, n))
    if counts:
        tx.each(steps("flows/settle")["set counts"], counts)
    if judged:
        because = _lost_to_successes(tx, ids) if any(gate[4] for gate in judged) else {}
        # Which of several nodes goes first is for a claim to say.
        _go_on(tx, _judge(tx, judged, because, taker if len(judged) == 1 else None))


def _running_of(tx: Transaction, flows: Iterable[Sequence[Any]]) -> set[str]:
    """Of these flows, which have fewer live nodes now, those that run. What has none left ends."""
    running: set[str] = set()
    over: list[Row] = []
    for flow, state, *row in flows:
        if state == FlowState.RUNNING:
            running.add(flow)
        if row[0] == 0:
            over.append((flow, *row[1:]))
    if over:
        end_flows(tx, over)
    return running


def _lost_to_successes(tx: Transaction, ids: str) -> dict[tuple[str, int], str]:
    rows = tx.rows(steps("flows/settle")["lost to successes"], (ids,))
    return {(job_id, n): why_lost(name, JobState.SUCCEEDED) for job_id, n, name in rows}


def why_lost(name: str, state: JobState) -> str:
    """What is said of a node whose gate became impossible by the end of this upstream."""
    return f"'{name}' is {state}"


def judge_flows(tx: Transaction, flows: Iterable[FlowId]) -> None:
    """Release and skip what the gates of these flows say by now."""
    _go_on(tx, _judge(tx, tx.rows(steps("flows/settle")["judge flow"], (to_json(flows),)), {}))


def judge(tx: Transaction, jobs: Iterable[str], because: Mapping[tuple[str, int], str]) -> None:
    """The same for the gates of these nodes. `because` says why an edge of a gate was lost."""
    gates = tx.rows(steps("flows/settle")["judge"], (to_json(jobs),))
    _go_on(tx, _judge(tx, gates, because))


def _go_on(tx: Transaction, lost: Mapping[str, Lost]) -> None:
    """Skip these nodes, and settle what follows from that."""
    if lost:
        skip(tx, lost)
        settle(tx, dict.fromkeys(lost, JobState.SKIPPED))


def settle_left_over(tx: Transaction, flows: Iterable[FlowId]) -> None:
    """Count the ends that a cascade over its limit has left uncounted."""
    sql, ids = steps("flows/settle"), (to_json(flows),)
    left = {job_id: JobState(state) for job_id, state in tx.rows(sql["left over"], ids)}
    tx.run(sql["settled"], ids)
    settle(tx, left, are_new=False)


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


def nodes_of(tx: Transaction, ids: Iterable[str]) -> dict[str, Row]:
    """Flow, name, and whether it is a sink and bad, of each node."""
    rows = tx.rows(steps("flows/settle")["nodes"], (to_json(ids),))
    return {job_id: tuple(columns) for job_id, *columns in rows}


def _count_down(tx: Transaction, ended: Mapping[str, EndedNode], nodes: Mapping[str, Row]) -> None:
    """Take these nodes from the live ones of their flows, and end a flow that has none left."""
    live = Counter(nodes[job_id][0] for job_id in ended)
    failed = Counter(
        nodes[job_id][0] for job_id, end in ended.items() if end.is_bad and nodes[job_id][2]
    )
    for flow, count in live.items():
        take_from_live(tx, flow, count, failed[flow])


def take_from_live(tx: Transaction, flow: str, ended: int, failed: int) -> None:
    """So many nodes of the flow have ended, of which so many are sinks that ended badly."""
    values = {"id": flow, "ended": ended, "failed": failed}
    [(left, *row)] = tx.rows(steps("flows/settle")["ended"], values)
    if left == 0:
        end_flows(tx, [(flow, *row)])


def end_flows(tx: Transaction, flows: Iterable[Row]) -> None:
    """End flows that have no live node. Of each: its id, how many of its sinks ended badly, whether
    a cancel was asked for, how long it is kept, its parent, and when it has ended before."""
    sql = steps("flows/settle")
    rows: list[Row] = []
    for flow, bad, cancel_asked, keep, parent, finished_at in flows:
        if finished_at is not None:
            continue
        bad += _failed_late(tx, flow)
        has_failure = bool(bad and tx.rows(sql["has failure"], (flow,))[0][0])
        state = state_at_end(bad, cancel_asked=bool(cancel_asked), has_failure=has_failure)
        kept = _keep(keep).get(state)
        expires_at = None if kept is None else after(tx.now, kept)
        rows.append((state.value, tx.now, expires_at, flow))
        if parent is not None:
            owe(tx, FlowId(flow), ErrandKind.PARENT, JobId(parent))
    tx.each(sql["end"], rows)


def _failed_late(tx: Transaction, flow: str) -> int:
    """Nodes may have been skipped for no bad end while others that they waited for were live. Mark
    those of which such a node has ended badly since. Returns how many of them are sinks."""
    sql = steps("flows/settle")
    if not tx.rows(sql["kept gates"], (flow,)):
        return 0
    late: dict[str, str] = dict(tx.rows(sql["late failures"], {"flow": flow}))
    tx.run(sql["drop kept gates"], (flow,))
    if not late:
        return 0
    tx.each(sql["mark bad"], [(job_id,) for job_id in late])
    tx.each(sql["other reason"], [(because, job_id) for job_id, because in late.items()])
    sinks = sum(bool(is_sink) for _, _, is_sink, _ in nodes_of(tx, late).values())
    tx.run(sql["failed late"], {"flow": flow, "bad": sinks})
    return sinks


def orphan(tx: Transaction, parents: Iterable[JobId]) -> None:
    """These jobs have ended: owe the cancel of flows that they started and that are live."""
    for flow, parent in tx.rows(steps("flows/settle")["live"], (to_json(parents),)):
        owe(tx, flow, ErrandKind.ORPHAN, parent)


def let_go_of_children(tx: Transaction, parents: Iterable[str]) -> None:
    """These jobs are removed, or begin anew: flows that are kept as long as they go too."""
    values = {"ids": to_json(parents), "now": tx.now}
    tx.run(steps("flows/settle")["let go of children"], values)


def _decide(
    tx: Transaction, ended: Mapping[str, EndedNode], names: Mapping[str, str]
) -> dict[str, Lost]:
    """Count the edges of these ends, and judge their gates. Returns what is to be skipped."""
    sql = steps("flows/settle")
    ids = to_json(ended)
    tx.run(sql["drop gates"], (ids,))
    counts: dict[tuple[str, int], list[int]] = {}
    because: dict[tuple[str, int], tuple[bool, str]] = {}
    for upstream, downstream, n, wants in tx.rows(sql["edges"], (ids,)):
        end, gate = ended[upstream], (downstream, n)
        counted = counts.setdefault(gate, [0, 0, 0])
        if wants & BITS[end.state]:
            counted[0] += 1
        else:
            counted[1] += 1
            counted[2] = max(counted[2], int(end.is_bad))
            said = (not end.is_bad, why_lost(names[upstream], end.state))
            because[gate] = min(because.get(gate, said), said)
    tx.each(
        sql["count"],
        [
            {"won": won, "lost": lost, "is_bad": is_bad, "job_id": job_id, "n": n}
            for (job_id, n), (won, lost, is_bad) in counts.items()
        ],
    )
    waiting = {job_id for job_id, _ in counts}
    gates = tx.rows(sql["judge"], (to_json(waiting),))
    return _judge(tx, gates, {gate: said for gate, (_, said) in because.items()})


def _judge(
    tx: Transaction,
    gates: Sequence[Row],
    because: Mapping[tuple[str, int], str],
    taker: Taker | None = None,
) -> dict[str, Lost]:
    """Drop the gates that are met, and release nodes that have none left. Returns the nodes of
    impossible gates."""
    lost: dict[str, Lost] = {}
    free: list[str] = []
    several: list[Row] = []
    for job_id, n, flow, is_met, is_impossible, is_bad, losers, has_others in gates:
        if is_impossible:
            said = because.get((job_id, n), "a node that it needs has ended")
            if is_bad or job_id not in lost:
                lost[job_id] = Lost(bool(is_bad), said)
        elif is_met:
            if has_others:
                several.append((job_id, n))
            else:
                free.append(job_id)
            if losers == Losers.CANCEL:
                owe(tx, FlowId(flow), ErrandKind.LOSERS, JobId(job_id))
    if free:
        tx.run_for(free, steps("flows/settle")["drop gates"])
    if several:
        free += _without_gates(tx, several)
    release(tx, [job_id for job_id in free if job_id not in lost], taker)
    return lost


def _without_gates(tx: Transaction, met: Sequence[Row]) -> set[str]:
    """Drop met gates of nodes that have several; returns the nodes that have none left."""
    sql = steps("flows/settle")
    tx.each(sql["drop gate"], met)
    nodes = {job_id for job_id, _ in met}
    return nodes - {job_id for (job_id,) in tx.rows(sql["open gates"], (to_json(nodes),))}
