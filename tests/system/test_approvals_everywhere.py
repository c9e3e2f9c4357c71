"""Approvals on every store: in coroutines, threads and child processes, and where votes meet the
suspension, the decision or a death."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AnswerRefused, App, Context, Vote
from holdfast.client.client import Client
from holdfast.encryption.keyring import Keyring, generate_key
from holdfast.encryption.signing import Signer
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.vote import Invited
from holdfast.store.contract.store import Store
from holdfast.testing.servers import ValkeyServer
from tests.support import process_handlers as handlers
from tests.support.backends import Backend
from tests.support.canaries import all_logged, everything_in
from tests.support.flaky import FlakyStore, Line
from tests.support.working import Shop
from tests.system.test_encryption import kept, server, url

__all__ = ["kept", "server", "url"]
KEY = generate_key("k1")
KEYS = Keyring.of_text(KEY)
SIGNER = Signer(KEYS)
PEOPLE = ["ann", "bob", "cyd"]


async def on_the_loop(ctx: Context) -> list[str]:
    """As `two_of_three`, with coroutines."""
    vote = await ctx.invite("leads", of=PEOPLE).quorum(2, timeout=3_600)
    if ctx.attempt == 1:
        raise ValueError("again")
    return [f"granted {vote.granted}", *(one.who for one in vote.votes)]


FUNCTIONS: dict[str, tuple[tuple[Callable[..., Any], ...], dict[str, Any]]] = {
    "loop": ((on_the_loop,), {}),
    "thread": ((handlers.two_of_three,), {}),
    "process": ((), {"two_of_three": handlers.two_of_three}),
}


async def answer(store: Store, job: JobId, who: str, approve: bool = True) -> Vote:
    token = SIGNER.token(Invited(job, "leads", who))
    return await Client(store, signing_keys=KEYS).answer(token, approve)


@pytest.mark.parametrize("mode", FUNCTIONS)
async def test_people_decide_and_later_attempts_get_the_same_decision(
    live_store: Store, mode: str
) -> None:
    plain, processes = FUNCTIONS[mode]
    shop = Shop(live_store, *plain, **processes)
    job_id = await shop.enqueue(next(iter(shop.registry)))
    async with shop.worker(processes=1, signing_keys=KEYS) as worker:
        for who in ("cyd", "ann"):
            await worker.drain()
            job = await shop.get(job_id)
            assert (job.state, job.reason) == ("suspended", "waits for 2 of 3 votes on 'leads'")
            await answer(live_store, job_id, who)
        await worker.drain()
        await live_store.jobs.promote_due(10)
        await worker.drain()
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, ["granted True", "cyd", "ann"])


async def one_of_two(ctx: Context) -> list[str]:
    vote = await ctx.invite("leads", of=["ann", "bob"]).quorum(1, timeout=3_600)
    return [one.who for one in vote.votes]


@pytest.mark.parametrize(
    ("early", "verb", "counted"),
    [
        (None, "finish", ["bob"]),  # nobody has voted, and the suspension is on its way
        ("ann", "record", ["ann", "bob"]),  # ann's vote decides; the question is not closed yet
    ],
)
async def test_a_vote_that_is_accepted_is_counted(
    live_store: Store, early: str | None, verb: str, counted: list[str]
) -> None:
    """F9: sent = consumed + kept, with nothing kept when the votes are decided."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), one_of_two)
    job_id = await shop.enqueue(one_of_two)
    if early is not None:
        await answer(live_store, job_id, early)
    line.first[verb] = lambda: answer(live_store, job_id, "bob")
    await shop.drain(signing_keys=KEYS)
    assert not line.first, "it happened"
    assert (await shop.get(job_id)).result == counted
    signals = (await live_store.signals.of([job_id]))[job_id]
    assert all(one.taken_by for one in signals)


async def test_a_vote_on_a_closed_question_is_refused(live_store: Store) -> None:
    line = Line()
    shop = Shop(FlakyStore(live_store, line), one_of_two)
    job_id = await shop.enqueue(one_of_two)
    await answer(live_store, job_id, "ann")
    refused: list[str] = []

    async def late() -> None:
        with pytest.raises(AnswerRefused):
            await answer(live_store, job_id, "bob")
        refused.append("bob")

    line.first["finish"] = late
    await shop.drain(signing_keys=KEYS)
    assert ((await shop.get(job_id)).result, refused) == (["ann"], ["bob"])


@pytest.mark.parametrize("verb", ["record", "finish"])
async def test_a_death_between_any_two_commits_loses_no_vote(live_store: Store, verb: str) -> None:
    """The commits: the vote with the end of the question, the decision with that of the job."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), one_of_two)
    job_id = await shop.enqueue(one_of_two)
    await answer(live_store, job_id, "ann")

    died: list[JobId] = []

    async def die() -> None:
        died.append(job_id)
        [live] = await live_store.jobs.live([job_id])
        await live_store.jobs.finish([decide(live, Reclaimed("killed"))])

    line.first[verb] = die
    for _ in range(2):
        await shop.drain(signing_keys=KEYS)
    job = await shop.get(job_id)
    assert (job.state, job.result, died) == (JobState.SUCCEEDED, ["ann"], [job_id])


async def test_a_leaked_store_lets_nobody_answer(
    kept: Backend, server: ValkeyServer | None, url: str
) -> None:
    """Every byte of the store is tried as a token, as a key, and as the signature of a token."""
    app = App(url, signing_keys=KEY)
    app.task(name="ask")(on_the_loop)
    with all_logged() as lines:
        async with app:
            job = await app.tasks["ask"].enqueue()
            async with app.worker() as worker:
                await worker.drain()
                await answer(app.store, JobId(job.id), "ann")
                await worker.drain()
            assert (await job.get()).state == "suspended"
            leaked = await everything_in(kept, server, url)
    tokens = {who: SIGNER.token(Invited(job.id, "leads", who)) for who in PEOPLE}
    secrets = [KEY.partition(":")[2], *(one.rpartition(".")[2] for one in tokens.values())]
    for where in (leaked, "\n".join(lines)):
        assert not [one for one in secrets if one in where]
    words = {one for one in re.split(r"[^A-Za-z0-9_.=+/-]+", leaked) if one}
    assert any(len(one) == 43 for one in words), "the proof of ann's vote is there"
    for word in words:
        for cut in {word, word[:43], word[-43:]}:
            assert not [
                one for one in tokens.values() if SIGNER.read(f"{one.rpartition('.')[0]}.{cut}")
            ]
            assert SIGNER.read(cut) is None
