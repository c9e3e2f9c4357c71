"""The common end: attempts that returned.

Their outcomes are their leases and results, so each lot that is kept equally long is copied by
one statement, which checks the fences too. Whether all of them stood is a count; only if one
did not is the copy undone and each looked at by itself, by `moves`.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.job.outcome import Transition
from holdfast.store.sqlite.rows import LATEST, after, to_json, to_json_object
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction


def succeed_all(tx: Transaction, transitions: Collection[Transition]) -> bool:
    """Apply plain successes if every one of them stands; otherwise change nothing."""
    sql = steps("parts/succeed")
    tx.run(sql["try"])
    stood = _copy(tx, transitions) == len(transitions)
    if stood:
        _leave(tx, transitions)
    else:
        tx.run(sql["undo"])
    tx.run(sql["tried"])
    return stood


def _copy(tx: Transaction, transitions: Collection[Transition]) -> int:
    alike: dict[tuple[float, int], dict[str, str | None]] = {}
    for transition in transitions:
        key = (transition.keep_for, transition.fence)
        alike.setdefault(key, {})[transition.id] = transition.result
    copy = steps("parts/succeed")["copy"]
    return sum(
        tx.changed(copy, (to_json_object(results), tx.now, after(tx.now, keep_for), fence, LATEST))
        for (keep_for, fence), results in alike.items()
    )


def _leave(tx: Transaction, transitions: Collection[Transition]) -> None:
    sql = steps("parts/succeed")
    ids = (to_json(transition.id for transition in transitions),)
    tx.run(sql["leave"], ids)
    if tx.rows(sql["any deadline"]) == [(1,)]:
        tx.run(sql["drop deadlines"], ids)
