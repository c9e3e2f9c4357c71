"""People whom a handler asks: each gets a token, and the handler waits for enough of their votes.

Each vote is a signal of its own name, and is taken as it comes: it is recorded as a step, and the
votes that are recorded decide. When they do, or when the time is over, the question is closed by a
step of its own: from then on the store refuses votes. Then those are taken that came before that,
and the decision is a step with the name of the wait. So every vote that was accepted is counted.
The worker has the keys: it signs the tokens and checks the proof of each vote.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.errors import BadOption, HoldfastError
from holdfast.job import checks
from holdfast.job.loopless import run_without_loop
from holdfast.job.requests import CheckVotes, SignTokens, TakeSignals, TokensSigned, VotesChecked
from holdfast.job.signal import LONGEST_NAME
from holdfast.job.vote import MOST_PEOPLE, Approval, Invited, Vote, closing_step, decide_votes
from holdfast.steps.running import KEEPS_SLOT
from holdfast.steps.signals import SignalRunner, require_between_steps
from holdfast.steps.ways import LOOK_SECONDS

NO_KEYS = "set, such as by HOLDFAST_SIGNING_KEYS, before people are asked (holdfast keys generate)"
_to_approval = msgspec.json.Decoder(Approval).decode


class Question:
    """A wait for votes: `signals` by the people who are asked, and the `ballots` that have come."""

    def __init__(self, wait: str, signals: Mapping[str, str], need: int) -> None:
        self.wait = wait
        self.signals = signals
        self.need = need
        self.ballots: dict[str, str] = {}
        self.said = f"{need} of {len(signals)} votes on {wait!r}"

    @property
    def people(self) -> Collection[str]:
        return self.signals.keys()

    @property
    def missing(self) -> dict[str, str]:
        """Who has not answered, by their signals."""
        return {one: who for who, one in self.signals.items() if who not in self.ballots}


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
        signals = {who: self._runner.asked(self._wait, who).signal for who in people}
        return self._runner.approval(Question(self._wait, signals, need), seconds)

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
        require_between_steps(question.said)
        decided = await self._found(question.wait)
        closed = await self._found(closing_step(question.wait))
        found = {who: await self._found(signal) for who, signal in question.signals.items()}
        if decided is not None and decided.result_json is not None:
            return _to_approval(decided.result_json)
        known = {who: step for who, step in found.items() if step is not None}
        for who, step in sorted(known.items(), key=lambda item: item[1].n):
            if step.result_json is not None:
                question.ballots[who] = step.result_json
        if closed is None:
            await self._asked_until(question, self._time_left(known.values(), timeout))
        while await self._take_votes(question):
            pass  # the first ones may have been seen before the question was closed
        votes = await self._checked(question)
        granted = decide_votes(votes, question.people, question.need)
        timed_out = granted is None and bool(question.missing)
        approval = Approval(granted is True, timed_out, votes)
        text = msgspec.json.encode(approval).decode()
        await self._keep(self._record(question.wait, result=text), lazy=True)
        return approval

    async def _asked_until(self, question: Question, left: float | None) -> None:
        """Return when the votes decide, when everybody has answered, or when the time is over. From
        then on every vote is late: all that were accepted are there."""
        while decide_votes(await self._checked(question), question.people, question.need) is None:
            if await self._take_votes(question):
                continue
            if not question.missing or (left is not None and left <= 0):
                break
            left = await self._await_votes(question, left)
        closing = self._record(closing_step(question.wait), result="true")
        await self._keep(closing, lazy=False)

    async def _take_votes(self, question: Question) -> bool:
        """Take all votes that are there; answers whether there were any."""
        steps = {signal: signal for signal in question.missing}
        taken = (await self._taken(TakeSignals(steps, 1, len(steps)))).values if steps else {}
        question.ballots.update({question.missing[signal]: text for signal, text in taken.items()})
        return bool(taken)

    async def _await_votes(self, question: Question, left: float | None) -> float | None:
        """Wait for the next vote, here or without the slot; gives the time that is left then."""
        if left is None or left >= KEEPS_SLOT:
            steps = {signal: signal for signal in question.missing}
            return await self._leave_for(steps, left, question.said)
        began = time.monotonic()
        await self._way.pause(min(left, LOOK_SECONDS))
        return left - (time.monotonic() - began)

    async def _checked(self, question: Question) -> tuple[Vote, ...]:
        """The votes that are proven, in the order in which they came."""
        if not question.ballots:
            return ()
        answer = await self._ask(CheckVotes(question.wait, question.ballots))
        if not isinstance(answer, VotesChecked):
            raise TypeError(f"a check of votes was answered by {answer!r}")
        return tuple(sorted(answer.votes, key=lambda vote: vote.at))

    def asked(self, wait: str, who: str) -> Invited:
        return Invited(self._claimed.id, wait, who)


def _people(of: Iterable[str]) -> tuple[str, ...]:
    if isinstance(of, str) or not isinstance(of, Iterable):
        raise BadOption("of", "names of people, such as ['ann', 'bob']", of)
    people = tuple(checks.text("the name of a person", who, LONGEST_NAME) for who in of)
    if not 1 <= len(people) <= MOST_PEOPLE:
        raise BadOption("of", f"1 to {MOST_PEOPLE} people", len(people))
    if len(set(people)) < len(people):
        raise BadOption("of", "each person once", ", ".join(people))
    return people
