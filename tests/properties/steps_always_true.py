"""What is always true of signals, waits and undone steps: F9, F10 and F13 of the design.

F8 and F11 are in `always_true`: every store machine records steps and writes frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.flow.ids import undo_flow_id
from holdfast.flow.model import Errand, FlowId
from holdfast.flow.undoing import NAME
from holdfast.job.ids import JobId
from holdfast.job.signal import Signal, SignalWait
from holdfast.job.state import ENDED, JobState
from tests.properties.flow_model import ModelFlow
from tests.properties.flows_always_true import SeenFlow
from tests.properties.model import ModelJob


def f9_what_was_sent_is_kept_or_taken_once(
    sent: Mapping[JobId, Sequence[Signal]], jobs: Mapping[JobId, ModelJob]
) -> None:
    """Sent = consumed + kept, each key once, each consumed by one step."""
    shown = {
        job: [(one.n, one.name, one.key, one.taken_by) for one in some]
        for job, some in sent.items()
    }
    assert shown == {
        job.id: [(n, one.name, one.key, one.taken_by) for n, one in enumerate(job.signals, 1)]
        for job in jobs.values()
        if job.signals
    }
    for job, some in shown.items():
        takers = [taken_by for *_, taken_by in some if taken_by is not None]
        assert len(takers) == len(set(takers)), f"{job}: one step took two signals"
        keys = [key for _, _, key, _ in some]
        assert len(keys) == len(set(keys)), f"{job}: a key counted twice"


def f10_a_suspended_job_waits_for_what_it_said(
    waits: Sequence[SignalWait], jobs: Mapping[JobId, ModelJob]
) -> None:
    """Whoever is suspended for signals waits for exactly those; nobody else waits."""
    shown = {(wait.id, wait.signal) for wait in waits}
    expected = {(job.id, name) for job in jobs.values() for name in job.awaited}
    assert shown == expected
    for job in jobs.values():
        assert not any(job.kept(name) for name in job.awaited), f"{job.id} waits for what is there"


def f10_no_signal_is_overlooked(
    waits: Sequence[SignalWait], sent: Mapping[JobId, Sequence[Signal]]
) -> None:
    kept = {(job, one.name) for job, some in sent.items() for one in some if one.taken_by is None}
    assert not kept & {(wait.id, wait.signal) for wait in waits}


def f13_what_ended_badly_is_owed_or_begun(
    owed: Sequence[Errand], seen: Mapping[FlowId, SeenFlow], jobs: Mapping[JobId, ModelJob]
) -> None:
    """A job may be removed while its debt is there still: its undo has begun, and whoever began it
    died before it could say so."""
    wanted = {undo_flow_id(job.id) for job in jobs.values() if job.is_undone}
    debts = {one.flow for one in owed}
    assert wanted <= debts | seen.keys(), "F13: neither owed nor begun"
    bad = {undo_flow_id(job.id) for job in jobs.values() if job.may_be_undone}
    assert debts & {undo_flow_id(job) for job in jobs} <= bad, (
        "F13: a debt of a job that did not end badly"
    )


def f13_it_is_undone_in_reverse(
    seen: Mapping[FlowId, SeenFlow],
    flows: Mapping[FlowId, ModelFlow],
    jobs: Mapping[JobId, ModelJob],
) -> None:
    """Undo runs for exactly the recorded steps; each begins only when those that were recorded
    after it have ended. An operator may let some run again."""
    for flow, twin in flows.items():
        job = None if twin.parent is None else jobs.get(twin.parent)
        if job is not None:
            names = [one.name for one in reversed(job.undoable)]
            nodes = seen[flow].nodes
            assert nodes.keys() - twin.grown == set(names), "F13: exactly these"
            if not twin.reopened:
                _begun_in_order([nodes[name].state for name in names])


def _begun_in_order(states: Sequence[JobState]) -> None:
    for place, state in enumerate(states):
        if state not in (JobState.BLOCKED, JobState.CANCELLED):
            before = states[:place]
            assert all(one in ENDED for one in before), f"F13: in reverse, one by one: {states}"


def f13_when_faults_stop_all_is_undone(seen: Mapping[FlowId, SeenFlow]) -> None:
    for flow in seen.values():
        if flow.info.name == NAME:
            live = [node.name for node in flow.nodes.values() if node.state not in ENDED]
            assert not live, f"F13: {live} of {flow.info.id} are not undone"
