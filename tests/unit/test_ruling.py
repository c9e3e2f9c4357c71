"""reconcile/ruling.py: who may take back the jobs of a lapsed worker, when, and what they pay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from holdfast.job.ends import Reclaimed, WorkerLost
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Live
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.reconcile.ruling import Ruling, ends_of, in_good_standing, rule
from holdfast.store.contract.workers import WorkerInfo

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = 30.0


def worker(
    *,
    expires_in: float = 25.0,
    alive_for: float = 3600.0,
    started_ago: float | None = None,
    beaten_ago: float = 5.0,
) -> WorkerInfo:
    """Seconds from now; without `started_ago` its service had no break."""
    started = alive_for if started_ago is None else started_ago
    return WorkerInfo(
        WorkerId("w"),
        "w",
        "h",
        1,
        {},
        (),
        "1",
        started_at=NOW - timedelta(seconds=started),
        heartbeat_at=NOW - timedelta(seconds=beaten_ago),
        expires_in=expires_in,
        lease=LEASE,
        alive_since=NOW - timedelta(seconds=alive_for),
        read_at=NOW,
    )


def lapsed(ago: float) -> WorkerInfo:
    return worker(expires_in=-ago, beaten_ago=ago + LEASE)


@pytest.mark.parametrize(
    ("reclaimer", "stands"),
    [
        (worker(), True),
        (worker(beaten_ago=15.0), True),
        (worker(beaten_ago=15.1, expires_in=14.9), False),  # its next beat is overdue
        (worker(beaten_ago=31, expires_in=-1), False),  # it lapsed itself
        (None, False),  # its row is gone
    ],
)
def test_only_a_worker_that_the_store_heard_lately_reclaims(
    reclaimer: WorkerInfo | None, stands: bool
) -> None:
    assert in_good_standing(reclaimer) is stands


@pytest.mark.parametrize(
    ("reclaimer", "other", "ruling"),
    [
        # It served all the time: the other died.
        (worker(alive_for=3600), lapsed(0.1), Ruling.CHARGE),
        (worker(alive_for=10), lapsed(10), Ruling.CHARGE),
        # Its service began after the lapse: the other may still be heard.
        (worker(alive_for=5, started_ago=3600), lapsed(20), Ruling.WAIT),
        (worker(alive_for=14.9, started_ago=3600), lapsed(20), Ruling.WAIT),
        # It was not heard, and the reclaimer had a break too: nobody pays.
        (worker(alive_for=15, started_ago=3600), lapsed(20), Ruling.SPARE),
        # A clock that went back leaves a start in the future: a break all the same.
        (worker(alive_for=15, started_ago=-3600), lapsed(20), Ruling.SPARE),
        # The reclaimer is simply new: that says nothing for the other.
        (worker(alive_for=5), lapsed(20), Ruling.WAIT),
        (worker(alive_for=15), lapsed(20), Ruling.CHARGE),
        # One that left or was swept is not waited for.
        (worker(alive_for=1), None, Ruling.CHARGE),
    ],
)
def test_what_may_be_done_about_a_lapsed_worker(
    reclaimer: WorkerInfo, other: WorkerInfo | None, ruling: Ruling
) -> None:
    fleet = [reclaimer] if other is None else [reclaimer, other]
    assert rule(reclaimer, other, fleet) is ruling


@pytest.mark.parametrize(
    ("ago", "together", "alive", "ruling"),
    [
        (1.0, 3, 2, Ruling.WAIT),
        (15.0, 3, 2, Ruling.CHARGE),  # nobody was heard
        (1.0, 3, 3, Ruling.CHARGE),  # no more than half of them
        (1.0, 2, 1, Ruling.CHARGE),  # too few to tell
    ],
)
def test_when_most_of_the_fleet_lapses_at_once_they_are_waited_for(
    ago: float, together: int, alive: int, ruling: Ruling
) -> None:
    me = worker()
    gone = [lapsed(ago + n) for n in range(together)]
    fleet = [me, *(worker() for _ in range(alive - 1)), *gone, lapsed(500), lapsed(600)]
    assert rule(me, gone[0], fleet) is ruling


def held(
    name: str,
    *,
    crashes: int = 0,
    ahead: bool = False,
    fence: int | None = None,
    claimed: float = 0.0,
) -> Live:
    return Live(
        JobId(name),
        JobState.RUNNING,
        "default",
        "t",
        encode_policy(Policy()),
        attempts=crashes,
        crashes=crashes,
        fence=2 * crashes + 1 if fence is None else fence,
        ahead=ahead,
        claimed_at=NOW + timedelta(seconds=claimed),
    )


def charged(*jobs: Live) -> set[str]:
    return {job for job, end in ends_of(jobs).items() if isinstance(end, WorkerLost)}


def test_what_a_dead_worker_ran_pays() -> None:
    assert charged(held("a"), held("b")) == {"a", "b"}


def test_what_had_not_begun_does_not_pay() -> None:
    assert charged(held("a"), held("b", ahead=True)) == {"a"}
    assert charged(held("b", ahead=True)) == set()


def test_beside_a_suspect_the_others_do_not_pay() -> None:
    assert charged(held("a"), held("b", crashes=1), held("c", ahead=True)) == {"b"}


def test_a_job_that_may_run_once_pays_beside_a_suspect_if_it_had_begun() -> None:
    once = encode_policy(Policy(retry=Retry.never()))
    begun, ahead = (
        msgspec.structs.replace(held(name, ahead=name == "ahead"), policy=once)
        for name in ("begun", "ahead")
    )
    assert charged(begun, ahead, held("b", crashes=1)) == {"begun", "b"}


def test_of_several_suspects_those_with_the_most_crashes_pay() -> None:
    suspects = [held("a", crashes=1), held("b", crashes=2), held("c", crashes=2)]
    assert charged(*suspects) == {"b", "c"}


def test_a_suspect_that_was_claimed_while_another_ran_does_not_pay() -> None:
    """It was on its way back: it had not begun, whatever its crashes."""
    assert charged(held("a", crashes=1), held("b", crashes=2, claimed=0.1)) == {"a"}
    assert charged(held("a", crashes=1), held("b", crashes=1, claimed=31)) == {"a", "b"}


def test_a_suspect_that_was_ahead_clears_nobody() -> None:
    assert charged(held("a"), held("b", crashes=2, ahead=True)) == {"a"}


def test_a_job_that_was_spared_before_is_suspected_the_second_time() -> None:
    """Else a job that kills its worker could hide beside one suspect after another."""
    again, first = held("a", fence=3), held("b", fence=2)
    ends = ends_of([again, first, held("c", crashes=1)])
    assert [ends[JobId(name)] for name in "ab"] == [
        Reclaimed("its worker died beside a job that is suspected", suspected=True),
        Reclaimed("its worker died beside a job that is suspected"),
    ]
