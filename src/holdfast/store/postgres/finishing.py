"""How attempts end, and waiting jobs with them, on Postgres.

A batch is applied by an ordered list of steps: the successes of nodes and of plain jobs, the
guarded moves of all other jobs, and then what follows from the moves that were made. One step is
one statement and one round trip; successes need no more. Several steps share a transaction. A step
for tied jobs (`Transition.ties`) belongs behind the guarded moves, which tell it what has been
moved. But flows are locked before any lease.

All moves are guarded by fence. A refused job is looked up afterwards, and its verdict says where it
really is. A caller whose first reply was lost recognises its own success there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import attrgetter

from holdfast.errors import StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.transition import Transition, require_legal_moves
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.finishing_steps import Asked, FinishingSteps, Moved, Reclaim, ends_node
from holdfast.store.postgres.held_keys import waited_in_vain
from holdfast.store.postgres.rows import STATES

_state = attrgetter("state")
Step = Callable[[Session, Asked, Moved], Awaitable[None]]


class PostgresFinishing(FinishingSteps):
    """See `holdfast.store.contract.finishing.Finishing` for what each verb promises."""

    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        return await self._finish(transitions, None)

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        return await self._finish(transitions, Reclaim(by))

    async def _finish(
        self, transitions: Sequence[Transition], reclaim: Reclaim | None
    ) -> list[Verdict]:
        if not transitions:
            return []
        verdicts = await self._judge(transitions, reclaim)
        if JobState.READY in map(_state, verdicts):
            self._skip_points.forget()
        return verdicts

    async def _judge(
        self, transitions: Sequence[Transition], reclaim: Reclaim | None
    ) -> list[Verdict]:
        """Verdicts in the order asked; of two moves of one job the first that counts wins."""
        first = {move.id: move for move in reversed(transitions)}
        asked = _sorted_out(first.values(), reclaim)
        if asked.others or len(first) < len(transitions):
            require_legal_moves(transitions)
        verdicts = (await self._apply(asked)).verdicts
        if len(verdicts) < len(first):
            await self._explain_refusals([job for job in first if job not in verdicts], verdicts)
        answers = [verdicts[move.id] for move in transitions]
        if len(first) < len(transitions):
            await self._judge_twins(transitions, answers, reclaim)
        return answers

    async def _judge_twins(
        self, transitions: Sequence[Transition], answers: list[Verdict], reclaim: Reclaim | None
    ) -> None:
        """Further moves of one job, which one statement cannot make: each is refused if the move
        before it was accepted, and is tried otherwise."""
        left = []
        for place in _twins(transitions):
            before = answers[place]
            if before.accepted:
                answers[place] = Verdict(before.id, False, before.state, before.fence)
            else:
                left.append(place)
        if left:
            again = await self._judge([transitions[place] for place in left], reclaim)
            for place, verdict in zip(left, again, strict=True):
                answers[place] = verdict

    async def _apply(self, asked: Asked) -> Moved:
        steps = self._steps(asked)

        async def take(session: Session) -> Moved:
            moved = Moved()
            for step in steps:
                await step(session, asked, moved)
            return moved

        # Not repeated here: the worker repeats it, and recognises its own success.
        try:
            return await self._connections.run(take, transaction=len(steps) > 1, again=False)
        except StoreUnavailable as error:
            if asked.pass_by or not waited_in_vain(error):
                raise
        # Somebody's open transaction has locked the job of a plain success, or the flow of a node.
        # The guarded moves pass a locked job by.
        others = [*asked.plain, *asked.permits, *asked.nodes, *asked.others]
        return await self._apply(Asked([], [], [], others, asked.reclaim, pass_by=True))

    def _steps(self, asked: Asked) -> list[Step]:
        """The steps that this batch needs, in their order. All flows of a batch are locked at
        once and before any lease, so that no two batches wait for each other in a circle. A
        blocked node that is to end does so before it could be released."""
        steps: list[Step] = []
        ends_nodes = any(map(ends_node, asked.others))
        if ends_nodes:
            steps.append(self._lock_flows)
        elif asked.nodes:
            steps.append(self._succeed_nodes)
        if any(move.steps for move in asked.others):
            steps.append(self._record)
        if asked.plain:
            steps.append(self._succeed)
        if asked.others:
            steps.append(self._move)
        if ends_nodes:
            steps.append(self._settle)
            if asked.nodes:
                steps.append(self._succeed_nodes)
        return [*steps, *self._last_steps(asked)]

    def _last_steps(self, asked: Asked) -> list[Step]:
        """Those that lock queues and buckets, for which claims wait."""
        steps: list[Step] = []
        drains = any(move.drains is not None for move in asked.others)
        if drains:
            steps.append(self._look_for_limits)
        if drains or any(move.cool is not None for move in asked.others):
            steps.append(self._throttle)
        if asked.permits:
            steps.append(self._succeed_with_permits)
        if drains:
            steps.append(self._drain)
        return steps

    async def _explain_refusals(
        self, refused: Sequence[JobId], verdicts: dict[JobId, Verdict]
    ) -> None:
        verdicts.update((name, Verdict(name, False)) for name in refused)
        for row in await self._connections.fetch("jobs/whereabouts", list(refused)):
            name = JobId(str(row["job_id"]))
            verdicts[name] = Verdict(name, False, STATES[row["state"]], row["fence"])


def _sorted_out(moves: Iterable[Transition], reclaim: Reclaim | None) -> Asked:
    asked = Asked([], [], [], [], reclaim)
    for move in moves:
        if reclaim is not None:
            asked.others.append(move)
        elif move.is_plain_success:
            asked.plain.append(move)
        elif move.is_plain_success_with_permits:
            asked.permits.append(move)
        elif move.is_plain_success_of_node:
            asked.nodes.append(move)
        else:
            asked.others.append(move)
    return asked


def _twins(moves: Sequence[Transition]) -> list[int]:
    """Where in a batch a job comes again."""
    seen = set[JobId]()
    places = []
    for place, move in enumerate(moves):
        if move.id in seen:
            places.append(place)
        seen.add(move.id)
    return places
