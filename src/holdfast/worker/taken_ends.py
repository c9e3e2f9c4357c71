"""Ends that handlers have written in transactions of their own (`ctx.finish_within`).

Whether such a transaction is committed, only the store knows. So the worker writes another end: the
one that counts if the transaction was rolled back. How the store answers that says what became of
the handler's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.events import Events
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict


class TakenEnds:
    """The ends that handlers have written, until the store has answered the worker's own."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._taken: dict[tuple[JobId, int], Transition] = {}
        self._told: set[tuple[JobId, int]] = set()

    def __bool__(self) -> bool:
        return bool(self._taken)

    def expect(self, taken: Transition) -> None:
        """The handler of the end that is added next has written this end."""
        self._taken[taken.id, taken.fence] = taken

    def judge(
        self, batch: Sequence[Transition], verdicts: Sequence[Verdict]
    ) -> tuple[list[Transition], list[Verdict]]:
        """What became of these attempts, by what the store has answered."""
        judged = [self._judged(*end) for end in zip(batch, verdicts, strict=True)]
        return [end for end, _ in judged], [verdict for _, verdict in judged]

    def _judged(self, transition: Transition, verdict: Verdict) -> tuple[Transition, Verdict]:
        """A store that refuses the worker's end and has the job as succeeded, or no more, says that
        the handler's transaction was committed. One that accepts says that it was rolled back."""
        if verdict.is_held_up(transition):
            self._tell_open(transition)
            return transition, verdict
        taken = self._taken.pop((transition.id, transition.fence), None)
        if taken is None:
            return transition, verdict
        self._told.discard((transition.id, transition.fence))
        if verdict.accepted:
            failed = transition.to is JobState.FAILED
            report = self._events.error if failed else self._events.warning
            report("job.not_committed", job_id=taken.id, next=transition.to)
        elif verdict.state is None or (verdict.state, verdict.fence) == (taken.to, taken.fence):
            return taken, Verdict(taken.id, accepted=True)
        return transition, verdict

    def _tell_open(self, transition: Transition) -> None:
        """The handler has left its transaction open: say so once."""
        name = (transition.id, transition.fence)
        if name in self._taken and name not in self._told:
            self._told.add(name)
            self._events.warning("job.transaction_open", job_id=transition.id, next=transition.to)
