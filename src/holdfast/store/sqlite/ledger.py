"""Recording plans: rows of the ledger, and the jobs that they start and cancel.

The transaction holds the write lock from its start, so what is read here stays true: all rows
that may be written are found first, and are then written together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC

from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Live, NewJob
from holdfast.job.state import WAITING
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import OPEN, Decision, Plan
from holdfast.store.sqlite.finishing import finish
from holdfast.store.sqlite.inserting import insert
from holdfast.store.sqlite.operating import request_cancel
from holdfast.store.sqlite.reading import live, to_live
from holdfast.store.sqlite.rows import after, to_json, to_micros
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction

TIDY_BATCH = 100
"""Of so many former plans of a scope the ended jobs are forgotten when it gets a new plan."""

_Key = tuple[str, str, int]  # schedule, scope and time of a plan
_Found = tuple[str, str | None]  # decision and job of a row that is there


def record(tx: Transaction, plans: Sequence[Plan]) -> list[bool]:
    first: dict[_Key, int] = {}
    for index, plan in enumerate(plans):
        first.setdefault((plan.schedule, plan.scope, to_micros(plan.at)), index)
    keeps = _keeps(tx, plans)
    found = _found(tx, first)
    beside = _live_beside(tx, plans)
    written = {
        key: plans[index]
        for key, index in first.items()
        if plans[index].schedule in keeps
        and _may_write(plans[index], found.get(key))
        and _still_beside(plans[index], beside)
    }
    _write(tx, written, keeps)
    ours = {first[key] for key in written}
    return [index in ours for index in range(len(plans))]


def _may_write(plan: Plan, found: _Found | None) -> bool:
    """Whether the plan has no row yet, or an open one and decides otherwise. Out of turn (a
    backfill) a FIRED plan may also overwrite any row that started no job."""
    if found is None:
        return True
    decision, job_id = found
    if not plan.moves_cursor and plan.decision is Decision.FIRED and job_id is None:
        return True
    return decision in OPEN and decision != plan.decision


def _live_beside(tx: Transaction, plans: Sequence[Plan]) -> dict[tuple[str, str], set[JobId]]:
    """The live jobs of those scopes that have a plan with `beside`."""
    scopes: dict[str, list[str]] = {}
    for plan in plans:
        if plan.beside is not None:
            scopes.setdefault(plan.schedule, []).append(plan.scope)
    return {
        (schedule, scope): {job.id for job in jobs}
        for schedule, asked in scopes.items()
        for scope, jobs in unfinished(tx, schedule, asked).items()
    }


def _still_beside(plan: Plan, live: dict[tuple[str, str], set[JobId]]) -> bool:
    found = live.get((plan.schedule, plan.scope), set())
    return plan.beside is None or set(plan.beside) == found


def unfinished(tx: Transaction, name: str, scopes: Sequence[str]) -> dict[str, list[Live]]:
    wanted = {"name": name, "scopes": to_json(dict.fromkeys(scopes))}
    rows = tx.rows(script("schedules/unfinished"), wanted)
    found: dict[str, list[Live]] = {}
    for scope, *columns in rows:
        found.setdefault(scope, []).extend(to_live([columns]))
    return found


def _found(tx: Transaction, keys: Iterable[_Key]) -> dict[_Key, _Found]:
    rows = tx.rows(steps("schedules/record")["found"], (to_json(keys),))
    return {
        (schedule, scope, at): (decision, job_id) for schedule, scope, at, decision, job_id in rows
    }


def _keeps(tx: Transaction, plans: Sequence[Plan]) -> dict[str, float]:
    """How many seconds each schedule keeps its rows. A schedule that is gone is left out."""
    names = to_json({plan.schedule for plan in plans})
    return dict(tx.rows(steps("schedules/record")["keeps"], (names,)))


def _write(tx: Transaction, written: dict[_Key, Plan], keeps: dict[str, float]) -> None:
    sql = steps("schedules/record")
    jobs: list[NewJob] = []
    rows: list[Row] = []
    started: list[Row] = []
    for key, plan in written.items():
        job = plan.job if plan.decision is Decision.FIRED else None
        if job is not None:
            jobs.append(job)
            started.append((*key, job.id))
        told = (plan.decision.value, clean(plan.reason, MESSAGE_LIMIT))
        times = (tx.now, after(tx.now, keeps[plan.schedule]))
        rows.append((*key, *told, *times, None if job is None else job.id))
    tx.each(sql["write"], rows)
    tx.each(sql["advance"], [key for key, plan in written.items() if plan.moves_cursor])
    tx.each(
        sql["tidy"],
        [
            {"schedule": schedule, "scope": scope, "limit": TIDY_BATCH}
            for schedule, scope in {key[:2] for key in written}
        ],
    )
    tx.each(sql["start"], started)
    insert(tx, jobs)
    _cancel(tx, written.values())


def _cancel(tx: Transaction, plans: Iterable[Plan]) -> None:
    """Cancel the jobs that these plans replace: end those that wait, mark those that run."""
    reasons: dict[JobId, str] = {}
    for plan in plans:
        for job_id in plan.cancel:
            told = f"replaced by the plan of {plan.at.astimezone(UTC).isoformat()}"
            reasons.setdefault(job_id, told)
    if not reasons:
        return
    waiting = [job for job in live(tx, reasons) if job.state in WAITING]
    finish(tx, [decide(job, Cancelled(reasons[job.id])) for job in waiting])
    request_cancel(tx, list(reasons), reasons=reasons)
