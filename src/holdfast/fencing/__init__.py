"""Keeps an attempt that has lost its job from writing to what lies outside of the store.

The store refuses the writes of such an attempt by itself. Another database, a service or a bucket
knows nothing of attempts: it must be told which of them writes, and refuse an older one.
"""

from holdfast.fencing.guarding import TABLE, guard, guard_sync
from holdfast.fencing.outside import Precondition, fence_headers, precondition

__all__ = ["TABLE", "Precondition", "fence_headers", "guard", "guard_sync", "precondition"]
