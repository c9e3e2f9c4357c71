"""The machine learns flows: they start, grow, are paused, cancelled and retried, their nodes are
claimed, end, crash and are ended by zombies as any job; and what they owe is done, or half done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, rule

from holdfast.errors import BadFlow, StoreUnavailable
from holdfast.flow.errands import CLOSED, MEANT, do_errand
from holdfast.flow.graph import Graph, encode_graph
from holdfast.flow.ids import new_flow_id, new_node_id
from holdfast.flow.losers import losers_of, skipped_behind
from holdfast.flow.model import (
    ANY_END,
    FAILURE,
    SUCCESS,
    CloseWhat,
    Errand,
    ErrandKind,
    FlowId,
    FlowState,
    Grown,
    Growth,
    Losers,
    NewFlow,
    NewNode,
)
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import Cancelled, Skipped
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.record import Claimed, Job, NewJob
from holdfast.job.retry import Retry
from holdfast.job.state import JobState as S
from holdfast.job.ties import Tie
from holdfast.job.what import What
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Capability, Room, Want
from tests.conformance.builders import RETURNED, TASK, new_job
from tests.properties import flows_always_true as always
from tests.properties.flow_model import KEPT, FlowsModel, ModelFlow
from tests.properties.flows_always_true import SeenFlow
from tests.properties.machine import StoreMachine
from tests.properties.model import ModelJob
from tests.properties.orders import ends
from tests.support.flaky import FlakyStore, Line
from tests.support.flows import Waits, Wanted, gates_of
from tests.support.formula import FlowModel

QUEUE = "nodes"
MOST_FLOWS = 4
NODE_VERBS = ["cancel", "requeue", "postpone", "hasten", "hurry", "edit", "delete", "resume"]


@st.composite
def waits_for(draw: st.DrawFn, names: Sequence[str]) -> list[Wanted | str]:
    """Up to two gates of any kind over these nodes."""
    gates: list[Wanted | str] = []
    for _ in range(draw(st.integers(0, 2)) if names else 0):
        some = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        need = draw(st.integers(1, len(some)))
        wants = draw(st.sampled_from([SUCCESS, SUCCESS, FAILURE, ANY_END]))
        gates.append(Wanted(need, tuple(some), wants, draw(st.sampled_from(list(Losers)))))
    return gates


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Waits]:
    names = [f"n{number}" for number in range(draw(st.integers(1, 6)))]
    return {name: draw(waits_for(names[:place])) for place, name in enumerate(names)}


places = st.integers(0, 20)
LAST = st.sampled_from(["return", "return", "return", "fail"])


class FlowMachine(StoreMachine):
    """A store with plain jobs and flows."""

    node_attempts = Bundle("node_attempts")
    seen_flows: dict[FlowId, SeenFlow]

    def __init__(self) -> None:
        super().__init__()
        self.flows = FlowsModel(self.model)
        steady = QueueSettings(throttle_base=0.3, throttle_cap=0.3)
        self.do(self.store.queues.ensure({QUEUE: steady}))

    def flow(self, place: int) -> ModelFlow | None:
        known = sorted(self.flows.flows)
        return self.flows.flows[known[place % len(known)]] if known else None

    # Writing graphs

    @initialize(some=st.lists(graphs(), min_size=2, max_size=3))
    def first_flows(self, some: list[dict[str, Waits]]) -> None:
        for graph in some:
            self.start_flow(graph, None, lost=False)

    @rule(graph=graphs(), key=st.sampled_from([None, None, "k"]), lost=st.booleans())
    def start_flow(self, graph: dict[str, Waits], key: str | None, lost: bool) -> None:
        """With a `lost` answer the caller starts the same flow again."""
        if len(self.flows.flows) >= MOST_FLOWS:
            return
        flow = new_flow_id(key)
        ids = {name: new_node_id(flow) for name in graph}
        formulas = FlowModel(dict(graph))
        nodes = [self._node(name, ids, graph[name], name in formulas.sinks) for name in graph]
        new = NewFlow(
            id=flow,
            name="walk",
            nodes=tuple(nodes),
            graph=encode_graph(nodes),
            unique_key=key,
            keep={FlowState.SUCCEEDED: KEPT, FlowState.FAILED: KEPT, FlowState.CANCELLED: KEPT},
        )
        holder = self.flows.holder(key)
        expected = (flow, "created") if holder is None else (holder.id, "existing")
        for _ in range(1 + lost):
            [started] = self.do(self.store.flows.start([new]))
            assert (started.id, started.how) == expected
        if holder is None:
            twin = ModelFlow(flow, formulas, {}, key)
            self.flows.start(twin, {node.name: self._twin(node.job) for node in nodes})

    def _node(self, name: str, ids: dict[str, JobId], waits: Waits, is_sink: bool) -> NewNode:
        gates = gates_of(waits, ids)
        job = new_job(
            policy=Policy(Retry.constant(2, 5.5, jitter=0), None, 2),
            id=ids[name],
            queue=QUEUE,
            ties=int(Tie.NODE),
            blocked=bool(gates),
        )
        return NewNode(name, job, gates, is_sink=is_sink)

    def _twin(self, job: NewJob) -> ModelJob:
        self.fractions[job.id] = next(self.numbers) / 1000
        self.record.acknowledged.add(job.id)
        state = S.BLOCKED if job.blocked else S.READY
        policy = Policy(Retry.constant(2, 5.5, jitter=0), None, 2)
        return ModelJob(job.id, QUEUE, 0, policy, state, 0, ties=job.ties, is_node=True)

    @rule(attempt=node_attempts, waits=st.data(), twice=st.booleans())
    def extend_flow(self, attempt: Claimed, waits: st.DataObject, twice: bool) -> None:
        """By a node that runs, or by a zombie."""
        twin = self.flows.flow_of(attempt.id)
        if twin is None or len(twin.ids) > 9:
            return
        name = f"x{len(twin.ids)}"
        target = waits.draw(st.none() | st.sampled_from(sorted(twin.ids)))
        behind = set() if target is None else twin.formulas.behind(target)
        own = waits.draw(waits_for(sorted(twin.ids.keys() - behind)))  # a worker refuses a cycle
        ids = {**twin.ids, name: new_node_id(twin.id)}
        node = self._node(name, ids, own, target is None)
        more = {} if target is None else {ids[target]: gates_of([name], ids)}
        growth = Growth(
            flow=twin.id,
            by=attempt.id,
            fence=attempt.fence,
            nodes=(node,),
            gates=more,
            graph=encode_graph((node,), more),
        )
        expected = self._grown(twin, attempt, target)
        for _ in range(1 + twice):
            assert self.do(self.store.flows.extend([growth])) == [expected]
        if expected is Grown.GROWN:
            self.flows.add(twin, {name: self._twin(node.job)})
            twin.formulas.grow({name: own}, {} if target is None else {target: [name]})
            self.flows.settle([twin])

    def _grown(self, twin: ModelFlow, attempt: Claimed, target: str | None) -> Grown:
        job = self.model.jobs[attempt.id]
        if twin.formulas.flow not in (FlowState.RUNNING, FlowState.PAUSED):
            return Grown.OVER
        if (job.state, job.fence) != (S.RUNNING, attempt.fence):
            return Grown.NOT_HELD
        blocked = target is None or self.model.jobs[twin.ids[target]].state is S.BLOCKED
        return Grown.GROWN if blocked else Grown.TARGET_GONE

    # Working

    @rule(
        targets=(StoreMachine.attempts, node_attempts),
        worker=StoreMachine.workers,
        hows=st.lists(ends, max_size=6),
    )
    def work_on_nodes(self, worker: WorkerId, hows: list[str]) -> Any:
        """Claim all nodes that are ready, and end some."""
        begun = self._claim_nodes(worker)
        for job, how in zip(begun, hows, strict=False):
            self._finish(job, how, heard=False)
        return multiple(*begun)

    @rule(worker=StoreMachine.workers, hows=st.lists(LAST, min_size=3, max_size=8))
    def run_flows(self, worker: WorkerId, hows: list[str]) -> None:
        """Let flows run on, round by round: each node ends for good."""
        self.heartbeat(worker, [], caught_up=True)
        left = iter(hows)
        while begun := self._claim_nodes(worker):
            for job in begun:
                if (how := next(left, None)) is None:
                    return
                self._finish(job, how, heard=False)

    def _claim_nodes(self, worker: WorkerId) -> list[Claimed]:
        """F6: what belongs to a flow that is being cancelled ends where its handler would begin."""
        claimed = self.do(self.store.jobs.claim(worker, [Want(QUEUE, 1_000)], [TASK]))
        assert {job.id for job in claimed} == set(self.model.claim(worker, QUEUE, 1_000))
        for job in claimed:
            self.model.jobs[job.id].fence = job.fence
        told = self.do(self.store.flows.inputs([job.id for job in claimed]))
        begun = []
        for job in claimed:
            twin = self.flows.flow_of(job.id)
            assert twin is not None
            assert told[job.id].flow_state is twin.formulas.flow, "F6: a claim brings the state"
            closing = twin.formulas.flow is FlowState.CANCELLING
            assert job.node is None or job.node.closing is closing
            if closing:
                self._end_node(job, Cancelled(CLOSED))
            else:
                begun.append(job)
        return begun

    @rule(
        targets=(StoreMachine.attempts, node_attempts),
        worker=StoreMachine.workers,
        attempt=node_attempts,
    )
    def hand_over(self, worker: WorkerId, attempt: Claimed) -> Any:
        """What comes with an end is what a claim would have given first."""
        if Capability.HAND_OVER not in self.store.capabilities:
            return multiple()
        move, room = decide(attempt, RETURNED), Room(worker, [QUEUE], [TASK])
        verdict, brought = self.do(self.store.jobs.hand_over(move, room))
        assert verdict.accepted == self.model.apply(move)
        self.record.saw_end(verdict, move)
        self.flows.settle()
        if brought is None:
            return multiple()
        assert [brought.id] == self.model.claim(worker, QUEUE, 1)
        self._saw_claim(brought)
        return multiple(brought)

    @rule(attempt=node_attempts)
    def skip_node(self, attempt: Claimed) -> None:
        """The handler asks for it."""
        self._end_node(attempt, Skipped("nothing to do"))

    def _end_node(self, attempt: Claimed, end: Cancelled | Skipped) -> None:
        move = decide(attempt, end)
        [verdict] = self.do(self.store.jobs.finish([move]))
        assert verdict.accepted == self.model.apply(move)
        self.record.saw_end(verdict, move)
        self.flows.settle()

    @rule(place=places, number=places, verb=st.sampled_from(NODE_VERBS))
    def operate_on_node(self, place: int, number: int, verb: str) -> None:
        if (twin := self.flow(place)) is not None:
            ids = sorted(twin.ids.values())
            getattr(self, f"_{verb}")(ids[number % len(ids)])

    def settle_flows(self) -> None:
        self.flows.settle()

    # Operating

    @rule(place=places, pause=st.booleans())
    def pause_or_resume_flow(self, place: int, pause: bool) -> None:
        if (twin := self.flow(place)) is None:
            return
        source, to = (FlowState.RUNNING, FlowState.PAUSED)[:: 1 if pause else -1]
        verb = self.store.flows.pause if pause else self.store.flows.resume
        expected = [twin.id] if twin.formulas.flow is source else []
        assert self.do(verb([twin.id])) == expected
        if expected:
            twin.formulas.flow = to
            self.flows.settle([twin])

    @rule(place=places, what=st.sampled_from(list(CloseWhat)))
    def close_flow(self, place: int, what: CloseWhat) -> None:
        if (twin := self.flow(place)) is None:
            return
        assert self.do(self.store.flows.close([twin.id], what)) == [twin.id] * twin.is_live
        if twin.is_live and what is not CloseWhat.BLOCKED:
            twin.formulas.flow, twin.formulas.cancel_asked = FlowState.CANCELLING, True

    @rule(place=places, cascade=st.booleans(), lost=st.booleans())
    def retry_flow(self, place: int, cascade: bool, lost: bool) -> None:
        if (twin := self.flow(place)) is None:
            return
        seen = self.do(SeenFlow.all_of(self.store))[twin.id]
        try:
            plan = plan_retry(seen.info, seen.graph, list(seen.nodes.values()), cascade=cascade)
        except BadFlow:
            return
        if not plan.again and not plan.wait:
            return
        may = twin.formulas.flow is not FlowState.CANCELLING and not self._owes_cancels(twin)
        may &= self.flows.holder(twin.key) in (None, twin)
        assert self.do(self.store.flows.reopen([plan.reopening])) == [twin.id] * may
        if may:
            again, wait = set(plan.again), set(plan.wait)
            for name in again | wait:
                self.record.saw_requeue(twin.ids[name])
            self.flows.reopen(twin, again, wait)
        if lost:
            assert self.do(self.store.flows.reopen([plan.reopening])) == []

    def _owes_cancels(self, twin: ModelFlow) -> bool:
        owed = self.do(self.store.flows.errands(1_000))
        cancels = (ErrandKind.LOSERS, ErrandKind.CLOSE)
        return twin.is_live and any(one.flow == twin.id and one.kind in cancels for one in owed)

    @rule(dies=st.booleans())
    def do_errands(self, dies: bool) -> None:
        """Whoever does them may die before it can say so: then another one does them again."""
        for errand in self.do(self.store.flows.errands(1_000)):
            line = Line()
            line.refuse = {"done"} if dies else set()
            self._let_go(errand)
            try:
                self.do(do_errand(FlakyStore(self.store, line), errand))
            except StoreUnavailable:
                assert dies
            self._after(errand)

    def _let_go(self, errand: Errand) -> None:
        twin = self.flows.flows.get(errand.flow)
        if twin is None or errand.kind is not ErrandKind.LOSERS or errand.job is None:
            return
        graph = Graph(self.do(self.store.flows.graph(twin.id)))
        nodes = self.do(self.store.flows.nodes(twin.id, 1_000))
        states = {node.job_id: node.state for node in nodes}
        losers = losers_of(graph, errand.job, states)
        spared = skipped_behind(graph, losers, states)
        twin.formulas.let_go |= {graph.names[job] for job in spared}

    def _after(self, errand: Errand) -> None:
        """Let the model follow: which nodes were meant, the errand says, and F7 what may not be."""
        if (twin := self.flows.flows.get(errand.flow)) is None:
            return
        before = {name: self.model.jobs[job].state for name, job in twin.ids.items()}
        shown = self.do(self.store.jobs.get(list(twin.ids.values())))
        reached = {job.id for job in shown if self._follow(job)}
        if errand.kind is ErrandKind.LOSERS:
            assert not reached & self._needed(twin), "F7: an open gate needs it"
        meant = frozenset() if errand.what is None else MEANT[errand.what]
        for name in [name for name, state in before.items() if state in meant]:
            own = self.model.jobs[twin.ids[name]]
            assert own.cancel or own.state is S.CANCELLED, f"{name} was meant"
        self.flows.settle([twin])

    def _follow(self, job: Job) -> bool:
        """Whether the errand reached this node."""
        own = self.model.jobs[job.id]
        if job.state is S.CANCELLED and own.state is not S.CANCELLED:
            self.flows.cancelled(own)
            return True
        asked = job.cancel_requested_at is not None
        return asked and not own.cancel and self.model.request_cancel(own.id)

    def _needed(self, twin: ModelFlow) -> set[JobId]:
        """Nodes that an open gate waits for, of a node that is blocked by now."""
        formulas = twin.formulas
        return {
            twin.ids[name]
            for other, job in twin.ids.items()
            if self.model.jobs[job].state is S.BLOCKED
            for gate in formulas.gates(other)
            if formulas.counted(gate)[0] < gate.need
            for name in gate.names
        }

    @rule()
    def prune_flows(self) -> None:
        owed = self.do(self.store.flows.errands(1_000))
        over = self.flows.prune({one.flow for one in owed if one.kind is ErrandKind.PARENT})
        assert self.do(self.store.flows.prune(1_000)) == len(over)
        self.record.removed |= {job for flow in over for job in flow.ids.values()}

    # What must hold after each of them

    @invariant()
    def what_is_always_true_of_flows_holds(self) -> None:
        seen = self.seen_flows = self.do(SeenFlow.all_of(self.store))
        always.f12_what_was_started_is_there_and_whole(seen, self.flows.flows.values())
        for flow, twin in self.flows.flows.items():
            always.f1_every_gate_equals_a_recount_of_its_edges(seen[flow])
            always.f2_nothing_that_is_decided_still_waits(seen[flow])
            always.f3_and_f4_every_node_is_where_its_formula_says(seen[flow], twin)
            always.f5_a_flow_counts_its_live_nodes_and_ends_as_its_sinks_say(seen[flow], twin)
        totals = self.do(self.store.telemetry.totals())
        released = sum(total.jobs for total in totals if total.what is What.RELEASED)
        expected = self.model.released + self.flows.released
        always.f3_a_node_leaves_blocked_once_per_opening(released, expected)
