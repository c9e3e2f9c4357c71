"""Unique keys.

A key row is lazy: nothing frees it when its job ends. Whoever meets it looks at where the holder
is now. A holder outside the states in which it wanted the key has lost it, unless its period is
not over.
"""

from __future__ import annotations

from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.sqlite.places import place_of
from holdfast.store.sqlite.rows import after
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction


def holder_of(tx: Transaction, key: str) -> tuple[JobId, JobState] | None:
    """The job that has the key by right: it exists, and it is in a state in which it wanted the key
    or within its period."""
    row = tx.row(steps("parts/key")["holder"], (tx.now, key))
    if row is None:
        return None
    job_id, states, in_period = row
    state = place_of(tx, job_id)
    if state is None or not (in_period or state in states.split(" ")):
        return None
    return JobId(job_id), state


def take_key(tx: Transaction, job_id: str, unique: Unique) -> None:
    until = None if unique.period is None else after(tx.now, unique.period)
    tx.run(steps("parts/key")["take"], (unique.key, job_id, states_of(unique), until))


def retake_key(tx: Transaction, key: str, job_id: str, states: str) -> bool:
    """Give the key back to a job that returns to life, unless another job holds it by now."""
    holder = holder_of(tx, key)
    if holder is not None and holder[0] != job_id:
        return False
    tx.run(steps("parts/key")["retake"], (key, job_id, states))
    return True


def states_of(unique: Unique) -> str:
    """The states as a key row has them."""
    return " ".join(sorted(unique.states))
