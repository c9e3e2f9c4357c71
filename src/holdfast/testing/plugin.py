"""The pytest plugin, loaded by its entry point.

The plugin imports Holdfast only inside its fixtures. A test run that uses none of them does not pay
for the import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.harness import Harness


@pytest.fixture
def harness_for() -> type[Harness]:
    """Make a harness for an app: `async with harness_for(app) as harness: …`."""
    from holdfast.testing.harness import Harness

    return Harness
