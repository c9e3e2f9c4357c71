"""`Health` on SQLite: checks of the file and of the rows in it, for `doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.store.contract.health import Finding, Looked, Severity, tell_nobody
from holdfast.store.migrate import load_migrations
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.ranges import AFTER_ALL, BEFORE_ALL, JOBS_AT_ONCE, Range, last_after
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Verbs

WAL_LIMIT = 256 * 1024 * 1024
FREE_SHARE = 0.5
FREE_PAGES = 10_000

JOBS_SAMPLED = 2_000
IDS_SHOWN = 5


class Check(NamedTuple):
    """A search for rows that must not be there."""

    step: str
    name: str
    severity: Severity
    advice: str


_BUG = "report this as a bug, with these ids"
_TO_A_LINE = (
    "no claim finds them until their priority or queue is set again, which puts them in a line; "
    + _BUG
)
_BY_RANGE = (
    Check("two places", "jobs in two places", Severity.PROBLEM, _BUG),
    Check("no place", "jobs in no place", Severity.PROBLEM, _BUG),
    Check("no body", "places without a job", Severity.PROBLEM, "restore the file from a backup"),
    Check("damaged", "damaged jobs", Severity.PROBLEM, "restore the file from a backup"),
    Check("no job", "happenings without a job", Severity.PROBLEM, _BUG),
    Check("stray step", "steps or frames without a job", Severity.PROBLEM, _BUG),
    Check("no line", "ready jobs without a line", Severity.PROBLEM, _TO_A_LINE),
)
_WORKERLESS = Check(
    "no worker",
    "running jobs without a worker",
    Severity.WARNING,
    "start a worker: its reconcilers reclaim them",
)


class SqliteHealth(Verbs):
    async def check(self, *, deep: bool = False, looked: Looked = tell_nobody) -> list[Finding]:
        """`deep` also has every page of the file read, which is one long read."""
        found = await self._writer.read(lambda tx: _check(tx, self._writer.location))
        if deep:
            found.append(await self._writer.read(_integrity))
        found += await self._by_range(self._whole() if deep else self._ends(), looked)
        workerless = await self._writer.read(lambda tx: _ids(tx, _WORKERLESS, {}))
        return [*found, _judged(_WORKERLESS, workerless, "")]

    async def repair(self, looked: Looked = tell_nobody) -> int:
        """The row of a job is its only place, so nothing can disagree with it."""
        return 0

    async def _by_range(self, ranges: AsyncIterator[Range], looked: Looked) -> list[Finding]:
        ids: dict[Check, dict[str, None]] = {check: {} for check in _BY_RANGE}
        jobs = 0
        async for span in ranges:
            number, wrong = await self._writer.read(partial(_looked_at, span))
            for check, some in zip(_BY_RANGE, wrong, strict=True):
                ids[check] |= dict.fromkeys(some)
            jobs += number
            looked(jobs)
        of = f" of {jobs:,} looked at"
        return [_judged(check, list(wrong), of) for check, wrong in ids.items()]

    async def _ends(self) -> AsyncIterator[Range]:
        """The oldest and the newest jobs; all of them, if there are few."""
        first = await self._last_after(BEFORE_ALL, JOBS_SAMPLED)
        yield Range(BEFORE_ALL, first or AFTER_ALL)
        if first is not None:
            newest = await self._writer.read(_before_newest)
            yield Range(max(first, newest or BEFORE_ALL), AFTER_ALL)

    async def _whole(self) -> AsyncIterator[Range]:
        """Each range is a read of its own: a long one keeps the log from being checkpointed."""
        low: str | None = BEFORE_ALL
        while low is not None:
            high = await self._last_after(low, JOBS_AT_ONCE)
            yield Range(low, high or AFTER_ALL)
            low = high

    async def _last_after(self, low: str, jobs: int) -> str | None:
        return await self._writer.read(partial(last_after, low, jobs))


def _before_newest(tx: Transaction) -> str | None:
    rows = tx.rows(steps("health/check")["before the newest"], {"jobs": JOBS_SAMPLED})
    return rows[0][0] if rows else None


def _looked_at(span: Range, tx: Transaction) -> tuple[int, list[list[str]]]:
    """How many jobs there are in a range, and what each check finds."""
    [(jobs,)] = tx.rows(steps("health/check")["jobs"], span._asdict())
    return int(jobs), [_ids(tx, check, span._asdict()) for check in _BY_RANGE]


def _ids(tx: Transaction, check: Check, span: dict[str, str]) -> list[str]:
    values = span | {"shown": IDS_SHOWN}
    return [job_id for (job_id,) in tx.rows(steps("health/check")[check.step], values)]


def _judged(check: Check, ids: list[str], of: str) -> Finding:
    if not ids:
        return Finding(check.name, Severity.OK, f"none{of}")
    shown = ids[:IDS_SHOWN]
    saw = f"at least {len(shown)}: {', '.join(shown)}"
    return Finding(check.name, check.severity, saw, check.advice)


def _check(tx: Transaction, location: Location) -> list[Finding]:
    return [
        _schema(tx),
        _bloat(tx),
        *(() if location.path is None else (_wal(location.path),)),
        _synchronous(location),
    ]


def _schema(tx: Transaction) -> Finding:
    [(version,)] = tx.rows(steps("health/check")["version"])
    newest = load_migrations(__package__)[-1].version
    if version == newest:
        return Finding("schema", Severity.OK, f"version {version}")
    return Finding(
        "schema",
        Severity.PROBLEM,
        f"version {version}, this program knows {newest}",
        "run 'holdfast migrate' with the newer of the two programs",
    )


def _integrity(tx: Transaction) -> Finding:
    found = [str(problem) for (problem,) in tx.rows("PRAGMA quick_check(5)")]
    if found == ["ok"]:
        return Finding("integrity", Severity.OK, "quick_check found nothing")
    return Finding(
        "integrity", Severity.PROBLEM, "; ".join(found), "restore the file from a backup"
    )


def _bloat(tx: Transaction) -> Finding:
    [(pages,)] = tx.rows("PRAGMA page_count")
    [(free,)] = tx.rows("PRAGMA freelist_count")
    saw = f"{free} of {pages} pages are free"
    if free > FREE_PAGES and free > pages * FREE_SHARE:
        advice = "free pages are used again; to give them back, stop the workers and run VACUUM"
        return Finding("bloat", Severity.WARNING, saw, advice)
    return Finding("bloat", Severity.OK, saw)


def _wal(path: Path) -> Finding:
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    saw = f"{size / 1024 / 1024:.1f} MiB"
    if size > WAL_LIMIT:
        advice = "a long read keeps it from being checkpointed: end old transactions on this file"
        return Finding("write-ahead log", Severity.WARNING, saw, advice)
    return Finding("write-ahead log", Severity.OK, saw)


def _synchronous(location: Location) -> Finding:
    if location.synchronous == "OFF":
        advice = "take synchronous=OFF out of the URL"
        return Finding("durability", Severity.WARNING, location.durability, advice)
    return Finding("durability", Severity.OK, location.durability)
