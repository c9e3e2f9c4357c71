"""The ends that this worker has handed to the store lately.

A server may forget an end that it acknowledged: it lost its last writes in a crash, or a replica
that had not received the end took its place. The store then says that the job still runs here. The
worker has run that attempt, so it must not run again: the worker writes the same end once more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from holdfast.job.ids import JobId
from holdfast.job.transition import Transition

MOST_ENDS = 10_000
MOST_BYTES = 8 * 1024 * 1024
"""Of results. The newest batch is kept however large it is."""

Attempts = dict[tuple[JobId, int], Transition | None]


class PastEnds:
    """Keeps whole batches, so that it costs next to nothing for each job."""

    def __init__(self) -> None:
        self._batches: deque[tuple[Sequence[Transition], int]] = deque()
        self._given_up: deque[tuple[JobId, int]] = deque(maxlen=MOST_ENDS)
        self._ends = 0
        self._bytes = 0

    def keep(self, batch: Sequence[Transition]) -> None:
        """The store has answered to these ends."""
        size = sum([len(end.result) for end in batch if end.result is not None])
        self._batches.append((batch, size))
        self._ends += len(batch)
        self._bytes += size
        while len(self._batches) > 1 and (self._ends > MOST_ENDS or self._bytes > MOST_BYTES):
            oldest, its_size = self._batches.popleft()
            self._ends -= len(oldest)
            self._bytes -= its_size

    def give_up(self, job_id: JobId, fence: int) -> None:
        """This attempt has run, and no end of it will be written: the end could not be written at
        all, or the store said that the attempt is another worker's."""
        self._given_up.append((job_id, fence))

    def attempts(self) -> Attempts:
        """The attempts that this worker has run, with the end to write again, if there is one."""
        ends = ((end.id, end.fence, end) for batch, _ in self._batches for end in batch)
        found: Attempts = {(job_id, fence): end for job_id, fence, end in ends}
        return found | dict.fromkeys(self._given_up)
