"""Tools for testing programs that use Holdfast.

`Harness` runs an app's jobs in memory under a clock the test moves, `SyncHarness` does the same for
tests without an event loop. The pytest plugin offers them as the fixtures `harness_for` and
`sync_harness_for`. `killed_after_every_commit` tests a task with steps.
"""

from holdfast.clock import ManualClock
from holdfast.testing.drained import Drained, DrainFailed, Ended
from holdfast.testing.harness import Harness
from holdfast.testing.inline import Ran
from holdfast.testing.killing import Kills, killed_after_every_commit
from holdfast.testing.sync import SyncHarness

__all__ = [
    "DrainFailed",
    "Drained",
    "Ended",
    "Harness",
    "Kills",
    "ManualClock",
    "Ran",
    "SyncHarness",
    "killed_after_every_commit",
]
