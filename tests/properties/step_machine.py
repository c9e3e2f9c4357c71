"""The machine learns to wait for signals and votes, and to undo steps.

Steps, sleeps and streams it knows from `machine`: F8, F10 and F11. Here come F9, F10 of waits, and
F13. All of it happens beside everything else that a store can be asked: cancels, deadlines, lost
workers, zombies, retries, unique keys that replace a job, flows.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import invariant, multiple, rule

from holdfast.flow.errands import do_errand
from holdfast.flow.ids import undo_flow_id
from holdfast.flow.model import ANY_END, Errand, ErrandKind, NodeInfo
from holdfast.job.ends import WasSuspended
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Claimed
from holdfast.job.retry import Retry
from holdfast.job.signal import NewSignal, Sent, SignalLimits
from holdfast.job.state import JobState as S
from holdfast.job.undo import Undo, encode_undo
from holdfast.job.vote import Invited, closing_step
from tests.conformance.builders import TASK
from tests.properties import always_true
from tests.properties import steps_always_true as always
from tests.properties.flow_machine import QUEUE, FlowMachine
from tests.properties.flow_model import ModelFlow
from tests.properties.flows_always_true import SeenFlow
from tests.properties.machine import StoreMachine, distinct
from tests.properties.model import ModelJob
from tests.support.flows import Wanted
from tests.support.formula import FlowModel

LIMITS = SignalLimits()
WAIT = "leads"
PLAIN = ["paid", "sent"]
PEOPLE = ["ann", "bob"]
VOTES = {who: Invited("", WAIT, who).signal for who in PEOPLE}
NAMES = [*PLAIN, *VOTES.values()]
POLICY = Policy(Retry.constant(2, 5.5, jitter=0), None, 2)
UNDO = encode_undo(Undo(TASK, "number", QUEUE, encode_policy(POLICY)))
UNDOS = [None, None, UNDO]
MOST_UNDONE = 4

signals = st.sampled_from(NAMES)
several = st.sets(signals, min_size=1, max_size=3)
patience = st.sampled_from([None, None, 3, 20])


class StepMachine(FlowMachine):
    """A store with plain jobs, flows, and jobs that wait for signals and undo what they did."""

    # Signals and votes

    @rule(chosen=st.lists(StoreMachine.jobs, min_size=1, max_size=2), name=st.sampled_from(PLAIN))
    def send_signal(self, chosen: list[JobId], name: str) -> None:
        """To jobs in any state, also to those that were removed; then the same once more."""
        for job in chosen:
            signal = NewSignal(job, name, "1", f"key {next(self.numbers)}")
            self._send(signal)
            self._send(signal)

    @rule(job=StoreMachine.jobs, who=st.sampled_from(PEOPLE))
    def vote(self, job: JobId, who: str) -> None:
        """A person answers, as often as chance says, and perhaps when the question is closed."""
        self._send(NewSignal(job, VOTES[who], "true", who, before=closing_step(WAIT)))

    def _send(self, signal: NewSignal) -> Sent:
        [sent] = self.do(self.store.signals.send([signal], LIMITS))
        assert sent is self.model.send(signal), "F9"
        self.settle_flows()
        return sent

    @rule(attempt=StoreMachine.attempts)
    def close_question(self, attempt: Claimed) -> None:
        """From here on every vote of this job is late."""
        record = self._record(attempt, closing_step(WAIT), result="true")
        assert self.do(self.store.steps.record([record])) == [self.model.record(record)]

    @rule(attempt=StoreMachine.attempts, names=several, seconds=patience)
    def wait_for_signals(self, attempt: Claimed, names: set[str], seconds: int | None) -> None:
        """By an attempt that runs or by a zombie."""
        self._wait_for(attempt, names, seconds)

    @rule(
        target=StoreMachine.attempts,
        worker=StoreMachine.workers,
        names=several,
        seconds=patience,
        early=st.booleans(),
    )
    def begin_and_wait(
        self, worker: WorkerId, names: set[str], seconds: int | None, early: bool
    ) -> Any:
        """Claimed, and left at once. A signal comes before that, or after it: both orders."""
        self.heartbeat(worker, [], caught_up=True)
        claimed = self._claim_each(worker, 2)
        for attempt in claimed:
            signal = NewSignal(attempt.id, min(names), "1", f"key {next(self.numbers)}")
            if early:
                self._send(signal)
            self._wait_for(attempt, names, seconds)
            if not early:
                self._send(signal)
        return multiple(*claimed)

    def _wait_for(self, attempt: Claimed, names: set[str], seconds: int | None) -> None:
        part = self.fractions[attempt.id]
        wait = None if seconds is None else seconds + part
        waits = tuple(
            self._record(attempt, f"wait {name}", awaits=name, seconds=wait)
            for name in sorted(names)
        )
        move = decide(attempt, WasSuspended(wait, f"waits for {min(names)}"))
        move = msgspec.structs.replace(move, steps=waits)
        [verdict] = self.do(self.store.jobs.finish([move]))
        assert verdict.accepted == self.model.apply(move)
        self.record.saw_end(verdict, move)
        self.settle_flows()

    @rule(attempt=StoreMachine.attempts, name=signals)
    def take_signal(self, attempt: Claimed, name: str) -> None:
        """The oldest of the name, by an attempt that runs or by a zombie."""
        job = self.model.jobs.get(attempt.id)
        if job is not None and (kept := job.kept(name)):
            record = self._record(attempt, f"took {next(self.numbers)}", result="1", takes=kept[0])
            assert self.do(self.store.steps.record([record])) == [self.model.record(record)]

    # Undoing

    @rule(chosen=st.lists(StoreMachine.attempts, min_size=1, max_size=3), twice=st.booleans())
    def do_something(self, chosen: list[Claimed], twice: bool) -> None:
        """A step that can be undone. Nodes of flows have none here: a flow that retries them has to
        know it, and `test_flows_undo` says what it does then."""
        for attempt in distinct(chosen):
            job = self.model.jobs.get(attempt.id)
            if job is None or job.is_node or len(job.undoable) >= MOST_UNDONE:
                continue
            for _ in range(1 + twice):
                n = next(self.numbers)
                record = self._record(attempt, f"did {n}", result=str(n), undo=UNDO)
                assert self.do(self.store.steps.record([record])) == [self.model.record(record)]

    @rule(target=StoreMachine.attempts, worker=StoreMachine.workers, undo=st.sampled_from(UNDOS))
    def do_otherwise(self, worker: WorkerId, undo: str | None) -> Any:
        """Jobs do something and are handed back; the next attempt is of other code, which records
        it anew: with its undo or without."""
        self.heartbeat(worker, [], caught_up=True)
        first = self._claim_each(worker, 1)
        self.do_something(first, twice=False)
        for attempt in first:
            self._finish(attempt, "hand back", heard=False)
        again = self._claim_each(worker, 1)
        for attempt in again:
            for known in self.model.jobs[attempt.id].undoable:
                record = self._record(attempt, known.name, result="0", undo=undo)
                assert self.do(self.store.steps.record([record])) == [self.model.record(record)]
        return multiple(*first, *again)

    @rule(
        target=StoreMachine.attempts,
        worker=StoreMachine.workers,
        end=st.sampled_from(["fail", "return", "cancel", "wait, and be cancelled", "die"]),
        soon=st.sampled_from([True, True, False]),
    )
    def do_and_end(self, worker: WorkerId, end: str, soon: bool) -> Any:
        """All in one: steps that can be undone, an end of any kind, and perhaps what that owes."""
        self.heartbeat(worker, [], caught_up=True)
        claimed = self._claim_each(worker, 1)
        self.do_something(claimed, twice=True)
        for attempt in claimed:
            if end.startswith("wait"):
                self._wait_for(attempt, {NAMES[0]}, None)
            if end.endswith(("cancel", "cancelled")):
                self._cancel(attempt.id)
                self._finish(attempt, "hand back", heard=False)
            elif end in ("fail", "return"):
                self._finish(attempt, end, heard=False)
        if soon:
            self.do_errands(dies=end == "die")
        return multiple(*claimed)

    def _after(self, errand: Errand) -> None:
        super()._after(errand)
        if is_undo(errand) and errand.job is not None:
            self._saw_undo_begin(errand.job)

    def _saw_undo_begin(self, job: JobId) -> None:
        """Let the model follow: the flow is there, whoever started it."""
        flow, twin = undo_flow_id(job), self.model.jobs.get(job)
        if flow in self.flows.flows or twin is None:
            return
        nodes = {one.name: one for one in self.do(self.store.flows.nodes(flow, 100))}
        assert bool(nodes) is twin.is_undone, "F13: only what ended badly is undone"
        if not nodes:
            return
        names = [one.name for one in reversed(twin.undoable)]
        assert sorted(nodes) == sorted(names), "F13: exactly the recorded steps"
        chain = {
            name: [Wanted(1, (names[place - 1],), ANY_END)] if place else []
            for place, name in enumerate(names)
        }
        formulas = FlowModel({**chain})
        formulas.sinks = frozenset(names)
        self.model.undoing.add(job)
        undo = ModelFlow(flow, formulas, {}, parent=job)
        self.flows.start(undo, {name: self._undo_twin(nodes[name]) for name in names})

    def _undo_twin(self, node: NodeInfo) -> ModelJob:
        self.fractions[node.job_id] = next(self.numbers) / 1000
        self.record.acknowledged.add(node.job_id)
        ties = self.do(self.store.jobs.get([node.job_id]))[0].ties
        state = S.BLOCKED if node.gates else S.READY
        return ModelJob(node.job_id, QUEUE, 0, POLICY, state, 0, ties=ties, is_node=True)

    def teardown(self) -> None:
        """F13: when faults stop, everything that is owed is undone."""
        try:
            self.do(self._undo_all())
        finally:
            super().teardown()

    async def _undo_all(self) -> None:
        drained = always_true.line_11_when_faults_stop_the_queue_drains
        await drained(self.store, self.clock)
        while owed := await self.store.flows.errands(1_000):
            for errand in owed:
                await do_errand(self.store, errand)
            await drained(self.store, self.clock)
        always.f13_when_faults_stop_all_is_undone(await SeenFlow.all_of(self.store))

    # What must hold after each of them

    @invariant()
    def what_is_always_true_of_steps_holds(self) -> None:
        """What the invariants before this one have seen is not read again."""
        waits = self.do(self.store.signals.waits(10_000))
        always.f9_what_was_sent_is_kept_or_taken_once(self.seen.signals, self.model.jobs)
        always.f10_a_suspended_job_waits_for_what_it_said(waits, self.model.jobs)
        always.f10_no_signal_is_overlooked(waits, self.seen.signals)
        owed = [one for one in self.do(self.store.flows.errands(1_000)) if is_undo(one)]
        always.f13_what_ended_badly_is_owed_or_begun(owed, self.seen_flows, self.model.jobs)
        always.f13_it_is_undone_in_reverse(self.seen_flows, self.flows.flows, self.model.jobs)


def is_undo(errand: Errand) -> bool:
    return errand.kind is ErrandKind.UNDO
