"""job.py: states, the legal moves between them, policies."""

from __future__ import annotations

import uuid
import zlib
from typing import Any

import pytest

from holdfast.errors import BadOption, Unreadable
from holdfast.job.ids import new_job_id, new_worker_id, partition_bits
from holdfast.job.policy import Policy, Retention, decode_policy, encode_policy, readable_part
from holdfast.job.retry import Retry
from holdfast.job.state import ENDED, LIVE, SOONEST, TRANSITIONS, WAITING, JobState


def test_every_state_is_live_or_ended() -> None:
    assert frozenset(JobState) == LIVE | ENDED
    assert not LIVE & ENDED
    assert LIVE - {JobState.RUNNING} == WAITING


def test_every_live_state_has_its_place_in_the_order_in_which_jobs_are_named() -> None:
    assert set(SOONEST) == LIVE
    assert len(SOONEST) == len(LIVE)


def test_every_state_has_its_moves() -> None:
    assert set(TRANSITIONS) == set(JobState)


def test_an_ended_job_can_only_be_requeued() -> None:
    for state in ENDED:
        assert TRANSITIONS[state] == {JobState.READY}


def test_every_live_job_can_be_cancelled_and_can_expire() -> None:
    for state in LIVE:
        assert {JobState.CANCELLED, JobState.EXPIRED} <= TRANSITIONS[state]


def test_only_a_ready_job_can_start_running() -> None:
    starts = {state for state, nexts in TRANSITIONS.items() if JobState.RUNNING in nexts}
    assert starts == {JobState.READY}


def test_only_a_job_that_runs_or_waits_for_its_flow_can_succeed_or_fail() -> None:
    begun = {JobState.RUNNING, JobState.SUSPENDED}
    for end in (JobState.SUCCEEDED, JobState.FAILED):
        assert {state for state, nexts in TRANSITIONS.items() if end in nexts} == begun


def test_every_live_state_leads_to_an_end() -> None:
    for start in LIVE:
        seen, border = {start}, {start}
        while border:
            border = set().union(*(TRANSITIONS[state] for state in border)) - seen
            seen |= border
        assert seen & ENDED


def test_ids_are_version_7_and_sort_by_creation() -> None:
    ids = [new_job_id() for _ in range(1_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1_000
    assert uuid.UUID(ids[0]).version == 7


def test_a_worker_never_shares_its_name_with_another() -> None:
    assert new_worker_id() != new_worker_id()


def test_retention_is_by_how_a_job_ended() -> None:
    kept = Retention(succeeded=1, failed=2, other=3)
    expected = dict.fromkeys(ENDED, 3) | {JobState.SUCCEEDED: 1, JobState.FAILED: 2}
    assert {state: kept.keep_for(state) for state in ENDED} == expected


@pytest.mark.parametrize("name", ["succeeded", "failed", "other"])
@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e15])
def test_a_retention_out_of_range_is_named(name: str, seconds: float) -> None:
    with pytest.raises(BadOption, match=f"retention.{name}"):
        Retention(**{name: seconds})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"max_crashes": 0}, "max_crashes"),
    ],
)
def test_a_policy_out_of_range_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        Policy(**options)


def test_a_policy_survives_its_text() -> None:
    policy = Policy(Retry.custom([1, 2]), 30, 2, Retention(1, 2, 3), keep_result=False)
    assert decode_policy(encode_policy(policy)) == policy


def test_the_usual_policy_costs_next_to_nothing() -> None:
    assert encode_policy(Policy()) == "{}"


NEWER = '{"timeout":5,"retention":{"other":60},"something_new":1}'


def test_a_policy_of_a_newer_program_is_not_taken_for_a_simpler_one() -> None:
    with pytest.raises(Unreadable, match=r"cannot read its policy: .*something_new"):
        decode_policy(NEWER)


def test_what_a_store_needs_of_a_policy_is_read_as_far_as_it_can_be() -> None:
    known = readable_part(NEWER)
    assert (known.timeout, known.retention.other) == (5, 60)
    assert readable_part("{") == readable_part('{"timeout":"x"}') == Policy()


def test_ids_minted_beside_one_text_lie_in_one_partition_however_many_there_are() -> None:
    one, other = new_job_id("welcome:42"), new_job_id("welcome:42")
    assert one != other
    assert one[-3:] == other[-3:] == f"{partition_bits('welcome:42'):03x}"
    assert uuid.UUID(one).version == 7


def test_ids_minted_beside_different_texts_spread_over_all_partitions() -> None:
    assert {int(new_job_id(f"key {n}")[-3:], 16) % 16 for n in range(500)} == set(range(16))


def test_where_a_text_lies_never_changes() -> None:
    """It is stored by where it lies: another answer would lose sight of what is there."""
    assert partition_bits("task:mail:welcome") == zlib.crc32(b"task:mail:welcome") & 0xFFF
    assert (partition_bits(""), partition_bits("größe")) == (0, zlib.crc32("größe".encode()) % 4096)
