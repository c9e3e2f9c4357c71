"""Which of the claimed jobs begin here, and what becomes of the others.

**Careful jobs.** A job that was claimed ahead of its slot pays nothing when its worker dies,
because the store believes that it had not begun. In truth it may have begun. For most jobs that
is one free attempt. It is too much for a job whose next attempt or crash is its last, and for a
job that came back from a worker before: such a job could kill one worker after another and never
pay. So these jobs never begin when they were claimed ahead. They go back, and are claimed again
when a slot is free. For them "claimed" means "begins now".

**Suspects.** A job that was running when a worker died may be the reason. If two suspects run in
one worker, its death does not tell which of them it was. So a worker holds one suspect at a time
and puts the others off for a moment. A suspect of one crash that has run for a while keeps nobody
waiting any longer: most suspects are innocent, and long jobs must not queue for hours behind each
other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from holdfast.errors import Undecipherable
from holdfast.handlers.registry import Mode
from holdfast.job.ends import PutOff, Raised
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide, leave
from holdfast.job.policy import decode_policy
from holdfast.job.record import Claimed, times_taken
from holdfast.job.retry import UniformRandom, exception_names
from holdfast.job.transition import Transition
from holdfast.reconcile.ruling import SUSPECT_SECONDS
from holdfast.worker.attempt import Answers, Attempt
from holdfast.worker.finisher import Finisher
from holdfast.worker.lost_claims import LostClaims
from holdfast.worker.meter import Meter
from holdfast.worker.permits import Permits
from holdfast.worker.runner import Runner
from holdfast.worker.setup import WorkerSetup

STAGGER = 0.1
"""Seconds between the suspects of one claim, when they are put off."""
WRITTEN_CHECK_SECONDS = 0.005
"""Seconds between two checks whether the ends that a suspect waits for are written."""


class Admission:
    """Takes what the fetcher claimed, and passes on to the runner what may begin."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        runner: Runner,
        finisher: Finisher,
        lost_claims: LostClaims,
        answers: Answers,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._registry = setup.registry
        self._events = setup.events
        self._permits = permits
        self._runner = runner
        self._finisher = finisher
        self._lost_claims = lost_claims
        self._answers = answers
        self._loop = asyncio.get_running_loop()
        self._apart: set[asyncio.Task[None]] = set()
        self._put_off_until = 0.0
        self._longest_put_off = 0.0

    def receive(self, claimed: Sequence[Claimed]) -> None:
        now = self._loop.time()
        attempts = self._in_time(self._attempts(claimed, now))
        if attempts:
            self._meter.choose(attempts)
            self._begin(admit(attempts, self._runner.running.values(), now))

    def _attempts(self, claimed: Sequence[Claimed], now: float) -> list[Attempt]:
        attempts: list[Attempt] = []
        for job in self._still_held(claimed):
            try:
                attempts.append(Attempt(job, self._registry[job.task], self._answers, now))
            except Undecipherable as problem:
                self._permits.give(job.queue)
                self._finisher.add(None, self._undecipherable(job, problem))
            except Exception as problem:  # noqa: BLE001 - left, visibly, for a worker that can read it
                self._permits.give(job.queue)
                self._finisher.add(None, leave(job, problem))
                self._events.warning("job.left", job_id=job.id, queue=job.queue, error=str(problem))
        return attempts

    def _undecipherable(self, job: Claimed, problem: Undecipherable) -> Transition:
        """An attempt that fails before it begins. Another worker may have the right key, so it is
        tried again; but nobody has one for what was altered, so the job's policy ends that."""
        names = exception_names(type(problem))
        move = decide(job, Raised(type(problem).__name__, str(problem), names=names))
        self._events.error(
            "job.undecipherable",
            job_id=job.id,
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            error=str(problem),
            next=move.to,
        )
        return move

    def _still_held(self, claimed: Sequence[Claimed]) -> Sequence[Claimed]:
        """Leave out the jobs that were handed back before the answer to their claim came."""
        returned = self._lost_claims.returned
        if not returned:
            return claimed
        for job in claimed:
            if (job.id, job.fence) in returned:
                self._permits.give(job.queue)
        return [job for job in claimed if (job.id, job.fence) not in returned]

    def _in_time(self, attempts: list[Attempt]) -> list[Attempt]:
        """Hand back what may not begin here any more, and return the rest."""
        runner = self._runner
        if not runner.leaving and not runner.closes_any:
            return attempts
        late = [one for one in attempts if runner.leaving or runner.is_closed(one.job.queue)]
        runner.hand_back(late)
        return [one for one in attempts if not one.ended]

    def all_is_written(self) -> None:
        """The store counts the wait of a suspect from the write, not from the decision."""
        if self._longest_put_off:
            due = self._loop.time() + self._longest_put_off
            self._put_off_until = max(self._put_off_until, due)
            self._longest_put_off = 0.0

    @property
    def has_put_off(self) -> bool:
        """Whether a suspect that was put off here may still have to wait for its time."""
        return self._longest_put_off > 0 or self._loop.time() <= self._put_off_until

    def _begin(self, admitted: Admitted) -> None:
        self._permits.reads_ahead = not admitted.careful
        self._runner.dispatch(admitted.begin)
        if not admitted.careful:
            return
        self._runner.hand_back(admitted.hand_back)
        for suspect, seconds in admitted.put_off:
            self._longest_put_off = max(self._longest_put_off, seconds)
            why = PutOff(seconds, "another job that may be why a worker died runs")
            self._runner.hand_back([suspect], why)
        if admitted.apart is not None:
            self._hold_apart(admitted.apart, [one.job.id for one, _ in admitted.put_off])

    def _hold_apart(self, suspect: Attempt, others: list[JobId]) -> None:
        if not others:
            self._runner.dispatch([suspect])
            return
        self._runner.hold(suspect)
        task = asyncio.create_task(self._begin_apart(suspect, others), name="holdfast-suspect")
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)

    async def _begin_apart(self, suspect: Attempt, others: list[JobId]) -> None:
        """Begin the suspect when it is written that the others were put off. If this worker died
        before that, its death would be charged to the others too."""
        while not suspect.ended and any(map(self._finisher.holds, others)):  # noqa: ASYNC110
            await asyncio.sleep(WRITTEN_CHECK_SECONDS)
        if not suspect.ended:
            if self._runner.leaving:
                self._runner.hand_back([suspect])
            else:
                self._runner.dispatch([suspect])


class Admitted(msgspec.Struct):
    """What is to be done with the attempts of one claim. `apart` is the suspect that begins when
    it is written that the others were put off. `careful`: some of these jobs are careful ones."""

    begin: list[Attempt] = msgspec.field(default_factory=list)
    apart: Attempt | None = None
    hand_back: list[Attempt] = msgspec.field(default_factory=list)
    put_off: list[tuple[Attempt, float]] = msgspec.field(default_factory=list)
    careful: bool = False


def admit(
    attempts: Sequence[Attempt],
    running: Iterable[Attempt],
    now: float,
    uniform: UniformRandom = random.random,
) -> Admitted:
    """Decide about the attempts of one claim. Pure: nothing is begun or handed back here."""
    if not any(map(is_careful, attempts)):
        return Admitted(list(attempts))
    admitted = Admitted(careful=True)
    suspects = []
    for attempt in attempts:
        if not is_careful(attempt):
            admitted.begin.append(attempt)
            continue
        if attempt.job.ahead:
            admitted.hand_back.append(attempt)
        elif is_suspect(attempt):
            suspects.append(attempt)
        else:
            admitted.begin.append(attempt)
    if suspects:
        _choose(admitted, suspects, [one for one in running if is_suspect(one)], now, uniform)
    return admitted


def is_careful(attempt: Attempt) -> bool:
    """Whether this job may begin only if it was not claimed ahead."""
    job = attempt.job
    return (
        job.crashes > 0
        or times_taken(job.fence) - 1 > job.attempts
        or _may_be_the_last(job.policy, job.attempts)
    )


@lru_cache(maxsize=1024)
def _may_be_the_last(policy_text: str, attempts: int) -> bool:
    """Whether the next attempt after so many, or the first crash, is a job's last. This is asked of
    every job, and most jobs share a policy."""
    policy = decode_policy(policy_text)
    return not policy.retry.allows(attempts + 1) or policy.max_crashes <= 1


def is_suspect(attempt: Attempt) -> bool:
    """Whether this job may kill its worker. A handler in a child process kills that child only."""
    return attempt.job.crashes > 0 and attempt.handler.mode is not Mode.PROCESS


def _choose(
    admitted: Admitted,
    suspects: Sequence[Attempt],
    held: Sequence[Attempt],
    now: float,
    uniform: UniformRandom,
) -> None:
    for suspect in suspects:
        if admitted.apart is None and all(_tolerates(one, suspect, now) for one in held):
            admitted.apart = suspect
        else:
            wait = STAGGER * (len(admitted.put_off) + 1 + uniform())
            admitted.put_off.append((suspect, wait))


def _tolerates(held: Attempt, suspect: Attempt, now: float) -> bool:
    """Whether this suspect may begin beside the suspect `held`, which runs already."""
    long_enough = held.begun and now - held.since > SUSPECT_SECONDS
    return long_enough and held.job.crashes == suspect.job.crashes == 1
