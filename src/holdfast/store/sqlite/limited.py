"""The lines of jobs that pass limits.

Jobs of one queue, priority and task that pass the same buckets stand in one line, whatever each of
them costs there. The first job of a line may begin or none may, so a claim looks at lines and not
at jobs. A line has a row as long as jobs stand in it; the claim that finds it empty removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

import msgspec

from holdfast.job.passing import aside, fair_in, is_aside, labels_in
from holdfast.job.ties import Tie
from holdfast.store.sqlite.buckets import Buckets
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction

T = TypeVar("T")
K = TypeVar("K")

LIMITED = int(Tie.PERMITS)
NO_LINE = 0
_SEQ, _TIES, _READY_AT = 3, 8, 9  # of a row of `holdfast_ready` without its line
_place = itemgetter(1, 2, 4)
_facts = itemgetter(5, 6, 7, 8)  # attempts, crashes, fence and ties
Place = tuple[str, int, str]  # queue, priority and task


class KeptLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a job passes, as it was enqueued."""

    buckets: str
    costs: str | None = None
    weight: int = 1


_NOTHING = KeptLine("")
_kept = msgspec.json.Decoder(KeptLine)


def kept_line(text: str) -> KeptLine:
    """From `holdfast_job.passes`."""
    return _kept.decode(text)


def enter_ready(tx: Transaction, rows: Sequence[Row], *, at_old_places: bool = False) -> None:
    """Put jobs in their lines. A row is a narrow row and since when the job waits."""
    plain = [row for row in rows if not row[_TIES] & LIMITED]
    if plain:
        tx.each(steps("parts/enter")["ready"], plain)
    if len(plain) < len(rows):
        limited = [row for row in rows if row[_TIES] & LIMITED]
        ids = to_json(row[0] for row in limited)
        kept = {job: kept_line(text) for job, text in tx.rows(script("limits/of"), (ids,))}
        stand(tx, by_place(limited), kept, at_old_places=at_old_places)


def stand(
    tx: Transaction,
    places: Mapping[Place, Sequence[Row]],
    kept: Mapping[str, KeptLine],
    *,
    at_old_places: bool = False,
) -> None:
    """Put jobs with limits in their lines. A job may have the tie and pass no bucket: it stands
    where jobs without limits do. A job that stands before others, `at_old_places`, may be able to
    begin where the one behind it is not."""
    parked: list[Row] = []
    for place, some in places.items():
        lines = _lines(tx, place, [kept[row[0]] for row in some if row[0] in kept])
        numbers = {buckets: one.id for buckets, one in lines.items()} | {_NOTHING.buckets: NO_LINE}
        for facts, alike in grouped(_facts, some).items():
            standing = [
                (row[0], row[_SEQ], row[_READY_AT], numbers[kept.get(row[0], _NOTHING).buckets])
                for row in alike
            ]
            tx.fill_alike(steps("parts/limited")["stand"], standing, place + facts)
        parked += [(one.id, one.parked_at, place[0]) for one in lines.values() if one.parked_at]
    if at_old_places:
        _open(tx, parked)


def by_place(rows: Iterable[Row]) -> dict[Place, list[Row]]:
    return grouped(_place, rows)


def grouped(by: Callable[[T], K], rows: Iterable[T]) -> dict[K, list[T]]:
    """Those that are alike, in their order."""
    found: dict[K, list[T]] = {}
    for row in rows:
        found.setdefault(by(row), []).append(row)
    return found


class _Known(msgspec.Struct, frozen=True, gc=False):
    """A line that has a row, and the bucket where it is parked."""

    id: int
    weight: int
    costly: int
    parked_at: str | None


def _lines(tx: Transaction, place: Place, passing: Collection[KeptLine]) -> dict[str, _Known]:
    """The lines of jobs of one place that pass these, by their buckets. They are added if they are
    absent. A line has the weight of the job that came last, and is costly by any of its jobs."""
    wanted = {one.buckets: one for one in passing}
    for one in passing:
        if one.costs is not None:
            last = wanted[one.buckets]
            wanted[one.buckets] = KeptLine(one.buckets, one.costs, last.weight)
    return _found_or_added(tx, place, wanted) if wanted else {}


def _found_or_added(
    tx: Transaction, place: Place, named: Mapping[str, KeptLine]
) -> dict[str, _Known]:
    rows = tx.rows(steps("parts/limited")["find"], (to_json(named), *place))
    found = {row[0]: _Known(*row[1:]) for row in rows}
    for buckets, one in found.items():
        passes = named[buckets]
        costly = passes.costs is not None
        if one.weight != passes.weight or costly > one.costly:
            _change(tx, one.id, passes, costly or one.costly)
    if len(found) < len(named):
        found |= _added(tx, place, [one for name, one in named.items() if name not in found])
    return found


def _added(tx: Transaction, place: Place, missing: Sequence[KeptLine]) -> dict[str, _Known]:
    sql = steps("parts/limited")
    [(first, turn)] = tx.rows(sql["next"], place[:2])
    numbers = {one.buckets: n for n, one in enumerate(missing, first)}
    for nature, alike in grouped(_nature, missing).items():
        rows = [(numbers[one.buckets], one.buckets, fair_in(one.buckets)) for one in alike]
        tx.fill_alike(sql["add"], rows, (turn, *place, *nature))
    return {
        one.buckets: _Known(numbers[one.buckets], one.weight, one.costs is not None, None)
        for one in missing
    }


def _nature(passes: KeptLine) -> Row:
    """What most new lines of a place share: whether they are costly and stand aside, the labels and
    the weight. As numbers: sqlite3 takes twice as long to bind a truth value."""
    labels = labels_in(passes.buckets)
    needed = to_json(sorted(labels)) if labels else None
    return +(passes.costs is not None), +is_aside(passes.buckets), needed, passes.weight


def _change(tx: Transaction, line: int, passes: KeptLine, costly: int) -> None:
    facts = {"weight": passes.weight, "fair": fair_in(passes.buckets), "costly": costly}
    tx.run(steps("parts/limited")["change"], {**facts, "id": line})


def stand_aside(
    tx: Transaction, line: int, passes: KeptLine, place: Place, seqs: Sequence[int]
) -> int:
    """Move jobs of one line that all cost the same, and more than a bucket ever lets pass, to a
    line of their own; answers its number."""
    text = aside(passes.buckets, passes.costs or "")
    own = KeptLine(text, passes.costs, passes.weight)
    [found] = _found_or_added(tx, place, {text: own}).values()
    values = [(found.id, line, *place[:2], seq) for seq in seqs]
    tx.each(steps("parts/limited")["stand aside"], values)
    return found.id


def look_at_lines_of(tx: Transaction, ids: Iterable[str]) -> None:
    """These jobs are about to leave their lines without a claim: who stands behind one of them may
    be able to begin where it was not."""
    _open(tx, tx.rows(steps("parts/limited")["parked lines"], (to_json(ids),)))


def _open(tx: Transaction, parked: Sequence[Row]) -> None:
    if parked:
        buckets = Buckets(tx)
        buckets.open_lines(parked)
        buckets.save()


def stand_anew(tx: Transaction, ids: Iterable[str]) -> None:
    """Put ready jobs with limits in the lines of the queues and priorities that they have now."""
    sql = steps("parts/limited")
    rows = tx.rows(sql["standing"], (to_json(ids),))
    if rows:
        limited = [row[0] for row in rows]
        look_at_lines_of(tx, limited)
        tx.run(sql["leave"], (to_json(limited),))
        enter_ready(tx, rows, at_old_places=True)
