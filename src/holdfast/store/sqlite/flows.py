"""Flows on SQLite. The one writer makes every verb serial, so no flow needs a lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from holdfast.flow.elements import element_ids, element_names
from holdfast.flow.kept import is_unchecked, without_known, written_out
from holdfast.flow.model import (
    UNHELD,
    CloseWhat,
    ErrandKind,
    FlowId,
    FlowState,
    Grown,
    Growth,
    Mending,
    NewFlow,
    Reopening,
    is_bad_end,
)
from holdfast.job.ids import JobId
from holdfast.job.loopless import run_without_loop
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.job.what import What
from holdfast.store.borrowing_sqlite import run_on
from holdfast.store.contract.flows import Started
from holdfast.store.sqlite import happenings
from holdfast.store.sqlite.elements import add_elements
from holdfast.store.sqlite.flow_reading import SqliteFlowReading
from holdfast.store.sqlite.graphs import grow, keep_gates, replace_gates, write_flows
from holdfast.store.sqlite.happenings import NewHappening
from holdfast.store.sqlite.joining import borrowed_writer
from holdfast.store.sqlite.places import Narrow, line_up, wait_untimed
from holdfast.store.sqlite.releasing import release
from holdfast.store.sqlite.rows import (
    to_json,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.settling import judge_flows, owe, settle_left_over, take_from_live
from holdfast.store.sqlite.steps import begun_anew
from holdfast.store.sqlite.sweeping import remove
from holdfast.store.sqlite.transaction import Row, Transaction, Values

FLOWS_TOGETHER = 100


class SqliteFlows(SqliteFlowReading):
    """See `holdfast.store.contract.flows.Flows` for what each verb promises."""

    async def start(self, flows: Sequence[NewFlow]) -> list[Started]:
        """Many flows go in several transactions: others write in between."""
        answers: list[Started] = []
        for first in range(0, len(flows), FLOWS_TOGETHER):
            some = flows[first : first + FLOWS_TOGETHER]
            answers += await self._writer.write(partial(start, flows=some))
        return answers

    async def start_within(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        return await run_on(connection, lambda inner: self.start_within_sync(inner, flows))

    def start_within_sync(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        with borrowed_writer(connection, self._writer) as writer:
            return run_without_loop(SqliteFlows(writer).start(flows))

    async def extend(self, growths: Sequence[Growth]) -> list[Grown]:
        return await self._writer.write(lambda tx: [_extend(tx, growth) for growth in growths])

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

    async def settle(self, ids: Sequence[FlowId]) -> None:
        await self._writer.write(lambda tx: settle_left_over(tx, ids) if ids else None)

    async def let_go(self, flow: FlowId, jobs: Sequence[JobId]) -> None:
        values = {"flow": flow, "ids": to_json(jobs)}
        await self._writer.write(lambda tx: tx.run(script("flows/let_go"), values))

    async def done(self, errands: Sequence[str]) -> None:
        numbers = to_json(map(int, errands))
        await self._writer.write(lambda tx: tx.run(script("flows/done"), (numbers,)))

    async def mend(self, plans: Sequence[Mending]) -> list[FlowId]:
        return await self._writer.write(lambda tx: [plan.flow for plan in plans if _mend(tx, plan)])

    async def prune(self, limit: int) -> int:
        return await self._writer.write(lambda tx: _prune(tx, limit))


def _ids(tx: Transaction, sql: str, ids: Iterable[FlowId], values: Values) -> list[FlowId]:
    """The flows that the statement changed, in the order asked."""
    found = {flow for (flow,) in tx.rows(sql, values)}
    return [flow for flow in dict.fromkeys(ids) if flow in found]


def start(tx: Transaction, flows: Sequence[NewFlow]) -> list[Started]:
    """What stands for a flow, or against it, is looked up for all flows first; then all that may be
    are written together."""
    ids = to_json(flow.id for flow in flows)
    known: dict[str, str] = dict(tx.rows(steps("flows/start")["known"], (ids,)))
    keys: dict[str, FlowId] = {}
    answers: list[Started] = []
    new: list[NewFlow] = []
    for flow in flows:
        started = _not_startable(tx, flow, known, keys)
        if started is None:
            new.append(flow)
            known[flow.id] = flow.name
            if flow.unique_key is not None:
                keys[flow.unique_key] = flow.id
        answers.append(started or Started(flow.id, "created"))
    write_flows(tx, new)
    return answers


def _not_startable(
    tx: Transaction, flow: NewFlow, known: Mapping[str, str], keys: Mapping[str, FlowId]
) -> Started | None:
    """What stands for the flow, or against it; None if it may be written."""
    sql = steps("flows/start")
    if (name := known.get(flow.id)) is not None:
        return Started(flow.id, "created" if name == flow.name else "taken")
    if flow.unique_key is not None:
        if (holder := keys.get(flow.unique_key)) is not None:
            return Started(holder, "existing")
        for (found,) in tx.rows(sql["holder"], (flow.unique_key,)):
            return Started(FlowId(found), "existing")
    if flow.parent is not None and flow.fence != UNHELD:
        held = (int(Tie.PARENT), flow.parent, flow.fence)
        if not tx.changed(sql["hold parent"], held):
            return Started(flow.id, "not held")
    return None


def _extend(tx: Transaction, growth: Growth) -> Grown:
    sql = steps("flows/extend")
    state = tx.row(sql["state"], (growth.flow,))
    if state is None or state[0] not in (FlowState.RUNNING, FlowState.PAUSED):
        return Grown.OVER
    if not tx.rows(sql["held"], (growth.by, growth.fence, growth.flow)):
        return Grown.NOT_HELD
    if (new := growth.elements) is not None and new.are_plain:
        names = element_names(new.map, new.indexes)
        is_new = not tx.rows(sql["names"], (growth.flow, to_json(names)))
        if is_new and len(_blocked(tx, growth.flow, new.behind)) == len(new.behind):
            ids = element_ids(growth.by, new.indexes, new.anew)
            add_elements(tx, growth, new, ids, _note_growth(tx, growth, len(ids)))
            return Grown.GROWN
    if (left := _not_known(tx, written_out(growth))) is None:
        return Grown.GROWN
    if growth.epoch not in (None, state[1]) or is_unchecked(growth, left):
        return Grown.CHANGED
    targets = set(left.gates) - {node.job.id for node in left.nodes}
    gone = targets - _blocked(tx, left.flow, targets)
    if gone and not left.leaves_out_gone:
        return Grown.TARGET_GONE
    epoch = _note_growth(tx, left, len(left.nodes))
    gates = {job: some for job, some in left.gates.items() if job not in gone}
    grow(tx, left.flow, epoch, left.nodes, gates)
    if gone:
        skipped = tx.rows(sql["skipped"], (to_json(gone), left.flow))
        keep_gates(tx, left.flow, epoch, {job: left.gates[job] for (job,) in skipped})
    return Grown.GROWN


def _note_growth(tx: Transaction, growth: Growth, nodes: int) -> int:
    """The flow has so many nodes more; returns its epoch."""
    sql = steps("flows/extend")
    [(epoch,)] = tx.rows(sql["grown"], {"id": growth.flow, "nodes": nodes})
    tx.run(sql["graph"], {"flow_id": growth.flow, "graph": growth.graph})
    return int(epoch)


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


def _reopen(tx: Transaction, plan: Reopening, by: str | None) -> bool:
    sql = steps("flows/reopen")
    again, removed = {*plan.ready, *plan.blocked}, set(plan.removed)
    if not tx.rows(sql["may"], (plan.flow, plan.epoch)):
        return False
    ids, gone = to_json(again), to_json(removed)
    found = tx.rows(sql["ended"], (to_json(again | removed), plan.flow))
    anew = plan.counted_anew
    if len(found) < len(again | removed) or len(_blocked(tx, plan.flow, anew)) < len(anew):
        return False
    if tx.rows(sql["undone"], (to_json(again | removed),)):
        return False
    bad = sum(
        bool(is_sink) and is_bad_end(JobState(state), is_bad=bool(is_bad))
        for *_, state, is_sink, is_bad in found
    )
    tx.run(sql["no cancels"], (plan.flow,))
    tx.run(sql["drop outcome"], (ids,))
    tx.run(sql["not bad"], (ids,))
    tx.run(sql["drop kept gates"], (plan.flow, to_json(again | removed)))
    counts = {"nodes": len(again), "removed": len(removed), "failed": bad}
    tx.run(sql["flow"], {"id": plan.flow, **counts})
    _revive(tx, [row for row in found if row[0] in again], frozenset(plan.blocked), by)
    if removed:
        remove(tx, tx.rows(sql["jobs"], (gone,)), What.DELETED)
        tx.run(steps("flows/settle")["drop gates"], (gone,))
        tx.run(sql["remove nodes"], (gone,))
    if plan.graph:
        tx.run(steps("flows/extend")["graph"], {"flow_id": plan.flow, "graph": plan.graph})
    replace_gates(tx, plan.flow, {**plan.blocked, **plan.counted_anew})
    return True


def _blocked(tx: Transaction, flow: FlowId, jobs: Collection[JobId]) -> set[JobId]:
    """Those of these jobs that are blocked nodes of the flow."""
    if not jobs:
        return set()
    found = tx.rows(steps("flows/extend")["blocked"], (to_json(jobs), flow))
    return {JobId(job) for (job,) in found}


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
    there = _blocked(tx, plan.flow, plan.gates)
    tx.run(sql["recount"], {"id": plan.flow})
    tx.run(steps("flows/settle")["settled"], (to_json([plan.flow]),))
    replace_gates(tx, plan.flow, {one: plan.gates[one] for one in there})
    release(tx, [one for one in there if not plan.gates[one]])
    take_from_live(tx, plan.flow, ended=0, failed=0)
    return True


def _prune(tx: Transaction, limit: int) -> int:
    sql = steps("flows/prune")
    over = tx.rows(sql["over"], (tx.now, limit))
    for (flow,) in over:
        remove(tx, tx.rows(sql["jobs"], (flow,)), What.PRUNED)
        for step in ("gates", "nodes", "graph", "errands", "flow"):
            tx.run(sql[step], (flow,))
    return len(over)
