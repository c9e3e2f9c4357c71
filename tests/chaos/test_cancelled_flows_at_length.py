"""A thousand cancels against a worker that claims what is cancelled."""

from __future__ import annotations

import pytest

from holdfast.app import App
from tests.support.backends import Backend
from tests.support.cancelled_flows import cancel_while_they_are_claimed

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


async def test_no_node_of_a_cancelled_flow_begins_in_a_thousand_tries(
    shared_backend: Backend,
) -> None:
    await cancel_while_they_are_claimed(App(await shared_backend.empty()), 1_000)
