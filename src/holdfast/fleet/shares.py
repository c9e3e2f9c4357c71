"""How the total of a queue is shared by the workers that serve it.

Each worker computes the same shares from the same list, so nobody has to lead. A share only spreads
the work: the queue's bucket counts what runs, so a worker with an old list costs balance and never
exceeds the total.
"""

from __future__ import annotations

from collections.abc import Sequence


def shares(total: int, declared: Sequence[int]) -> list[int]:
    """How many of `total` each worker may use, where worker n has `declared[n]` slots. All get the
    same, but none more than it has, and what does not divide goes to the first.

    >>> shares(10, [10, 10, 10])
    [4, 3, 3]
    >>> shares(10, [2, 10, 10])
    [2, 4, 4]
    >>> shares(10, [3, 3])
    [3, 3]
    """
    level = _level(total, declared)
    given = [min(slots, level) for slots in declared]
    left = total - sum(given)
    for worker, slots in enumerate(declared):
        if left > 0 and slots > level:
            given[worker] += 1
            left -= 1
    return given


def _level(total: int, declared: Sequence[int]) -> int:
    """The most that every worker can have, as far as it has so many slots."""
    left, level = total, 0
    smallest_first = sorted(declared)
    for n, slots in enumerate(smallest_first):
        sharing = len(smallest_first) - n
        if (slots - level) * sharing > left:
            return level + left // sharing
        left -= (slots - level) * sharing
        level = slots
    return level
