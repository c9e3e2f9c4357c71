"""Approvals: people are asked by tokens of their own, and enough of their votes decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import AnswerRefused, App, Approval, BadOption, Context, JobHandle, Keyring, Retry
from holdfast.encryption.keyring import generate_key
from holdfast.errors import HoldfastError
from holdfast.job.ids import JobId
from holdfast.testing import Harness, killed_after_every_commit
from tests.support.waiting_job import AGAIN, Bench

PEOPLE = ["ann", "bob", "cyd", "dee", "eve"]
KEY = generate_key("k1")
UNPROVEN = "job.vote_unproven"


class Votes(Bench):
    """A job that asks people, and their tokens."""

    def __init__(self, keys: str = KEY) -> None:
        super().__init__(signing_keys=keys)
        self.tokens: dict[str, str] = {}

    async def ask(self, need: int, of: list[str] = PEOPLE, timeout: float | None = 86_400) -> None:
        async def release(ctx: Context) -> list[Any]:
            asked = ctx.invite("leads", of=of)
            self.tokens.update(asked.tokens)
            vote = await asked.quorum(need, timeout=timeout)
            votes = [[one.who, one.approve, one.note] for one in vote.votes]
            return [vote.granted, vote.timed_out, votes]

        await self.begin(release)

    async def answer(self, who: str, approve: bool = True, **more: Any) -> Any:
        answer = {"approve": approve, **more}
        vote = await self.app.client.answer(self.tokens[who], answer)
        await self.drain()
        return vote


@pytest.fixture
async def votes() -> AsyncIterator[Votes]:
    votes = Votes()
    async with votes.harness:
        yield votes


async def test_three_of_five_people_grant(votes: Votes) -> None:
    await votes.ask(3)
    job = await votes.job()
    assert (job.state, job.reason) == ("suspended", "waits for 3 of 5 votes on 'leads'")
    assert sorted(votes.tokens) == PEOPLE
    for who, note in (("bob", "ok"), ("ann", None)):
        vote = await votes.answer(who, note=note)
        assert (vote.who, vote.approve, vote.note, vote.at) == (
            *(who, True, note),
            votes.harness.clock.now,
        )
        assert (await votes.job()).state == "suspended"
    await votes.answer("eve")
    said = [["bob", True, "ok"], ["ann", True, None], ["eve", True, None]]
    assert await votes.handle.result(5) == [True, False, said]
    assert (await votes.job()).attempts == 1, "no attempt was spent on waiting"


async def test_an_empty_note_is_none(votes: Votes) -> None:
    """As a form sends it whose field was left empty."""
    await votes.ask(3)
    token = votes.tokens["ann"]
    vote = await votes.app.client.answer(token, {"approve": True, "note": ""})
    assert vote.note is None
    assert await votes.app.client.answer(token, True) == vote, "the same answer again"


async def test_it_is_denied_as_soon_as_the_others_are_not_enough(votes: Votes) -> None:
    await votes.ask(3)
    for who in ("ann", "bob"):
        await votes.answer(who, approve=False)
    assert (await votes.job()).state == "suspended"
    await votes.answer("cyd", approve=False)
    assert (await votes.handle.result(5))[:2] == [False, False]


@pytest.mark.parametrize("how", ["denied", "not granted in time"])
async def test_a_node_that_is_denied_fails_for_good_and_skips_what_needs_it(
    votes: Votes, how: str
) -> None:
    @votes.app.task(name="gate", retry=Retry(max_attempts=5))
    async def gate(ctx: Context) -> bool:
        asked = ctx.invite("leads", of=["ann", "bob"])
        votes.tokens.update(asked.tokens)
        return (await asked.quorum(1, timeout=60)).require().granted

    @votes.app.task(name="ship")
    async def ship(granted: bool) -> None:
        raise AssertionError("nobody granted it")

    flow = votes.app.flow("release")
    flow.add(ship, flow.add(gate).output)
    run = await flow.start()
    await votes.harness.drain(raises=False)
    await votes.app.client.answer(votes.tokens["ann"], False)
    if how == "denied":
        await votes.app.client.answer(votes.tokens["bob"], False)
    await votes.harness.advance(120)
    await votes.harness.drain(raises=False)
    [denied] = (await votes.app.client.page(task="gate")).jobs
    assert (denied.state, denied.attempts) == ("failed", 1)
    said = "ann no, bob no" if how == "denied" else "ann no"
    assert denied.errors[0].message == f"{how}: {said}"
    [skipped] = (await votes.app.client.page(task="ship")).jobs
    assert (skipped.state, (await run.get()).state) == ("skipped", "failed")


async def test_when_the_time_is_over_the_votes_that_came_are_told(votes: Votes) -> None:
    await votes.ask(3, timeout=3_600)
    await votes.pass_time(minutes=50)
    await votes.answer("ann", note="fine")
    await votes.pass_time(minutes=9)
    assert (await votes.job()).state == "suspended"
    await votes.pass_time(minutes=1)
    assert await votes.handle.result(5) == [False, True, [["ann", True, "fine"]]]


async def test_votes_that_come_early_count(votes: Votes) -> None:
    """The tokens are there before the job waits."""
    go_on = asyncio.Event()

    async def release(ctx: Context) -> bool:
        asked = ctx.invite("leads", of=["ann", "bob"])
        if not votes.tokens:
            votes.tokens.update(asked.tokens)
            for token in asked.tokens.values():
                await votes.app.client.answer(token, True)
            go_on.set()
        return (await asked.quorum(2)).granted

    await votes.begin(release)
    assert await votes.handle.result(5) is True
    assert go_on.is_set()


async def test_one_person_counts_once_however_often_they_answer(votes: Votes) -> None:
    """F9: each (job, wait, person) counts once."""
    await votes.ask(3)
    first = await votes.answer("ann", note="yes!")
    for _ in range(2):
        assert await votes.answer("ann", note="yes!") == first, "the first one's answer"
    await votes.answer("bob")
    assert (await votes.job()).state == "suspended"
    with pytest.raises(AnswerRefused):
        await votes.answer("ann", approve=False)
    with pytest.raises(AnswerRefused):
        await votes.answer("ann", note="otherwise")
    await votes.answer("cyd")
    again = await votes.app.client.answer(votes.tokens["ann"], {"approve": True, "note": "yes!"})
    assert again == first, "also when it is decided"


async def test_escalation_asks_other_people_after_the_timeout(votes: Votes) -> None:
    async def release(ctx: Context) -> str:
        for tier, people, need in (("leads", ["ann", "bob"], 2), ("boss", ["cto"], 1)):
            asked = ctx.invite(tier, of=people)
            await ctx.step(f"mail {tier}", send, asked.tokens)
            vote = await asked.quorum(need, timeout=timedelta(hours=24))
            if not vote.timed_out:
                return f"{tier}: {vote.granted}"
        return "nobody"

    def send(tokens: dict[str, str]) -> None:
        votes.tokens.update(tokens)

    await votes.begin(release)
    await votes.answer("ann")
    await votes.pass_time(hours=24)
    assert (await votes.job()).reason == "waits for 1 of 1 votes on 'boss'"
    with pytest.raises(AnswerRefused):
        await votes.answer("bob")
    await votes.answer("cto")
    assert await votes.handle.result(5) == "boss: True"


async def test_a_second_invitation_of_a_name_is_one_of_its_own(votes: Votes) -> None:
    async def release(ctx: Context) -> list[bool]:
        found = []
        for _ in range(2):
            asked = ctx.invite("leads", of=["ann"])
            votes.tokens.update(asked.tokens)
            found.append((await asked.quorum(1)).granted)
        return found

    await votes.begin(release)
    first = votes.tokens["ann"]
    await votes.answer("ann")
    assert votes.tokens["ann"] != first
    await votes.answer("ann", approve=False)
    assert await votes.handle.result(5) == [True, False]


async def test_later_attempts_get_the_same_decision(votes: Votes) -> None:
    async def release(ctx: Context) -> list[str]:
        asked = ctx.invite("leads", of=PEOPLE)
        votes.tokens.update(asked.tokens)
        vote = await asked.quorum(2)
        if ctx.attempt < 3:
            raise ValueError("again")
        return [one.who for one in vote.votes]

    await votes.begin(release)
    await votes.answer("eve")
    await votes.answer("bob")
    for _ in range(2):
        await votes.pass_time(hours=1)
    assert await votes.handle.result(5) == ["eve", "bob"]
    assert (await votes.job()).reason is None, "no step is reported as drift"


async def test_a_short_wait_keeps_the_slot(votes: Votes) -> None:
    await votes.ask(1, timeout=0.05)
    assert (await votes.handle.result(5))[1] is True


async def test_plain_functions_ask_too(votes: Votes) -> None:
    def release(ctx: Context) -> bool:
        asked = ctx.invite("leads", of=["ann", "bob"])
        votes.tokens.update(asked.tokens)
        return asked.quorum_sync(2, timeout=60).granted

    await votes.begin(release)
    await votes.answer("ann")
    await votes.answer("bob")
    assert await votes.handle.result(5) is True


async def test_a_person_who_is_no_longer_asked_does_not_count(votes: Votes) -> None:
    """A deploy may change whom the code asks."""
    people = ["ann", "bob", "cyd"]
    await votes.ask(2, people)
    token = votes.tokens["cyd"]
    people.remove("cyd")
    await votes.answer("ann")
    await votes.app.client.answer(token, True)
    await votes.drain()
    assert (await votes.job()).state == "suspended"
    await votes.answer("bob")
    assert await votes.handle.result(5) == [True, False, [["ann", True, None], ["bob", True, None]]]


async def test_a_key_may_be_rotated_while_people_are_asked(tmp_path: Path) -> None:
    """The first key signs, all of them verify; a retired one does not."""
    url, new = f"sqlite:///{tmp_path}/jobs.db", generate_key("k2")
    votes = Votes(KEY)
    votes.harness = Harness(votes.app, url=url)
    async with votes.harness, App(url, signing_keys=f"{new},{KEY}") as both:
        await votes.ask(2, ["ann", "bob"])
        old = dict(votes.tokens)
        assert old["ann"].startswith("hf1.k1.")
        async with App(url, signing_keys=new) as later:
            with pytest.raises(AnswerRefused):
                await later.client.answer(old["ann"], True)
        votes.app.settings = msgspec.structs.replace(
            votes.app.settings, signing_keys=both.settings.signing_keys
        )
        await both.client.answer(old["ann"], True)
        await votes.drain()
        assert votes.tokens["bob"].startswith("hf1.k2."), "later tokens are signed by the new key"
        await both.client.answer(old["bob"], True)
        await votes.drain()
        assert (await votes.handle.result(5))[0] is True


async def test_a_vote_that_nobody_with_a_key_wrote_does_not_count(votes: Votes) -> None:
    """Somebody writes into the store: an own vote, and another answer into one that is there."""
    found: list[Any] = []
    votes.app.events.subscribe(
        lambda event: found.append(event.fields["who"]) if event.name == UNPROVEN else None
    )
    await votes.ask(2, ["ann", "bob", "cyd"])
    await votes.app.client.answer(votes.tokens["ann"], False)
    writer = votes.app.store.signals._writer  # type: ignore[attr-defined]
    await writer.write(
        lambda tx: tx.run("update holdfast_signal set value = replace(value, 'false', 'true')")
    )
    await votes.drain()
    await votes.answer("bob")
    assert (await votes.job()).state == "suspended", "the changed vote is not counted"
    assert set(found) == {"ann"}
    await votes.answer("cyd")
    assert (await votes.handle.result(5))[0] is True


async def test_unproven_votes_of_everybody_do_not_deny(votes: Votes) -> None:
    """Each person is asked again."""
    await votes.ask(1, ["ann"], timeout=None)
    await votes.app.client.answer(votes.tokens["ann"], True)
    writer = votes.app.store.signals._writer  # type: ignore[attr-defined]
    await writer.write(lambda tx: tx.run("update holdfast_signal set value = '{}'"))
    await votes.drain()
    assert (await votes.job()).state == "suspended"
    await votes.answer("ann", approve=False)
    assert await votes.handle.result(5) == [False, False, [["ann", False, None]]]


async def test_a_vote_is_sent_by_a_token_alone(votes: Votes) -> None:
    await votes.ask(1)
    with pytest.raises(BadOption, match=r"votes are given by client\.answer"):
        await votes.handle.signal('approval ["leads","ann"]', {"approve": True})


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ("ann", "of must be names of people"),
        ([], "of must be 1 to 500 people"),
        (["ann", "ann"], "of must be each person once"),
        (["a" * 190], "with the name 'leads' it is over 200 characters"),
        ([""], "the name of a person must be"),
    ],
)
async def test_people_who_cannot_be_asked_are_refused(votes: Votes, of: Any, said: str) -> None:
    await votes.ask(1, of)
    [error] = (await votes.job()).errors
    assert (error.kind, said in error.message) == ("BadOption", True), error.message


async def test_a_quorum_that_cannot_be_met_is_refused(votes: Votes) -> None:
    async def release(ctx: Context) -> str:
        asked = ctx.invite("leads", of=["ann"])
        with pytest.raises(BadOption, match="need must be between 1 and 1"):
            await asked.quorum(2)
        await asked.quorum(1, timeout=0)
        with pytest.raises(HoldfastError, match="was waited for already"):
            await asked.quorum(1)
        return repr(asked)

    await votes.begin(release)
    assert await votes.handle.result(5) == "<invitation 'leads' of ann>", "and no token"


@pytest.mark.parametrize("answer", [None, "yes", {}, {"approve": 1}, {"approve": True, "x": 1}])
async def test_what_is_no_answer_is_refused_whatever_the_token(votes: Votes, answer: Any) -> None:
    with pytest.raises(BadOption, match=r"(answer|approve) must be"):
        await votes.app.client.answer("hf1.k1.x.y.z.m", answer)


async def test_a_program_without_keys_is_told_so() -> None:
    bench = Bench()
    async with bench.harness:

        async def release(ctx: Context) -> None:
            ctx.invite("leads", of=["ann"])

        bench.app.settings = msgspec.structs.replace(bench.app.settings, signing_keys=None)
        await bench.begin(release)
        [error, *_] = (await bench.job()).errors
        assert "signing_keys must be set" in error.message
        with pytest.raises(BadOption, match="signing_keys must be set here"):
            await bench.app.client.answer("x", True)


async def test_without_a_worker_nobody_can_answer(votes: Votes) -> None:
    async def release(ctx: Context) -> Approval:
        return await ctx.invite("leads", of=["ann"]).quorum(1)

    assert (await votes.harness.run(votes.app.task()(release))).result == Approval(False, True)


def test_answers_are_taken_without_a_loop() -> None:
    app = App("sqlite://", signing_keys=Keyring({"k": bytes(32)}))
    with pytest.raises(AnswerRefused):
        app.sync.answer("hf1.k.x.y.z.m", True)
    app.close_sync()


async def test_killed_after_every_commit_people_decide_the_same() -> None:
    """The crash points are each vote, the end of the question, and the step after it."""
    app = App("sqlite://")

    @app.task(retry=AGAIN)
    async def release(ctx: Context) -> list[Any]:
        asked = ctx.invite("leads", of=["ann", "bob", "cyd"])
        await ctx.step("mail", len, asked.tokens)
        vote = await asked.quorum(2, timeout=3_600)
        return [vote.granted, sorted(one.who for one in vote.votes), await ctx.step("ship", int, 7)]

    async def answer(harness: Harness, job: JobHandle[Any]) -> None:
        for who in ("cyd", "ann"):
            await harness.answer(job.id, "leads", who)

    found = await killed_after_every_commit.answering(answer)(release)
    assert found.result == [True, ["ann", "cyd"], 7]
    assert found.kills == 3, "the mail, the votes with the end of the question, the ship"


async def test_killed_after_every_commit_a_question_times_out_the_same() -> None:
    app = App("sqlite://")

    @app.task(retry=AGAIN)
    async def release(ctx: Context) -> list[Any]:
        vote = await ctx.invite("leads", of=["ann", "bob"]).quorum(2, timeout=3_600)
        return [vote.timed_out, [one.who for one in vote.votes]]

    async def answer(harness: Harness, job: JobHandle[Any]) -> None:
        await harness.answer(job.id, "leads", "bob")

    found = await killed_after_every_commit.answering(answer)(release)
    assert (found.result, found.kills) == ([True, ["bob"]], 1)


async def test_votes_are_encrypted_as_all_signals_are() -> None:
    bench = Votes(KEY)
    bench.app = App("sqlite://", keys=generate_key("e1"), signing_keys=KEY)
    bench.harness = Harness(bench.app)
    async with bench.harness:
        await bench.ask(2, ["ann", "bob"])
        await bench.answer("ann", note="a secret reason")
        job = JobId(bench.handle.id)
        kept = await bench.app.store.behind.steps.load([job])  # type: ignore[attr-defined]
        assert "a secret reason" not in repr([one.result_json for one in kept[job]])
        [fact] = await bench.explained()
        assert ": ann yes; bob has not answered" in fact
        await bench.answer("bob")
        said = [["ann", True, "a secret reason"], ["bob", True, None]]
        assert await bench.handle.result(5) == [True, False, said]
