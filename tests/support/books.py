"""The "always true" lines, asked of a real store and of the diary of real processes.

What a snapshot shows is judged by `tests.properties.always_true`; here is how a
diary becomes its record, and what only a diary can show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Severity
from holdfast.store.contract.store import Store
from tests.properties import always_true
from tests.properties.always_true import Record, Snapshot
from tests.support.diary import Entry

CHUNK = 500


async def the_books_balance(
    store: Store, ids: Iterable[str], entries: Sequence[Entry], in_doubt: Iterable[str] = ()
) -> dict[JobId, Job]:
    """All that holds after a run in which every job could succeed; returns the jobs.

    An enqueue whose answer never came (`in_doubt`) may be there or not.
    """
    seen = await Snapshot.of(store)
    maybe = {JobId(job) for job in in_doubt}
    record = record_of(entries, {JobId(job) for job in ids} | (maybe & seen.jobs.keys()))
    always_true.line_1_acknowledged_enqueues_are_live_or_ended(seen, record)
    always_true.line_2_at_most_one_accepted_end_per_fence(record)
    line_2_every_claim_has_a_fence_of_its_own(entries)
    line_2_no_two_handlers_run_under_one_fence(entries)
    line_3_the_move_to_an_end_is_the_last(entries)
    always_true.line_4_every_running_job_has_a_live_worker_or_is_reclaimable(seen)
    always_true.line_5_attempts_and_crashes_stay_within_bounds(seen)
    always_true.line_6_every_waiting_job_has_something_that_will_wake_it(seen)
    line_11_everything_drained(seen)
    always_true.the_timeline_equals_the_books(seen)
    await the_store_finds_nothing_wrong(store)
    return seen.jobs


def record_of(entries: Iterable[Entry], acknowledged: set[JobId]) -> Record:
    """What all processes together were told."""
    ends = Counter((JobId(e.job), e.fence) for e in entries if _is_verdict(e) and e.accepted)
    return Record(acknowledged=acknowledged, accepted_ends=ends)


def line_2_every_claim_has_a_fence_of_its_own(entries: Iterable[Entry]) -> None:
    claims: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        if entry.what == "claimed":
            claims[entry.job].append(entry.fence)
    assert claims, "nobody claimed anything"
    for job, fences in claims.items():
        # The diary's order is that of the notes, which may differ from that of the claims.
        assert len(set(fences)) == len(fences), f"{job} was claimed with fences {fences}"


def line_2_no_two_handlers_run_under_one_fence(entries: Iterable[Entry]) -> None:
    starts = Counter((entry.job, entry.fence) for entry in entries if entry.what == "started")
    doubled = [start for start, count in starts.items() if count > 1]
    assert not doubled, f"started more than once: {doubled[:5]}"


def line_3_the_move_to_an_end_is_the_last(entries: Iterable[Entry]) -> dict[str, Entry]:
    """No accepted move of a job has a higher fence than the one that ended it, and only one
    ended it; returns these."""
    moves = [entry for entry in entries if _is_verdict(entry) and entry.accepted]
    ended: dict[str, Entry] = {}
    for entry in moves:
        if entry.to in ENDED:
            assert entry.job not in ended, f"{entry} after {ended[entry.job]}"
            ended[entry.job] = entry
    for entry in moves:
        last = ended.get(entry.job, entry)
        assert entry.fence <= last.fence, f"{entry} though it ended with {last}"
    return ended


def line_11_everything_drained(seen: Snapshot) -> None:
    states = Counter(job.state for job in seen.jobs.values())
    assert states == {JobState.SUCCEEDED: len(seen.jobs)}


async def the_store_finds_nothing_wrong(store: Store) -> None:
    """No row is orphaned, no job is in two places, and the tallies equal a recount, as the store
    itself sees it."""
    problems = [f for f in await store.health.check(deep=True) if f.severity is Severity.PROBLEM]
    assert not problems, problems
    assert not await store.telemetry.recount()


async def all_of(store: Store, ids: Iterable[str]) -> list[Job]:
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
