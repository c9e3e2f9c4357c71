"""The examination behind `holdfast doctor`: every check says what it saw and what to do.

A reconciler mends what it can within seconds. So a check speaks up about what should have been
mended long ago, and about what no reconciler can mend: a queue that nobody serves, a task that
nobody knows, a clock that is wrong.

By default every check has a bounded cost. A deep examination reads every job and flow, recounts the
books, and can put both right.

The doctor changes no job, queue, schedule or worker; a correction of the books or of a flow is an
act of whoever asked for it. Two things are written by the verbs it uses: a
SQLite file of an older release is migrated when it is opened, and the search for broken deadlines
drops leftover deadline entries of jobs that have ended, as the deadline reconciler does.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.clock import utcnow
from holdfast.errors import StoreError, StoreUnavailable
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.checks import (
    check_policies,
    check_running,
    check_tasks,
    check_waiting,
)
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.insights.flow_checks import Tell, check_flows, check_parents
from holdfast.insights.limits import check_limits
from holdfast.insights.operation_checks import check_operations
from holdfast.insights.schedule_checks import check_schedules
from holdfast.insights.signals import check_signals
from holdfast.insights.worker_checks import check_pauses, check_queues, check_workers
from holdfast.insights.workforce import read_workforce
from holdfast.job.text import counted
from holdfast.store.contract.audit import Act, ActOutcome, new_act_id
from holdfast.store.contract.health import MISPLACED, Looked
from holdfast.store.contract.queues import EVERY_QUEUE
from holdfast.store.contract.store import Store
from holdfast.store.contract.telemetry import Tally

SKEW_NOTED, SKEW_WRONG = 2.0, 30.0
"""Seconds between two clocks: from here on it is worth a warning, and a problem."""
SHOWN = 5  # differences that are named
TOLD_PARTS = 20
"""In so many parts the jobs of a deep examination are told as looked at."""


def _tell_nobody(line: str) -> None:
    pass


async def examine(
    store: Store,
    *,
    deep: bool = False,
    fix: bool = False,
    by: str | None = None,
    tell: Tell = _tell_nobody,
) -> list[Diagnosis]:
    """Open the store, run every check, close the store. If the store cannot be opened, the reason
    is the only diagnosis. `deep` reads every job and flow; `fix` also corrects the books and mends
    flows, which are acts of the operator whom `by` names. `tell` hears how far it is."""
    try:
        await store.open()
    except StoreUnavailable as error:
        return [
            Diagnosis("store", PROBLEM, str(error), "check the URL, the server and the network")
        ]
    except StoreError as error:
        # An error about the schema ends in what to do, after its last colon.
        saw, _, advice = str(error).rpartition(": ")
        return [Diagnosis("schema", PROBLEM, saw or advice, advice if saw else "")]
    try:
        return await _examine(store, deep=deep or fix, fix=fix, by=by, tell=tell)
    except StoreUnavailable as error:
        return [
            Diagnosis("store", PROBLEM, f"it went away while being examined: {error}", "try again")
        ]
    finally:
        await store.close()


async def _examine(
    store: Store, *, deep: bool, fix: bool, by: str | None, tell: Tell
) -> list[Diagnosis]:
    clock = await check_clock(store)
    workforce = await read_workforce(store)
    if deep:
        jobs = sum(sum(queue.counts.values()) for queue in workforce.queues)
        repaired = await _repair(store, by, tell) if fix else []
        tell(f"looking at {counted(jobs, 'job')}")
        checked = await store.health.check(deep=True, looked=_progress(jobs, tell))
    else:
        repaired, checked = [], await store.health.check()
    own = [Diagnosis.of(finding) for finding in checked]
    if not any(diagnosis.check == "durability" for diagnosis in own):
        own.append(Diagnosis("durability", OK, store.durability))
    if deep:
        tell("counting all jobs, and comparing the books")
    can_count = not any(one.check == MISPLACED and one.severity is PROBLEM for one in checked)
    return [
        Diagnosis("store", OK, f"a {store.kind} store, and it answers"),
        *repaired,
        *own,
        clock,
        *([await check_books(store, fix=fix, by=by, can_count=can_count)] if deep else []),
        *check_workers(workforce),
        *check_queues(workforce),
        *check_pauses(await store.queues.paused(), workforce),
        *await check_tasks(store, workforce),
        *await check_running(store, workforce),
        *await check_waiting(store, workforce),
        *await check_policies(store),
        *await check_schedules(store, workforce.workers, workforce.now),
        *await check_operations(store, workforce.now),
        *await check_parents(store),
        *await check_signals(store),
        *await check_limits(store),
        *await check_flows(store, deep=deep, fix=fix, by=by, tell=tell),
    ]


def _progress(jobs: int, tell: Tell) -> Looked:
    """Tells it whenever another part of the jobs has been looked at."""
    told = 0

    def looked(so_far: int) -> None:
        nonlocal told
        if (part := so_far * TOLD_PARTS // max(1, jobs)) > told:
            told = part
            tell(f"{so_far:,} of {jobs:,} jobs looked at")

    return looked


async def _repair(store: Store, by: str | None, tell: Tell) -> list[Diagnosis]:
    """Jobs are put where their record says before they are counted. The audit keeps that it was
    done."""
    tell("comparing the places of all jobs with their records")
    entries = await store.health.repair()
    if not entries:
        return []
    if by is not None:
        done = msgspec.json.encode({"places": entries}).decode()
        act = Act(id=new_act_id(), by=by, verb=f"{Noun.BOOKS}.{Verb.CORRECT}", arguments=done)
        await store.audit.begin(act)
        await store.audit.close(act.id, ActOutcome.DONE, entries)
    differed = counted(entries, "entry of a list of jobs", "entries of lists of jobs")
    return [Diagnosis("places", OK, f"{differed} differed from the jobs' records; corrected")]


async def check_books(
    store: Store, *, fix: bool, by: str | None = None, can_count: bool = True
) -> Diagnosis:
    """Whether the tallies equal a recount of the jobs. Jobs that are not where their record says
    make a recount wrong, so then there is none."""
    if not can_count:
        saw = "not compared: jobs that are not where their record says would be counted wrongly"
        advice = "put these jobs right first"
        return Diagnosis("books", WARNING, saw, advice, (Action(Noun.BOOKS, Verb.CORRECT),))
    missing = await store.telemetry.recount()
    if missing is None:
        pause = Action(Noun.QUEUES, Verb.PAUSE, EVERY_QUEUE)
        saw, advice = "jobs moved while they were counted", "pause everything and try again"
        return Diagnosis("books", WARNING, saw, advice, (pause,))
    if not missing:
        return Diagnosis("books", OK, "the tallies equal a recount of all jobs")
    shown = ", ".join(
        f"{each.jobs:+,} {each.state} of {each.task} in {each.queue}" for each in missing[:SHOWN]
    )
    differing = counted(len(missing), "tally differs", "tallies differ")
    saw = f"{differing} from a recount: {shown}"
    if fix:
        await _correct(store, missing, by)
        return Diagnosis("books", OK, f"{saw}; they are corrected")
    advice = "report this as a bug, and correct the tallies"
    return Diagnosis("books", PROBLEM, saw, advice, (Action(Noun.BOOKS, Verb.CORRECT),))


async def _correct(store: Store, missing: Sequence[Tally], by: str | None) -> None:
    """The audit keeps what the books said wrongly."""
    if by is None:
        await store.telemetry.correct(missing)
        return
    found = msgspec.json.encode({"missing": missing[:SHOWN]}).decode()
    act = Act(id=new_act_id(), by=by, verb=f"{Noun.BOOKS}.{Verb.CORRECT}", arguments=found)
    await store.audit.begin(act)
    await store.telemetry.correct(missing)
    await store.audit.close(act.id, ActOutcome.DONE, len(missing))


async def check_clock(store: Store) -> Diagnosis:
    """The store's clock decides what is due. The clock of this machine matters only for times
    that a program computes and hands to the store."""
    before = utcnow()
    theirs = await store.now()
    after = utcnow()
    doubt = (after - before).total_seconds() / 2
    skew = (theirs - before).total_seconds() - doubt
    side = "ahead of" if skew > 0 else "behind"
    saw = f"the store's clock is {abs(skew):.1f} s {side} this machine's"
    advice = "run NTP on both: run_at and deadlines computed here mean another moment there"
    if abs(skew) - doubt < SKEW_NOTED:
        return Diagnosis("clock", OK, "this machine and the store agree on the time")
    severity = WARNING if abs(skew) - doubt < SKEW_WRONG else PROBLEM
    return Diagnosis("clock", severity, saw, advice)
