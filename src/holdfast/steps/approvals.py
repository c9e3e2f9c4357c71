"""People whom a handler asks: each gets a token, and the handler waits for enough of their votes.

Each vote is a signal of its own name, and is taken as it comes: it is recorded as a step, and the
votes that are recorded decide. When they do, or when the time is over, the question is closed by a
step of its own, which has the votes that decided: from then on the store refuses votes. Then those
are taken that came before that, and the decision is a step with the name of the wait. So every vote
that was accepted and can be proven is counted.

The worker has the keys: it signs the tokens, and takes a vote only if it can prove it. It may lack
the key of a vote, because the program that took the answer got a new key first. Such a vote stays
in the store and counts neither for nor against. The person is asked again, and the vote counts once
a worker that has its key looks at it. The next attempt may have a worker with fewer keys than this
one, so what was decided does not have to be proven again.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import BadOption, HoldfastError
from holdfast.job import checks
from holdfast.job.loopless import run_without_loop
from holdfast.job.requests import SignTokens, TakeVotes, TokensSigned, VotesTaken
from holdfast.job.signal import LONGEST_NAME
from holdfast.job.vote import MOST_PEOPLE, Approval, Invited, Vote, closing_step, decide_votes
from holdfast.steps.running import KEEPS_SLOT
from holdfast.steps.signals import SignalRunner, require_between_steps
from holdfast.steps.ways import LOOK_SECONDS

NO_KEYS = "set, such as by HOLDFAST_SIGNING_KEYS, before people are asked (holdfast keys generate)"
_to_approval = msgspec.json.Decoder(Approval).decode


class Question(NamedTuple):
    """A wait for the votes of the people who are asked."""

    wait: str
    people: tuple[str, ...]
    need: int

    def __str__(self) -> str:
        return f"{self.need} of {len(self.people)} votes on {self.wait!r}"


class Invitation:
    """Some people who are asked. `tokens` has the token of each: send it to that person only.
    Tokens are signed anew with every attempt and kept nowhere; earlier ones hold too."""

    __slots__ = ("_runner", "_wait", "_waited", "tokens")

    def __init__(self, runner: ApprovalRunner, wait: str, tokens: dict[str, str]) -> None:
        self._runner = runner
        self._wait = wait
        self._waited = False
        self.tokens = tokens

    def __repr__(self) -> str:
        return f"<invitation {self._wait!r} of {', '.join(self.tokens)}>"

    def quorum(
        self, need: int, *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Approval]:
        """Wait without a slot until so many of the people have said yes, or so many no that the
        others are not enough, or the time is over. The answer says which."""
        if self._waited:
            raise HoldfastError(f"{self!r} was waited for already: ask again by ctx.invite(…)")
        people = tuple(self.tokens)
        if not 1 <= checks.count("need", need) <= len(people):
            raise BadOption("need", f"between 1 and {len(people)}, the number of people", need)
        seconds = None if timeout is None else checks.wait("timeout", timeout)
        self._waited = True
        return self._runner.approval(Question(self._wait, people, need), seconds)

    def quorum_sync(self, need: int, *, timeout: float | timedelta | None = None) -> Approval:
        """`quorum` for plain functions, in a thread or a process."""
        return run_without_loop(self.quorum(need, timeout=timeout))


class ApprovalRunner(SignalRunner):
    """Runs the steps of one attempt, its waits for signals, and those for votes."""

    __slots__ = ()

    def invite(self, name: str, of: Iterable[str]) -> Invitation:
        """Ask these people. The second invitation of a name is one of its own."""
        people = _people(of)
        wait = self.named(name)
        for who in people:
            if len(self.asked(wait, who).signal) > LONGEST_NAME:
                expected = f"shorter: with the name {wait!r} it is over {LONGEST_NAME} characters"
                raise BadOption("the name of a person", expected, who)
        answer = self._way.ask_now(SignTokens(wait, people))
        if not isinstance(answer, TokensSigned):
            raise TypeError(f"a request for tokens was answered by {answer!r}")
        if answer.tokens is None:
            raise BadOption("signing_keys", NO_KEYS, None)
        return Invitation(self, wait, answer.tokens)

    async def approval(self, question: Question, timeout: float | None) -> Approval:
        """What became of the wait. Unless it is short, the handler is left meanwhile."""
        require_between_steps(str(question))
        decided = await self._found(question.wait)
        if decided is not None and decided.result_json is not None:
            return _to_approval(decided.result_json)
        closed = await self._found(closing_step(question.wait))
        if closed is not None and closed.result_json is not None:
            before = _to_approval(closed.result_json)
        else:
            before = await self._asked_until(question, timeout)
        while (taken := await self._votes(question)).took:
            pass  # the first ones may have been seen before the question was closed
        approval = _with_late(before, taken, question)
        await self._keep(self._record(question.wait, result=_text(approval)), lazy=True)
        return approval

    async def _asked_until(self, question: Question, timeout: float | None) -> Approval:
        """Return when the votes decide, or when the time is over. From then on every vote is late:
        all that were accepted are there."""
        taken = await self._votes(question)
        left = timeout if taken.until is None else self._left_until(taken.until)
        while (approval := _approval(taken.votes, question)).timed_out:
            if not taken.took:
                if left is not None and left <= 0:
                    break
                left = await self._await_votes(question, taken, left)
            taken = await self._votes(question)
        closing = self._record(closing_step(question.wait), result=_text(approval))
        await self._keep(closing, lazy=False)
        return approval

    async def _await_votes(
        self, question: Question, taken: VotesTaken, left: float | None
    ) -> float | None:
        """Wait for the next vote, here or without the slot; gives the time that is left then."""
        if left is None or left >= KEEPS_SLOT:
            steps = {signal: signal for signal in taken.awaited}
            return await self._leave_for(steps, left, str(question))
        began = time.monotonic()
        await self._way.pause(min(left, LOOK_SECONDS))
        return left - (time.monotonic() - began)

    async def _votes(self, question: Question) -> VotesTaken:
        """Take the votes that are there. A look counts as under way, as that for signals does."""
        self._running += 1
        try:
            answer = await self._ask(TakeVotes(question.wait, question.people))
        finally:
            self._end_one()
        if not isinstance(answer, VotesTaken):
            raise TypeError(f"a look for votes was answered by {answer!r}")
        return answer

    def asked(self, wait: str, who: str) -> Invited:
        return Invited(self._claimed.id, wait, who)


def _approval(votes: Sequence[Vote], question: Question) -> Approval:
    """What these votes decide. As long as they decide nothing, the wait would time out."""
    granted = decide_votes(votes, question.people, question.need)
    return Approval(granted is True, granted is None, tuple(votes))


def _with_late(closed: Approval, taken: VotesTaken, question: Question) -> Approval:
    """The decision with the votes that came before the question was closed and had not been seen.
    Votes that have decided stay: the worker may lack their keys by now."""
    known = {vote.who for vote in closed.votes}
    late = [vote for vote in taken.votes if vote.who not in known]
    votes = sorted((*closed.votes, *late), key=lambda vote: vote.at)
    if closed.timed_out:
        return _approval(votes, question)
    return msgspec.structs.replace(closed, votes=tuple(votes))


def _text(approval: Approval) -> str:
    return msgspec.json.encode(approval).decode()


def _people(of: Iterable[str]) -> tuple[str, ...]:
    if isinstance(of, str) or not isinstance(of, Iterable):
        raise BadOption("of", "names of people, such as ['ann', 'bob']", of)
    people = tuple(checks.text("the name of a person", who, LONGEST_NAME) for who in of)
    if not 1 <= len(people) <= MOST_PEOPLE:
        raise BadOption("of", f"1 to {MOST_PEOPLE} people", len(people))
    if len(set(people)) < len(people):
        raise BadOption("of", "each person once", ", ".join(people))
    return people
