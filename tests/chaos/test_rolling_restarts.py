"""Eight replicas are replaced one after the other within forty seconds."""

from __future__ import annotations

import pytest

from holdfast.schedule.model import Decision
from tests.support.backends import Backend
from tests.support.rolling import rolling_restarts

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


async def test_eight_rolling_restarts_lose_no_plan_of_a_schedule_of_every_second(
    backend: Backend,
) -> None:
    decisions = await rolling_restarts(backend, 8, pause=4.7)
    assert len(decisions) >= 38
    others = [each for each in decisions if each is not Decision.FIRED]
    assert others == []
