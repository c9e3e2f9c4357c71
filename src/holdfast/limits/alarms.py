"""What is to be told of a budget, and what was told in its period: the bits of `Bucket.alarms`."""

from __future__ import annotations

from holdfast.limits.model import AlarmWhat, Budget

SOFT, OVERRUN, SOFT_TOLD, OVERRUN_TOLD, ALONE = 1, 2, 4, 8, 16
"""ALONE: the bucket was passed otherwise than on the way to another one, so that the amounts of its
limit are its own."""
UNTOLD = SOFT | OVERRUN
_TOLD = 2
"""How far the bit of what was told is from the bit of what is to be told."""


def raised(alarms: int, budget: Budget, spent: int, in_use: int) -> int:
    """The alarms that so much raises, unless they were raised in this period before."""
    new = 0
    if budget.soft is not None and spent + in_use >= budget.soft:
        new |= SOFT
    if spent > budget.hard:
        new |= OVERRUN
    return new & ~(alarms | alarms >> _TOLD)


def due(alarms: int) -> list[AlarmWhat]:
    """What is to be told."""
    of_bits = ((SOFT, AlarmWhat.SOFT_REACHED), (OVERRUN, AlarmWhat.OVERRUN))
    return [what for bit, what in of_bits if alarms & bit]


def after_telling(alarms: int) -> int:
    return alarms & ~UNTOLD | (alarms & UNTOLD) << _TOLD
