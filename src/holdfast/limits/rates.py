"""The arithmetic of rates.

A rate without a burst counts what began in slices of its window. A slice counts until every start
in it is older than the window, so a start counts for a window and at most a 64th of it more, and
never less. A rate with a burst is a meter: each permit taken fills it by `Rate.permit` parts, each
microsecond drains `Rate.growth` of them, and `burst` permits fill it up.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.limits.model import SLICES, Rate


def window(rate: Rate, slices: Mapping[int, int], scale: int, now: int) -> dict[int, int]:
    """Those of the slices that count now, by their numbers. Each was `scale` long when it was
    counted. After a change of the window a slice is taken for one that ends as late: it never
    counts for shorter than it should."""
    length, newest = rate.slice, now // rate.slice
    counting: dict[int, int] = {}
    for number, units in slices.items():
        if scale != length:
            number = min(newest, ((number + 1) * scale - 1) // length)
        if number >= newest - SLICES:
            counting[number] = counting.get(number, 0) + units
    return counting


def opens_at(rate: Rate, window: Mapping[int, int], now: int, cost: int) -> int:
    """When so much will be free in a window."""
    over = sum(window.values()) + cost - rate.most
    opens = now
    for number in sorted(window):
        if over <= 0:
            break
        over -= window[number]
        opens = (number + SLICES + 1) * rate.slice
    return opens


def uncount(window: dict[int, int], taken_in: int, units: int) -> None:
    """Take units back from the slice in which they were counted. If the window was changed since,
    that one may not have it all; the rest comes from the oldest, so that what is left counts for
    longer. Never from a later one: what was counted then is somebody else's."""
    for number in (taken_in, *sorted(one for one in window if one < taken_in)):
        back = min(units, window.get(number, 0))
        if back:
            window[number] -= back
            units -= back


def meter(rate: Rate, used: int, scale: int, passed: int) -> int:
    """Where a meter stands that stood at `used` `passed` microseconds ago. A permit had
    `scale` parts then, 0 if none was taken yet."""
    if scale and scale != rate.permit:
        used = -(-used * rate.permit // scale)
    return max(0, used - rate.growth * max(0, passed))
