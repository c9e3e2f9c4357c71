"""The "always true" lines that can be read off a real store and a diary of real processes.

Each function is one line, asserts it, and returns what it looked at, so that a
test can also assert that there was something to look at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from holdfast.job import ENDED, Job, JobId, JobState, decode_policy
from holdfast.store.contract import JobFilter, Severity, Store
from tests.system.diary import Entry

CHUNK = 500


async def acknowledged_enqueues_are_live_or_ended(store: Store, ids: Sequence[str]) -> list[Job]:
    """Line 1: whatever was acknowledged is in the store, in one place, and nothing besides."""
    jobs = await all_of(store, ids)
    missing = set(ids) - {job.id for job in jobs}
    assert not missing, f"{len(missing)} acknowledged jobs are lost, for one {min(missing)}"
    counts = await store.jobs.count(JobFilter())
    assert sum(counts.values()) == len(set(ids)), f"{len(set(ids))} acknowledged, held: {counts}"
    return jobs


def at_most_one_accepted_end_per_fence(entries: Iterable[Entry]) -> Counter[tuple[str, int]]:
    """Line 2, first half."""
    ends = Counter(
        (entry.job, entry.fence) for entry in entries if _is_verdict(entry) and entry.accepted
    )
    doubled = [end for end, count in ends.items() if count > 1]
    assert not doubled, f"accepted more than once: {doubled[:5]}"
    return ends


def fences_only_grow(entries: Iterable[Entry]) -> dict[str, list[int]]:
    """Line 2, second half: every claim of a job has a fence of its own, above all before it."""
    claims: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        if entry.what == "claimed":
            claims[entry.job].append(entry.fence)
    shrunk = [job for job, fences in claims.items() if fences != sorted(set(fences))]
    assert not shrunk, f"fences of {shrunk[0]}: {claims[shrunk[0]]}"
    return claims


def an_attempt_runs_once(entries: Iterable[Entry]) -> Counter[tuple[str, int]]:
    """What the fence is for: no two handlers ever run under the same one."""
    starts = Counter((entry.job, entry.fence) for entry in entries if entry.what == "started")
    doubled = [start for start, count in starts.items() if count > 1]
    assert not doubled, f"started more than once: {doubled[:5]}"
    return starts


def an_ended_job_never_changes(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Line 3: of all accepted moves of a job the one to an ended state is the last."""
    ended: dict[str, Entry] = {}
    for entry in entries:
        if _is_verdict(entry) and entry.accepted:
            assert entry.job not in ended, f"{entry} after {ended[entry.job]}"
            if entry.to in ENDED:
                ended[entry.job] = entry
    return ended


def attempts_and_crashes_keep_their_limits(jobs: Iterable[Job]) -> None:
    """Line 5."""
    for job in jobs:
        policy = decode_policy(job.policy)
        assert job.attempts <= policy.retry.max_attempts, job
        assert job.crashes <= policy.max_crashes, job


async def the_store_finds_nothing_wrong(store: Store) -> None:
    """No row is orphaned and no job is in two places, as the store itself sees it."""
    problems = [f for f in await store.telemetry.check() if f.severity is Severity.PROBLEM]
    assert not problems, problems


async def the_books_balance(store: Store, ids: Sequence[str], entries: Sequence[Entry]) -> None:
    """Every line that holds after any run in which all jobs could succeed."""
    jobs = await acknowledged_enqueues_are_live_or_ended(store, ids)
    assert Counter(job.state for job in jobs) == {JobState.SUCCEEDED: len(ids)}
    attempts_and_crashes_keep_their_limits(jobs)
    at_most_one_accepted_end_per_fence(entries)
    fences_only_grow(entries)
    an_attempt_runs_once(entries)
    an_ended_job_never_changes(entries)
    await the_store_finds_nothing_wrong(store)


async def all_of(store: Store, ids: Sequence[str]) -> list[Job]:
    wanted = [JobId(job_id) for job_id in dict.fromkeys(ids)]
    return [
        job
        for start in range(0, len(wanted), CHUNK)
        for job in await store.jobs.get(wanted[start : start + CHUNK])
    ]


async def live_jobs(store: Store) -> int:
    counts = await store.jobs.count(JobFilter())
    return sum(count for state, count in counts.items() if state not in ENDED)


def _is_verdict(entry: Entry) -> bool:
    return entry.what in ("finish", "reclaim")
