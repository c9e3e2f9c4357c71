"""What callers ask for, and how attempts end, for the state machine.

Times never meet: the clock moves by whole seconds, and every wait of job number n has a part of
n milliseconds to it. What happens at the very instant is for the conformance suite to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from holdfast.job.ends import End, HandedBack, Raised, Returned, Snoozed, WasSuspended, WasThrottled
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, Retention
from holdfast.job.record import NewJob
from holdfast.job.retry import Retry
from holdfast.job.state import JobState as S
from holdfast.job.ties import Tie
from holdfast.job.unique import OnConflict, Unique
from tests.conformance.builders import new_job
from tests.properties.model import ModelJob

T = TypeVar("T")
QUEUES = ["fast", "slow"]
MODES: list[OnConflict] = ["keep", "replace", "debounce"]

queues = st.sampled_from(QUEUES)

END: dict[str, Callable[[float], End]] = {
    "return": lambda part: Returned("1"),
    "raise": lambda part: Raised("ValueError", "boom"),
    "hint": lambda part: Raised("Busy", "later", retry_after=20 + part),
    "fail": lambda part: Raised("Fail", "no use", final=True),
    "snooze": lambda part: Snoozed(10 + part),
    "throttle": lambda part: WasThrottled(10 + part, "slow down"),
    "suspend": lambda part: WasSuspended(None),
    "sleep": lambda part: WasSuspended(10 + part),
    "hand back": lambda part: HandedBack(),
}
ends = st.sampled_from(sorted(END))


@dataclass(frozen=True)
class Order:
    """What a caller asks for when it enqueues. `part` makes all its times its own."""

    queue: str
    priority: int
    delay: int | None
    deadline: int | None
    timeout: int | None
    max_attempts: int
    max_crashes: int
    unique: tuple[str, OnConflict] | None
    ties: int
    blocked: bool

    def policy(self, part: float) -> Policy:
        return Policy(
            Retry.constant(self.max_attempts, 5 + part, jitter=0),
            None if self.timeout is None else self.timeout + part,
            self.max_crashes,
            Retention(50.5, 50.5, 50.5),
        )

    def job(self, part: float) -> NewJob:
        return new_job(
            policy=self.policy(part),
            queue=self.queue,
            priority=self.priority,
            delay=None if self.delay is None else self.delay + part,
            deadline_in=None if self.deadline is None else self.deadline + part,
            unique=Unique(self.unique[0], on_conflict=self.unique[1]) if self.unique else None,
            ties=self.ties,
            blocked=self.blocked,
        )

    def twin(self, part: float, now: float) -> ModelJob:
        """The model's idea of the same job."""
        waits = self.delay is not None and not self.blocked
        return ModelJob(
            id=JobId(""),
            queue=self.queue,
            priority=self.priority,
            policy=self.policy(part),
            state=S.BLOCKED if self.blocked else S.SCHEDULED if waits else S.READY,
            seq=0,
            key=self.unique[0] if self.unique else None,
            due=now + self.delay + part if self.delay is not None and waits else None,
            deadline=None if self.deadline is None else now + self.deadline + part,
            ties=self.ties,
        )


def seldom(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.one_of(st.none(), st.none(), st.none(), strategy)


orders = st.builds(
    Order,
    queue=queues,
    priority=st.integers(-1, 1),
    delay=seldom(st.integers(1, 40)),
    deadline=seldom(st.integers(1, 90)),
    timeout=seldom(st.integers(1, 60)),
    max_attempts=st.integers(1, 3),
    max_crashes=st.integers(1, 2),
    unique=seldom(st.tuples(st.sampled_from("ab"), st.sampled_from(MODES))),
    # None has the tie of a node without its flow, nor that of permits without its buckets.
    ties=st.sampled_from([0, 0, 0, int(Tie.WATCHED)]),
    blocked=st.sampled_from([False, False, False, True]),
)
