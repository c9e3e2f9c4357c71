"""`Health` on SQLite: checks of the file and of the rows in it, for `doctor`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.store.contract.health import Finding, Severity
from holdfast.store.migrate import load_migrations
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Verbs

WAL_LIMIT = 256 * 1024 * 1024
FREE_SHARE = 0.5
FREE_PAGES = 10_000

JOBS_SAMPLED = 2_000
IDS_SHOWN = 5


class Check(NamedTuple):
    """A search for rows that must not be there. `is_whole`: it always looks at all of them."""

    step: str
    name: str
    severity: Severity
    advice: str
    is_whole: bool = False


_BUG = "report this as a bug, with these ids"
_ROWS = (
    Check("two places", "jobs in two places", Severity.PROBLEM, _BUG),
    Check("no place", "jobs in no place", Severity.PROBLEM, _BUG),
    Check("no body", "places without a job", Severity.PROBLEM, "restore the file from a backup"),
    Check("damaged", "damaged jobs", Severity.PROBLEM, "restore the file from a backup"),
    Check("no job", "happenings without a job", Severity.PROBLEM, _BUG),
    Check("stray step", "steps or frames without a job", Severity.PROBLEM, _BUG),
    Check(
        "no worker",
        "running jobs without a worker",
        Severity.WARNING,
        "start a worker: its reconcilers reclaim them",
        is_whole=True,
    ),
)


class SqliteHealth(Verbs):
    async def check(self, *, deep: bool = False) -> list[Finding]:
        """`deep` has every page and every job read; each check is then a read of its own, because
        a long one keeps the log from being checkpointed."""
        found = await self._writer.read(lambda tx: _check(tx, self._writer.location))
        if deep:
            found.append(await self._writer.read(_integrity))
        for check in _ROWS:
            found.append(await self._writer.read(partial(_rows, check, deep=deep)))
        return found


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


def _rows(check: Check, tx: Transaction, *, deep: bool) -> Finding:
    values = {"looked": -1 if deep else JOBS_SAMPLED, "shown": IDS_SHOWN}
    ids = [job_id for (job_id,) in tx.rows(steps("health/check")[check.step], values)]
    if not ids:
        among = "" if deep or check.is_whole else f" among the {JOBS_SAMPLED} oldest and newest"
        return Finding(check.name, Severity.OK, f"none{among}")
    return Finding(
        check.name, check.severity, f"at least {len(ids)}: {', '.join(ids)}", check.advice
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
