"""Ends of attempts: the common one in a lean statement, all others in a general one.

Both are guarded by fence. What they refuse is looked up afterwards, so that the
caller hears where the job really is; a caller whose first reply was lost finds
its own success there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.outcome import Transition
from holdfast.job.policy import Retention
from holdfast.job.record import ERRORS_KEPT
from holdfast.job.state import JobState
from holdfast.store.contract.records import Verdict, WorkerInfo
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Line, Record
from holdfast.store.postgres.rows import STATES


class Reclaim(msgspec.Struct, frozen=True):
    """Only jobs of workers that are gone or lapsed are moved, on the word of this worker."""

    by: WorkerInfo | None


class Finisher:
    """The finish and reclaim verbs of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def finish(
        self, transitions: Sequence[Transition], reclaim: Reclaim | None = None
    ) -> list[Verdict]:
        """Verdicts in the order asked; of two ends for one job the first that counts wins."""
        first = {end.id: end for end in reversed(transitions)}
        plain, others = _sorted_out(first.values(), reclaim)
        verdicts = await self._apply(plain, others, reclaim)
        await self._explain_refusals([job for job in first if job not in verdicts], verdicts)
        answers = [verdicts[end.id] for end in transitions]
        if len(first) < len(transitions):
            await self._judge_twins(transitions, answers, reclaim)
        return answers

    async def _judge_twins(
        self, transitions: Sequence[Transition], answers: list[Verdict], reclaim: Reclaim | None
    ) -> None:
        """Further ends of one job: too late if the one before was accepted, else they have
        their turn. One statement cannot meet a job twice."""
        left = []
        for place in _twins(transitions):
            told = answers[place]
            if told.accepted:
                answers[place] = Verdict(told.id, False, told.state, told.fence)
            else:
                left.append(place)
        if left:
            again = await self.finish([transitions[place] for place in left], reclaim)
            for place, verdict in zip(left, again, strict=True):
                answers[place] = verdict

    async def _apply(
        self, plain: list[Transition], others: list[Transition], reclaim: Reclaim | None
    ) -> dict[JobId, Verdict]:
        """What was accepted. Two statements only when both kinds came, then in one transaction."""

        async def both(line: Line) -> dict[JobId, Verdict]:
            accepted: dict[JobId, Verdict] = {}
            if plain:
                refused = await line.fetch(
                    self._script("jobs/finish_succeeded"), *self._plain(plain)
                )
                names = {str(row[0]) for row in refused}
                accepted |= {end.id: _succeeded(end) for end in plain if end.id not in names}
            if others:
                values = self._general(others, reclaim)
                moved = await line.fetch(self._script("jobs/finish"), *values)
                accepted |= {JobId(str(row[0])): _accepted(row) for row in moved}
            return accepted

        # Not repeated here: a worker that repeats it knows its own success from a refusal.
        return await self._connections.run(
            both, transaction=bool(plain) and bool(others), again=False
        )

    async def _explain_refusals(
        self, refused: Sequence[JobId], verdicts: dict[JobId, Verdict]
    ) -> None:
        if not refused:
            return
        verdicts.update((name, Verdict(name, False)) for name in refused)
        for row in await self._connections.fetch("jobs/whereabouts", list(refused)):
            name = JobId(str(row[0]))
            verdicts[name] = Verdict(name, False, STATES[row[1]], row[2])

    def _script(self, verb: str) -> str:
        return self._connections.scripts[verb]

    def _plain(self, ends: Sequence[Transition]) -> tuple[object, ...]:
        return (
            self._connections.clock.override(),
            [end.id for end in ends],
            [end.fence for end in ends],
            [end.result for end in ends],
            [end.keep_for for end in ends],
        )

    def _general(self, ends: Sequence[Transition], reclaim: Reclaim | None) -> tuple[object, ...]:
        errors = [end.error for end in ends]
        by = reclaim and reclaim.by
        return (
            self._connections.clock.override(),
            self._connections.options.channel,
            reclaim is not None,
            [end.id for end in ends],
            [end.fence for end in ends],
            [end.source.value for end in ends],
            [end.to.value for end in ends],
            [end.spend for end in ends],
            [end.crash for end in ends],
            [end.bump for end in ends],
            [end.delay for end in ends],
            [end.keep_for for end in ends],
            [end.result for end in ends],
            [end.reason for end in ends],
            [end.cool for end in ends],
            [error and error.kind for error in errors],
            [error and error.message for error in errors],
            [error and error.traceback for error in errors],
            [error and error.attempt for error in errors],
            ERRORS_KEPT,
            Retention().other,
            by and by.id,
            by and by.alive_since,
        )


def _sorted_out(
    ends: Iterable[Transition], reclaim: Reclaim | None
) -> tuple[list[Transition], list[Transition]]:
    plain: list[Transition] = []
    others: list[Transition] = []
    for end in ends:
        (others if reclaim is not None or not end.is_plain_success else plain).append(end)
    return plain, others


def _succeeded(end: Transition) -> Verdict:
    return Verdict(end.id, True, JobState.SUCCEEDED, end.fence)


def _accepted(row: Record) -> Verdict:
    return Verdict(JobId(str(row[0])), True, STATES[row[1]], row[2])


def _twins(ends: Sequence[Transition]) -> list[int]:
    """Where in a batch a job comes again."""
    seen = set[JobId]()
    places = []
    for place, end in enumerate(ends):
        if end.id in seen:
            places.append(place)
        seen.add(end.id)
    return places
