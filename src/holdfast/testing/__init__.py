"""Tools for testing programs that use Holdfast.

`Harness` runs an app's jobs in memory under a clock the test moves; the pytest
plugin offers it as the fixture `harness_for`.
"""

from holdfast.clock import ManualClock
from holdfast.testing.harness import Harness
from holdfast.testing.inline import Ran

__all__ = ["Harness", "ManualClock", "Ran"]
