"""What a worker asks for by one claim, and what of it is still wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.job.ids import WorkerId
from holdfast.store.contract.records import Want
from holdfast.store.postgres.pool import Record


class Claim(msgspec.Struct, frozen=True):
    """What a worker asks for, and the numbers of the statements so far that may have given it
    jobs."""

    worker: WorkerId
    tasks: list[str]
    labels: list[str]
    only: list[str]
    counter: Iterator[int]
    numbers: list[int] = []

    def next_number(self) -> int:
        """A number for the next statement. The jobs that it takes keep this number."""
        number = next(self.counter)
        self.numbers.append(number)
        return number


def still_wanted(wants: Sequence[Want], found: Sequence[Record]) -> list[Want]:
    """What was asked for without what was found. A queue that gave everything is left out."""
    if len(found) == sum(want.limit for want in wants):
        return []
    got: dict[str, int] = {}
    for row in found:
        got[row["queue"]] = got.get(row["queue"], 0) + 1
    return [
        Want(
            want.queue,
            want.limit - got.get(want.queue, 0),
            max(0, want.free - got.get(want.queue, 0)),
        )
        for want in wants
        if want.limit > got.get(want.queue, 0)
    ]
