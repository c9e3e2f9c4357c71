"""Flows on SQLite. The one writer makes every verb serial, so no flow needs a lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.flow.kept import without_known
from holdfast.flow.model import (
    CloseWhat,
    Errand,
    ErrandKind,
    FlowId,
    FlowInfo,
    FlowState,
    GateInfo,
    Grown,
    Growth,
    Losers,
    Mending,
    NewEdge,
    NewFlow,
    NewGate,
    NewNode,
    NodeInfo,
    NodeInput,
    Reopening,
    is_bad_end,
)
from holdfast.job.ids import JobId
from holdfast.job.loopless import run_without_loop
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.job.what import What
from holdfast.store.borrowing_sqlite import run_on
from holdfast.store.contract.flows import FlowFilter, FlowPage, Started
from holdfast.store.sqlite import happenings
from holdfast.store.sqlite.happenings import NewHappening
from holdfast.store.sqlite.inserting import insert
from holdfast.store.sqlite.joining import borrowed_writer
from holdfast.store.sqlite.places import Narrow, line_up, wait_untimed
from holdfast.store.sqlite.rows import (
    to_datetime,
    to_json,
    to_micros,
    to_optional_datetime,
    to_texts,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.settling import end_flow, judge_flows, left_over, owe, release, settle
from holdfast.store.sqlite.steps import begun_anew
from holdfast.store.sqlite.sweeping import remove
from holdfast.store.sqlite.transaction import Row, Transaction, Values
from holdfast.store.sqlite.writer import Verbs

Gates = Mapping[JobId, Sequence[NewGate]]


class SqliteFlows(Verbs):
    """See `holdfast.store.contract.flows.Flows` for what each verb promises."""

    async def start(self, flows: Sequence[NewFlow]) -> list[Started]:
        return await self._writer.write(lambda tx: start(tx, flows))

    async def start_within(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        return await run_on(connection, lambda inner: self.start_within_sync(inner, flows))

    def start_within_sync(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        with borrowed_writer(connection, self._writer) as writer:
            return run_without_loop(SqliteFlows(writer).start(flows))

    async def extend(self, growths: Sequence[Growth]) -> list[Grown]:
        return await self._writer.write(lambda tx: [_extend(tx, growth) for growth in growths])

    async def inputs(self, ids: Sequence[JobId]) -> dict[JobId, NodeInput]:
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/inputs"), (to_json(ids),)))
        return {
            JobId(job_id): NodeInput(FlowId(flow), flow_name, FlowState(state), name, inputs)
            for job_id, flow, flow_name, state, name, inputs in rows
        }

    async def pause(self, ids: Sequence[FlowId], reason: str | None = None) -> list[FlowId]:
        values = {"ids": to_json(ids), "reason": reason}
        return await self._writer.write(lambda tx: _ids(tx, script("flows/pause"), ids, values))

    async def resume(self, ids: Sequence[FlowId]) -> list[FlowId]:
        def work(tx: Transaction) -> list[FlowId]:
            resumed = _ids(tx, script("flows/resume"), ids, (to_json(ids),))
            judge_flows(tx, resumed)
            return resumed

        return await self._writer.write(work)

    async def close(
        self, ids: Sequence[FlowId], what: CloseWhat, reason: str | None = None
    ) -> list[FlowId]:
        def work(tx: Transaction) -> list[FlowId]:
            values: dict[str, object] = {"ids": to_json(ids)}
            step = "live"
            if what is not CloseWhat.BLOCKED:
                step, values["reason"] = "cancelling", reason
            closed = _ids(tx, steps("flows/close")[step], ids, values)
            for flow in closed:
                owe(tx, flow, ErrandKind.CLOSE, what=what)
            return closed

        return await self._writer.write(work)

    async def reopen(self, plans: Sequence[Reopening], by: str | None = None) -> list[FlowId]:
        return await self._writer.write(
            lambda tx: [plan.flow for plan in plans if _reopen(tx, plan, by)]
        )

    async def errands(self, limit: int, after: str | None = None) -> list[Errand]:
        values = (int(after or 0), limit)
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/errands"), values))
        return [
            Errand(
                str(number),
                FlowId(flow),
                ErrandKind(kind),
                None if job is None else JobId(job),
                None if what is None else CloseWhat(what),
                to_datetime(at),
            )
            for number, flow, kind, job, what, at in rows
        ]

    async def settle(self, ids: Sequence[FlowId]) -> None:
        await self._writer.write(
            lambda tx: settle(tx, left_over(tx, ids), are_new=False) if ids else None
        )

    async def done(self, errands: Sequence[str]) -> None:
        numbers = to_json(map(int, errands))
        await self._writer.write(lambda tx: tx.run(script("flows/done"), (numbers,)))

    async def mend(self, plans: Sequence[Mending]) -> list[FlowId]:
        return await self._writer.write(lambda tx: [plan.flow for plan in plans if _mend(tx, plan)])

    async def get(self, ids: Sequence[FlowId]) -> list[FlowInfo]:
        return await self._writer.read(
            lambda tx: [_flow(row) for row in tx.rows(script("flows/get"), (to_json(ids),))]
        )

    async def page(self, which: FlowFilter, limit: int, cursor: str | None = None) -> FlowPage:
        created_after, created_before = which.created_after, which.created_before
        values = {
            "ids": to_json(which.ids) if which.ids else None,
            "states": to_json(which.states) if which.states else None,
            "names": to_json(which.names) if which.names else None,
            "tags": to_json(which.tags),
            "created_after": None if created_after is None else to_micros(created_after),
            "created_before": None if created_before is None else to_micros(created_before),
            "cursor": cursor,
            "limit": limit + 1,
        }
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/page"), values))
        flows = tuple(_flow(row) for row in rows[:limit])
        return FlowPage(flows, flows[-1].id if len(rows) > limit else None)

    async def count(self) -> dict[FlowState, int]:
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/count")))
        return {FlowState(state): flows for state, flows in rows}

    async def nodes(self, flow: FlowId, limit: int, after: str | None = None) -> list[NodeInfo]:
        values = {"flow": flow, "limit": limit, "after": after or ""}
        return await self._writer.read(lambda tx: _nodes(tx, values))

    async def graph(self, flow: FlowId) -> list[str]:
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/graph"), (flow,)))
        return [text for (text,) in rows]

    async def prune(self, limit: int) -> int:
        return await self._writer.write(lambda tx: _prune(tx, limit))


def _ids(tx: Transaction, sql: str, ids: Iterable[FlowId], values: Values) -> list[FlowId]:
    """The flows that the statement changed, in the order asked."""
    found = {flow for (flow,) in tx.rows(sql, values)}
    return [flow for flow in dict.fromkeys(ids) if flow in found]


# Writing graphs ---------------------------------------------------------------------------------


def start(tx: Transaction, flows: Sequence[NewFlow]) -> list[Started]:
    """Each flow first, so that the next one sees its key; then the nodes of all new ones."""
    answers: list[Started] = []
    new: list[NewFlow] = []
    for flow in flows:
        started = _not_startable(tx, flow)
        if started is None:
            _insert(tx, flow)
            new.append(flow)
        answers.append(started or Started(flow.id, "created"))
    _add(tx, {flow.id: flow.nodes for flow in new})
    return answers


def _not_startable(tx: Transaction, flow: NewFlow) -> Started | None:
    """What stands for the flow, or against it; None if it may be written."""
    sql = steps("flows/start")
    if (known := tx.row(sql["known"], (flow.id,))) is not None:
        return Started(flow.id, "created" if known[1] == flow.name else "taken")
    if flow.unique_key is not None:
        for (holder,) in tx.rows(sql["holder"], (flow.unique_key,)):
            return Started(FlowId(holder), "existing")
    if flow.parent is not None:
        held = (int(Tie.PARENT), flow.parent, flow.fence)
        if not tx.changed(sql["hold parent"], held):
            return Started(flow.id, "not held")
    return None


def _insert(tx: Transaction, flow: NewFlow) -> None:
    sql = steps("flows/start")
    values = {
        "id": flow.id,
        "name": flow.name,
        "total": len(flow.nodes),
        "unique_key": flow.unique_key,
        "tags": to_json(flow.tags) if flow.tags else None,
        "parent": flow.parent,
        "keep": msgspec.json.encode(flow.keep).decode(),
        "now": tx.now,
    }
    tx.run(sql["flow"], values)
    tx.run(sql["graph"], {"flow_id": flow.id, "graph": flow.graph})


def _add(tx: Transaction, nodes_of: Mapping[FlowId, Sequence[NewNode]]) -> None:
    nodes = [(flow, node) for flow, some in nodes_of.items() for node in some]
    insert(tx, [node.job for _, node in nodes])
    tx.each(
        steps("flows/start")["node"],
        [(one.job.id, flow, one.name, one.is_sink, one.delay, one.inputs) for flow, one in nodes],
    )
    rows: list[Row] = []
    edges: list[Row] = []
    for flow, node in nodes:
        _write_gates(flow, node.job.id, node.gates, 0, rows, edges)
    tx.each(steps("flows/start")["gate"], rows)
    tx.each(steps("flows/start")["edge"], edges)


def _write_gates(
    flow: FlowId,
    job_id: JobId,
    gates: Sequence[NewGate],
    first: int,
    rows: list[Row],
    edges: list[Row],
) -> None:
    """The rows of the gates of one node, and of their edges."""
    for n, gate in enumerate(gates, first):
        rows.append((job_id, n, flow, gate.need, gate.total, gate.losers.value))
        edges += [(edge.upstream, job_id, n, edge.wants) for edge in gate.edges]


def _add_gates(tx: Transaction, flow: FlowId, gates: Gates, first: int | None = None) -> None:
    """Add gates with their edges; behind those that a node has, unless the `first` number is
    given."""
    sql = steps("flows/start")
    rows: list[Row] = []
    edges: list[Row] = []
    for job_id, some in gates.items():
        number = tx.rows(sql["next gate"], (job_id,))[0][0] if first is None else first
        _write_gates(flow, job_id, some, number, rows, edges)
    tx.each(sql["gate"], rows)
    tx.each(sql["edge"], edges)


def _extend(tx: Transaction, growth: Growth) -> Grown:
    sql = steps("flows/extend")
    state = tx.row(sql["state"], (growth.flow,))
    if state is None or state[0] not in (FlowState.RUNNING, FlowState.PAUSED):
        return Grown.OVER
    if not tx.rows(sql["held"], (growth.by, growth.fence, growth.flow)):
        return Grown.NOT_HELD
    if (left := _not_known(tx, growth)) is None:
        return Grown.GROWN
    if not _are_blocked(tx, set(left.gates) - {node.job.id for node in left.nodes}):
        return Grown.TARGET_GONE
    tx.run(sql["grown"], {"id": left.flow, "nodes": len(left.nodes)})
    tx.run(steps("flows/start")["graph"], {"flow_id": left.flow, "graph": left.graph})
    _add(tx, {left.flow: left.nodes})
    _add_gates(tx, left.flow, left.gates)
    if left.gates or any(node.gates for node in left.nodes):
        _count_ended(tx, left.flow)
    return Grown.GROWN


def _not_known(tx: Transaction, growth: Growth) -> Growth | None:
    """What of the growth is new to its flow; None if nothing is."""
    sql = steps("flows/extend")
    if not growth.nodes:
        is_known = tx.rows(sql["grown before"], (growth.flow, growth.graph))
        return None if is_known else growth
    names = to_json(node.name for node in growth.nodes)
    known = {name: JobId(job) for name, job in tx.rows(sql["names"], (growth.flow, names))}
    left = without_known(growth, known)
    return left if left.nodes else None


def _count_ended(tx: Transaction, flow: FlowId) -> None:
    """Count the edges whose upstream had ended before they were written, and judge all gates."""
    settle(tx, left_over(tx, [flow]), are_new=False)
    judge_flows(tx, [flow])


def _reopen(tx: Transaction, plan: Reopening, by: str | None) -> bool:
    sql = steps("flows/reopen")
    named = [*plan.ready, *plan.blocked]
    if not tx.rows(sql["may"], (plan.flow, plan.epoch)):
        return False
    rows = tx.rows(sql["ended"], (to_json(named), plan.flow))
    if len(rows) < len(set(named)) or not _are_blocked(tx, plan.counted_anew):
        return False
    ids = to_json(named)
    bad = sum(
        bool(is_sink) and is_bad_end(JobState(state), is_bad=bool(is_bad))
        for *_, state, is_sink, is_bad in rows
    )
    tx.run(sql["no cancels"], (plan.flow,))
    tx.run(sql["drop outcome"], (ids,))
    tx.run(sql["not bad"], (ids,))
    tx.run(sql["flow"], {"id": plan.flow, "nodes": len(rows), "failed": bad})
    _revive(tx, rows, frozenset(plan.blocked), by)
    _add_gates(tx, plan.flow, plan.blocked, first=0)
    _replace_gates(tx, plan.flow, plan.counted_anew)
    _count_ended(tx, plan.flow)
    return True


def _are_blocked(tx: Transaction, jobs: Iterable[JobId]) -> bool:
    wanted = set(jobs)
    return len(tx.rows(steps("flows/extend")["blocked"], (to_json(wanted),))) == len(wanted)


def _replace_gates(tx: Transaction, flow: FlowId, gates: Gates) -> None:
    ids = to_json(gates)
    for step in ("drop gates", "drop edges"):
        tx.run(steps("flows/settle")[step], (ids,))
    _add_gates(tx, flow, gates, first=0)


def _revive(
    tx: Transaction, rows: Sequence[Row], blocked: frozenset[JobId], by: str | None
) -> None:
    ready: list[Narrow] = []
    waiting: list[Narrow] = []
    told: list[NewHappening] = []
    ended = [Narrow._make(columns) for *columns, _, _, _ in rows]
    for row, before, (*_, state, _, _) in zip(begun_anew(tx, ended), ended, rows, strict=True):
        told.append(happenings.waiting(before, What.REQUEUED, by, state))
        to = JobState.BLOCKED if row.job_id in blocked else JobState.READY
        (waiting if row.job_id in blocked else ready).append(row)
        tx.count(row.queue, row.task, state, to, What.REQUEUED)
    wait_untimed(tx, JobState.BLOCKED, waiting)
    line_up(tx, ready)
    happenings.tell(tx, told)


def _mend(tx: Transaction, plan: Mending) -> bool:
    sql = steps("flows/mend")
    if not tx.rows(sql["may"], (plan.flow, plan.epoch)):
        return False
    tx.run(sql["revive"], {"id": plan.flow})
    blocked = tx.rows(steps("flows/extend")["blocked"], (to_json(plan.gates),))
    there = {JobId(job_id) for (job_id,) in blocked}
    tx.run(sql["recount"], {"id": plan.flow})
    _replace_gates(tx, plan.flow, {one: plan.gates[one] for one in there})
    release(tx, [one for one in there if not plan.gates[one]])
    _count_ended(tx, plan.flow)
    _end_if_over(tx, plan.flow)
    return True


def _end_if_over(tx: Transaction, flow: FlowId) -> None:
    values = {"id": flow, "ended": 0, "failed": 0}
    [(left, failed, cancel_asked, keep)] = tx.rows(steps("flows/settle")["ended"], values)
    if left == 0:
        end_flow(tx, flow, failed, bool(cancel_asked), keep)


# Reading ----------------------------------------------------------------------------------------


def _flow(row: Row) -> FlowInfo:
    flow, name, state, total, live, failed, epoch, created_at, key, tags, parent, *rest = row
    reason, finished_at, expires_at = rest
    return FlowInfo(
        id=FlowId(flow),
        name=name,
        state=FlowState(state),
        total=total,
        open=live,
        failed=failed,
        epoch=epoch,
        created_at=to_datetime(created_at),
        unique_key=key,
        tags=to_texts(tags),
        parent=None if parent is None else JobId(parent),
        reason=reason,
        finished_at=to_optional_datetime(finished_at),
        expires_at=to_optional_datetime(expires_at),
    )


def _nodes(tx: Transaction, values: Mapping[str, object]) -> list[NodeInfo]:
    sql = steps("flows/nodes")
    rows = tx.rows(sql["nodes"], values)
    ids = to_json(row[1] for row in rows if row[2] == JobState.BLOCKED)
    edges: dict[tuple[str, int], list[NewEdge]] = {}
    for downstream, n, upstream, wants in tx.rows(sql["edges"], (ids,)):
        edges.setdefault((downstream, n), []).append(NewEdge(JobId(upstream), wants))
    gates: dict[str, list[GateInfo]] = {}
    for job_id, n, need, total, won, lost, losers in tx.rows(sql["gates"], (ids,)):
        open_edges = tuple(edges.get((job_id, n), ()))
        gate = GateInfo(n, need, total, won, lost, Losers(losers), open_edges)
        gates.setdefault(job_id, []).append(gate)
    return [
        NodeInfo(
            name=name,
            job_id=JobId(job_id),
            state=JobState(state),
            is_sink=bool(is_sink),
            task=task,
            queue=queue,
            attempts=attempts,
            reason=reason,
            gates=tuple(gates.get(job_id, ())),
            finished_at=to_optional_datetime(finished_at),
        )
        for name, job_id, state, is_sink, task, queue, attempts, reason, finished_at in rows
    ]


def _prune(tx: Transaction, limit: int) -> int:
    sql = steps("flows/prune")
    over = tx.rows(sql["over"], (tx.now, limit))
    for (flow,) in over:
        remove(tx, tx.rows(sql["jobs"], (flow,)), What.PRUNED)
        for step in ("nodes", "gates", "graph", "errands", "flow"):
            tx.run(sql[step], (flow,))
    return len(over)
