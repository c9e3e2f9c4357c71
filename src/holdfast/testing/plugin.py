"""The pytest plugin, loaded by its entry point.

The plugin imports Holdfast only inside its fixtures. A test run that uses none of them does not pay
for the import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.testing.harness import Harness
    from holdfast.testing.sync import SyncHarness


@pytest.fixture
def harness_for() -> type[Harness]:
    """Make a harness for an app: `async with harness_for(app) as harness: …`."""
    from holdfast.testing.harness import Harness

    return Harness


@pytest.fixture
def sync_harness_for() -> Iterator[Callable[..., SyncHarness]]:
    """Open a harness for an app until the test ends: `harness = sync_harness_for(app)`."""
    from holdfast.testing.sync import SyncHarness

    with ExitStack() as opened:

        def open_harness(app: App, **options: Any) -> SyncHarness:
            return opened.enter_context(SyncHarness(app, **options))

        yield open_harness
