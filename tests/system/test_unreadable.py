"""A worker leaves what it cannot read for one that can, and goes on with the rest."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.job import policy as vocabulary
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.policy import Policy
from holdfast.job.record import NewJob, times_taken
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support.working import Shop

NEWER = '{"surprise":1}'


class NewerPolicy(Policy, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """As a later release may define it."""

    surprise: int = 0


async def greet() -> str:
    return "hello"


async def insert(shop: Shop, *policies: str) -> list[JobId]:
    jobs = [NewJob(new_job_id(), "greet", "default", "{}", policy) for policy in policies]
    await shop.store.jobs.insert(jobs)
    return [job.id for job in jobs]


async def test_a_job_of_a_newer_release_is_left_and_stops_nobody(live_store: Store) -> None:
    shop = Shop(live_store, greet)
    before, strange, behind = await insert(shop, "{}", NEWER, "{}")
    await shop.drain()
    assert [(await shop.get(job)).state for job in (before, behind)] == [JobState.SUCCEEDED] * 2
    left = await shop.get(strange)
    assert (left.state, left.attempts, times_taken(left.fence)) == (JobState.SCHEDULED, 0, 1)
    assert "cannot read its policy" in str(left.reason)
    [event] = shop.reported("job.left")
    assert event.fields["job_id"] == strange


async def test_a_job_that_one_release_left_is_run_by_the_next(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(live_store, greet)
    [strange] = await insert(shop, NEWER)
    await shop.drain()
    assert (await shop.get(strange)).state is JobState.SCHEDULED
    monkeypatch.setattr(vocabulary, "_policy_decoder", msgspec.json.Decoder(NewerPolicy))
    vocabulary.decode_policy.cache_clear()
    await live_store.jobs.reschedule([strange], 0.0)
    await shop.drain()
    job = await shop.get(strange)
    vocabulary.decode_policy.cache_clear()
    assert (job.state, job.attempts) == (JobState.SUCCEEDED, 1)
