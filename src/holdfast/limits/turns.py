"""Whose turn it is among lines: start-time fair queueing (Goyal, Vin and Cheng 1996).

A line's turn is what it was served, divided by its weight, and the line with the least turn comes
next. A line that begins to wait starts at the turn of the line that was served last: it waits for a
round at most, and has earned nothing by having had no jobs.
"""

from __future__ import annotations

STRIDE = 1_000_000
"""What one job adds to the turn of a line of weight 1."""
QUANTUM = 4
"""How many jobs a line gives at its turn, at least. Serving a line costs as much as two jobs."""


def turn_size(wanted: int, lines: int) -> int:
    """How many jobs a line gives at its turn, where so many lines share what is wanted."""
    return max(QUANTUM, -(-wanted // max(lines, 1)))


def after_serving(jobs: int, weight: int) -> int:
    """What is added to the turn of a line that gave so many jobs."""
    return jobs * STRIDE // weight
