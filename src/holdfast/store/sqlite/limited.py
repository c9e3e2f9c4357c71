"""The lines of jobs that pass limits.

Jobs of one queue, priority and task that pass the same buckets stand in one line. All jobs of a
line may begin or none may, so a claim looks at lines and not at jobs. A line has a row as long as
jobs stand in it; the claim that finds it empty removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.job.ties import Tie
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction

LIMITED = int(Tie.PERMITS)
NO_LINE = 0
_QUEUE, _PRIORITY, _TASK, _TIES = 1, 2, 4, 8  # of a row of `holdfast_ready` without its line
_Line = tuple[str, int, str, str]


def enter_ready(tx: Transaction, rows: Sequence[Row]) -> None:
    """Put jobs in their lines. A row is a narrow row and since when the job waits."""
    plain = [row for row in rows if not row[_TIES] & LIMITED]
    if plain:
        tx.each(steps("parts/enter")["ready"], plain)
    if len(plain) < len(rows):
        stand(tx, [row for row in rows if row[_TIES] & LIMITED])


def stand(tx: Transaction, rows: Sequence[Row]) -> None:
    """Put jobs with limits in their lines. A job may have the tie and pass no bucket: it stands
    where jobs without limits do."""
    ids = to_json(row[0] for row in rows)
    buckets: dict[str, str] = dict(tx.rows(script("limits/of"), (ids,)))
    known: dict[_Line, int] = {}
    standing: list[Row] = []
    for row in rows:
        line = (row[_QUEUE], row[_PRIORITY], row[_TASK], buckets.get(row[0], ""))
        if line not in known:
            known[line] = _number(tx, line) if line[-1] else NO_LINE
        standing.append((*row, known[line]))
    tx.each(steps("parts/limited")["stand"], standing)


def _number(tx: Transaction, line: _Line) -> int:
    """The number of a line. A new line has its turn behind those that are there."""
    sql = steps("parts/limited")
    found = tx.row(sql["find"], line)
    if found is None:
        [(turn,)] = tx.rows(steps("parts/counter")["arrivals"], (1,))
        found = tx.row(sql["add"], (*line, turn))
    assert found is not None, "an insert that returns gives a row"
    return int(found[0])


def stand_anew(tx: Transaction, ids: Iterable[str]) -> None:
    """Put ready jobs with limits in the lines of the queues and priorities that they have now."""
    sql = steps("parts/limited")
    rows = tx.rows(sql["standing"], (to_json(ids),))
    if rows:
        tx.run(steps("parts/limited")["leave"], (to_json(row[0] for row in rows),))
        stand(tx, rows)
