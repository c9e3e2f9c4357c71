"""Tokens that do not count: forged, foreign, replayed, expired; and a store that has leaked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from holdfast import AnswerRefused, Context
from holdfast.client import voting
from holdfast.clock import utcnow
from holdfast.encryption.keyring import Keyring, generate_key
from holdfast.encryption.signing import Signer
from holdfast.job.ids import new_job_id
from holdfast.job.signal import Sent
from holdfast.job.vote import Invited, Vote
from tests.support.waiting_job import Bench

KEY = generate_key("k1")
SIGNER = Signer(Keyring.of_text(KEY))
PEOPLE = ["ann", "bob", "cyd"]
SAID = "this answer does not count: the token is not valid, or what it was for is over"


class Asking(Bench):
    """A job that asks three people, and what operators are told."""

    def __init__(self) -> None:
        super().__init__(signing_keys=KEY)
        self.told: list[dict[str, Any]] = []
        self.app.events.subscribe(
            lambda event: (
                self.told.append(dict(event.fields)) if event.name == "approval.refused" else None
            )
        )

    async def begin_asking(self, need: int = 2) -> None:
        async def release(ctx: Context) -> bool:
            return (await ctx.invite("leads", of=PEOPLE).quorum(need, timeout=60)).granted

        await self.begin(release)

    def token(self, who: str, wait: str = "leads", job: str | None = None) -> str:
        return SIGNER.token(Invited(job or self.handle.id, wait, who))

    async def refusal(self, token: str, answer: bool = True) -> str:
        with pytest.raises(AnswerRefused) as refused:
            await self.app.client.answer(token, answer)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__ or refused.value.__context__ is None
        return str(refused.value)


@pytest.fixture
async def asking(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asking]:
    monkeypatch.setattr(voting, "REFUSED_SECONDS", 0.0)
    asking = Asking()
    async with asking.harness:
        await asking.begin_asking()
        yield asking


def forged(token: str) -> list[str]:
    """Every way to alter a token that comes to mind."""
    version, kid, job, wait, who, mac = token.split(".")
    other = Signer(Keyring.of_text(generate_key("k1"))).token(
        SIGNER.read(token) or Invited("", "", "")
    )
    return [
        other,
        f"{version}.k2.{job}.{wait}.{who}.{mac}",
        f"hf2.{kid}.{job}.{wait}.{who}.{mac}",
        f"{version}.{kid}.{new_job_id()}.{wait}.{who}.{mac}",
        f"{version}.{kid}.{job}.{who}.{wait}.{mac}",
        f"{version}.{kid}.{job}.{wait}.ZXZl.{mac}",
        f"{version}.{kid}.{job}.{wait}.{who}.{mac[::-1]}",
        f"{version}.{kid}.{job}.{wait}.{who}.",
        f"{version}.{kid}.{job}.{wait}.{who}.{mac}.{mac}",
        f"{version}.{kid}.{job}.{wait}{who}.{mac}",
        token[:-2],
        token + "A",
        token.upper(),
        "",
        "....." * 9,
        "\udc80.é.\0.\n.💣.x",
        "x" * 10_000,
    ]


async def test_every_refusal_looks_the_same_and_operators_learn_the_reason(asking: Asking) -> None:
    client, tokens = asking.app.client, {who: asking.token(who) for who in PEOPLE}
    for one in forged(tokens["ann"]):
        assert await asking.refusal(one) == SAID, one
    [told] = asking.told
    assert told["reason"] == "no key of this program has signed the token"
    assert (told["job_id"], told["count"]) == (None, 1), "nothing that a forger made up"
    asking.told.clear()
    assert await asking.refusal(asking.token("ann", job=new_job_id())) == SAID
    await client.answer(tokens["ann"], True)
    assert await asking.refusal(tokens["ann"], False) == SAID
    await asking.pass_time(minutes=2)
    assert await asking.handle.result(5) is False
    assert await asking.refusal(tokens["bob"]) == SAID
    assert [one["reason"] for one in asking.told] == [
        "the store has no such job",
        "the person has answered already, and otherwise",
        "the job has ended",
    ]
    rows = (await client.audit.page()).entries
    assert [(row.by, row.outcome, row.error) for row in rows] == [
        ("bob", "refused", "the job has ended"),
        ("ann", "refused", "the person has answered already, and otherwise"),
        ("ann", "done", None),
        ("ann", "refused", "the store has no such job"),
    ]
    assert rows[2].arguments == '{"wait":"leads","who":"ann","approve":true}'
    seen = repr(asking.told) + "".join(map(repr, rows))
    assert not any(token.rpartition(".")[2] in seen for token in tokens.values()), "no token"


async def test_a_vote_after_the_decision_is_late(asking: Asking) -> None:
    async def slow(ctx: Context) -> None:
        await ctx.invite("late", of=["ann", "bob"]).quorum(1)
        await ctx.signal("go")

    await asking.begin(slow)
    await asking.app.client.answer(asking.token("ann", "late"), True)
    await asking.drain()
    assert await asking.refusal(asking.token("bob", "late")) == SAID
    assert asking.told[-1]["reason"] == "the votes are decided, or their time is over"


async def test_10_000_tokens_that_do_not_count_are_refused(asking: Asking) -> None:
    """Most are forged, and cost a signature each; every hundredth is signed, and replayed, foreign
    or expired."""
    client, expired = asking.app.client, asking.token("cyd")
    await asking.pass_time(minutes=2)

    async def ask_again(ctx: Context) -> bool:
        return (await ctx.invite("leads", of=PEOPLE).quorum(2)).granted

    await asking.begin(ask_again)
    await client.answer(asking.token("ann"), True)
    signed = [asking.token("ann"), asking.token("bob", job=new_job_id()), expired]
    made_up = forged(asking.token("bob"))
    tokens = [
        signed[n // 100 % 3] if n % 100 == 0 else made_up[n % len(made_up)] for n in range(10_000)
    ]
    refused = 0
    for token in tokens:
        try:
            await client.answer(token, False)
        except AnswerRefused:
            refused += 1
    assert refused == 10_000
    assert len(await client.signals.of(asking.handle.id)) == 1, "and nothing was written"
    await client.answer(asking.token("bob"), True)
    await asking.drain()
    assert await asking.handle.result(5) is True


class Stopwatch:
    """Stands for the clock and the sleep of whoever takes answers. Time passes there only."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_refusals_take_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a token is forged, of an unknown job, replayed or too late, and although the store
    is asked about some of them only."""
    watch, send = Stopwatch(), voting.Voting._send

    async def slowly(*args: Any) -> Sent:
        watch.now += 0.02
        return await send(*args)

    monkeypatch.setattr(voting, "time", watch)
    monkeypatch.setattr(voting, "asyncio", watch)
    monkeypatch.setattr(voting.Voting, "_send", slowly)
    asking = Asking()
    async with asking.harness:
        await asking.begin_asking()
        client = asking.app.client
        await client.answer(asking.token("ann"), True)
        kinds = {
            "forged": forged(asking.token("bob"))[0],
            "no token": "x",
            "foreign": asking.token("bob", job=new_job_id()),
            "replayed": asking.token("ann"),
        }
        times: dict[str, float] = {}
        for kind, token in kinds.items():
            began = watch.now
            await asking.refusal(token, False)
            times[kind] = watch.now - began
    assert times == dict.fromkeys(kinds, pytest.approx(voting.REFUSED_SECONDS))


def test_unknown_keys_and_broken_tokens_cost_as_much_as_wrong_signatures() -> None:
    """Counted, not timed: each of them is compared with a signature that was computed for it."""
    made: list[str] = []

    class Counting(Signer):
        def _mac(self, kid: str, *parts: str) -> bytes:
            made.append(kid)
            return super()._mac(kid, *parts)

    counting = Counting(Keyring.of_text(KEY))
    for token in forged(SIGNER.token(Invited("job", "leads", "ann"))):
        made.clear()
        assert counting.read(token) is None
        assert len(made) == 1, token


def test_the_same_words_in_other_places_are_another_text() -> None:
    """Lengths are signed, so nothing can be moved from one field into the next."""
    assert SIGNER.token(Invited("j", "ab", "c")) != SIGNER.token(Invited("j", "a", "bc"))
    token = SIGNER.token(Invited("j", "ab", "c"))
    assert SIGNER.read(token) == Invited("j", "ab", "c")
    dotted = Signer(Keyring({"2026.11.a": bytes(32)}))
    assert dotted.read(dotted.token(Invited("j", "", "é 💣"))) == Invited("j", "", "é 💣")


def test_a_proof_is_no_token_and_holds_for_its_vote_alone() -> None:
    ann, vote = Invited("job", "leads", "ann"), Vote("ann", True, utcnow(), "ok")
    ballot = SIGNER.ballot(ann, vote)
    assert SIGNER.vote(ann, ballot) == vote
    found = msgspec.json.decode(ballot)
    assert SIGNER.read(f"{SIGNER.token(ann).rpartition('.')[0]}.{found['proof']}") is None
    for other in (
        Invited("x", "leads", "ann"),
        Invited("job", "x", "ann"),
        Invited("job", "leads", "x"),
    ):
        assert SIGNER.vote(other, ballot) is None
    for said in (
        {"approve": False},
        {"note": "no"},
        {"who": "bob"},
        {"at": "2026-01-01T00:00:00Z"},
    ):
        altered = found | {"vote": found["vote"] | said}
        assert SIGNER.vote(ann, msgspec.json.encode(altered).decode()) is None
    assert SIGNER.vote(ann, "{}") is None


async def test_answers_at_once_are_all_answered(asking: Asking) -> None:
    tokens = [asking.token(who) for who in PEOPLE]
    votes = await asyncio.gather(*(asking.app.client.answer(one, True) for one in tokens))
    assert sorted(vote.who for vote in votes) == PEOPLE
