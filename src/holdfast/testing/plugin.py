"""The pytest plugin, loaded by its entry point.

It imports Holdfast only inside its fixtures, so that a test run that does not
use them pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.testing.harness import Harness


@pytest.fixture
def harness_for() -> Callable[[App], Harness]:
    """A harness for an app: `async with harness_for(app) as harness: …`."""
    from holdfast.testing.harness import Harness

    return Harness
