"""Recording plans when the answer of the server is lost."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from holdfast.client.schedules import ScheduleVerbs
from holdfast.schedule.model import Decision, Definition, Rule
from holdfast.schedule.providers import Providers
from holdfast.store.contract.filters import JobFilter
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.store import PostgresStore
from tests.support.backends import opened

DAILY = Definition(Rule(cron="@daily"), task="task", queue="default")


async def test_a_trigger_whose_reply_was_lost_fires_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        verbs = ScheduleVerbs(store, Providers())
        await verbs.create("job", DAILY)
        lose_a_reply(monkeypatch, store)
        started = await verbs.trigger("job")
        [row] = await verbs.history("job")
        assert (row.job_id, row.decision) == (started, Decision.FIRED)
        assert sum((await store.jobs.count(JobFilter())).values()) == 1


def lose_a_reply(monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    """The next transaction commits, and the connection is cut before the client hears of it."""
    assert isinstance(store, PostgresStore)
    attempt = Connections._attempt

    async def lost(self: Connections, work: Any, transaction: bool) -> Any:
        answer = await attempt(self, work, transaction)
        if transaction:
            monkeypatch.setattr(Connections, "_attempt", attempt)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle")
        return answer

    monkeypatch.setattr(Connections, "_attempt", lost)
