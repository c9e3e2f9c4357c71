"""Votes whose proof a worker cannot check, on every store: keys that are rotated in either order,
and rows that somebody wrote without a key."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from holdfast import AnswerRefused, Context, Vote
from holdfast.background.options import ReconcileOptions
from holdfast.client.client import Client
from holdfast.client.voting import LIMITS
from holdfast.encryption.keyring import Keyring, generate_key
from holdfast.encryption.signing import Signer
from holdfast.events import Events
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.signal import NewSignal, Sent, SignalLimits
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.vote import Invited
from holdfast.reconcile.votes import VotesReconciler
from holdfast.store.contract.store import Store
from holdfast.worker.worker import Worker
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import slowness, wait_until
from tests.support.working import Shop

FIRST, SECOND = generate_key("k1"), generate_key("k2")
OLD, BOTH, NEW = (Keyring.of_text(text) for text in (FIRST, f"{SECOND},{FIRST}", SECOND))
"""The keys of a program before, during and after a rotation. The first one signs."""
PEOPLE = ["ann", "bob", "cyd"]


async def answer(
    store: Store, job: JobId, who: str, approve: bool = True, keys: Keyring = OLD
) -> Vote:
    """As a program with these keys takes the answer."""
    token = Signer(keys).token(Invited(job, "leads", who))
    return await Client(store, signing_keys=keys).answer(token, approve)


async def by_hand(store: Store, job: JobId, who: str, text: str, key: str = "x") -> None:
    """Write a vote into the store without a key."""
    name = Invited(job, "leads", who).signal
    await store.signals.send([NewSignal(job, name, text, f"{key} {who}")], LIMITS)


async def explained(store: Store, job: JobId) -> str:
    [reason] = (await Client(store).explain(job)).reasons
    return reason.fact


async def send_provable(store: Store, keys: Keyring) -> int:
    """What a worker with these keys does every half a minute."""
    options = ReconcileOptions(signing_keys=keys, batch=2)
    return (await VotesReconciler(store, Events(), options).run_once()).mended


async def told_keys(store: Store, *kids: str) -> None:
    """Wait for the beat that tells the keys of the only worker."""

    async def told() -> bool:
        [worker] = await store.workers.find()
        return worker.facts.signing_keys == [*kids]

    await wait_until(told, 10 * slowness(), "the worker tells its keys")


async def one_of_one(ctx: Context) -> list[Any]:
    approval = await ctx.invite("leads", of=["ann"]).quorum(1, timeout=3_600)
    return _told(approval)


async def all_of_three(ctx: Context) -> list[Any]:
    return _told(await ctx.invite("leads", of=PEOPLE).quorum(3))


async def one_of_three(ctx: Context) -> list[Any]:
    return _told(await ctx.invite("leads", of=PEOPLE).quorum(1))


def _told(approval: Any) -> list[Any]:
    return [approval.granted, approval.denied, [vote.who for vote in approval.votes]]


async def asked_of(shop: Shop, ask: Any, keys: Keyring = OLD) -> JobId:
    job = await shop.enqueue(ask)
    await shop.drain(signing_keys=keys)
    assert (await shop.get(job)).state is JobState.SUSPENDED
    return job


async def test_a_vote_whose_key_the_worker_lacks_does_not_deny(live_store: Store) -> None:
    """The program that takes answers was rotated first. The person answers again once it has the
    key of the worker."""
    shop = Shop(live_store, one_of_one)
    job = await asked_of(shop, one_of_one)
    await answer(live_store, job, "ann", keys=BOTH)
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).state is JobState.SUSPENDED, "it counts neither for nor against"
    [event] = shop.reported("job.vote_unproven")
    assert (event.fields["who"], event.fields["key"]) == ("ann", "k2")
    assert "; ann has not answered" not in await explained(live_store, job)
    said = "ann yes (signed with a key that no worker of the job has: k2)"
    assert said in await explained(live_store, job)
    await answer(live_store, job, "ann", keys=OLD)
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).result == [True, False, ["ann"]]


@pytest.mark.parametrize("again", [True, False])
async def test_a_person_who_is_asked_again_may_say_the_same_or_otherwise(
    live_store: Store, again: bool
) -> None:
    shop = Shop(live_store, one_of_one)
    job = await asked_of(shop, one_of_one)
    first = await answer(live_store, job, "ann", keys=BOTH)
    assert await answer(live_store, job, "ann", keys=BOTH) == first, "nobody was asked again yet"
    with pytest.raises(AnswerRefused):
        await answer(live_store, job, "ann", False, keys=BOTH)
    await shop.drain(signing_keys=OLD)
    assert await answer(live_store, job, "ann", keys=BOTH) == first, "the same key proves no more"
    await answer(live_store, job, "ann", again, keys=OLD)
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).result == [again, not again, ["ann"]]


async def test_a_vote_counts_when_its_key_comes_without_any_further_act(live_store: Store) -> None:
    shop = Shop(live_store, one_of_one)
    jobs = [await asked_of(shop, one_of_one) for _ in range(5)]
    for job in jobs:
        await answer(live_store, job, "ann", keys=BOTH)
    await shop.drain(signing_keys=OLD)
    assert await send_provable(live_store, OLD) == 0
    assert await send_provable(live_store, BOTH) == 5
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(jobs[0])).state is JobState.SUSPENDED, "a worker without the key had it"
    assert await send_provable(live_store, BOTH) == 5
    await shop.drain(signing_keys=BOTH)
    assert [(await shop.get(job)).result for job in jobs] == [[True, False, ["ann"]]] * 5


async def test_a_worker_with_the_key_signs_anew_for_those_that_lack_it(live_store: Store) -> None:
    shop = Shop(live_store, one_of_one)
    job = await asked_of(shop, one_of_one)
    first = await answer(live_store, job, "ann", keys=BOTH)
    async with shop.worker(signing_keys=OLD) as worker:
        await worker.drain()
        await told_keys(live_store, "k1")
        assert await send_provable(live_store, BOTH) == 1
        await worker.drain()
    assert (await shop.get(job)).result == [True, False, ["ann"]]
    assert await answer(live_store, job, "ann", keys=BOTH) == first


async def test_the_newest_proven_answer_of_a_person_counts(live_store: Store) -> None:
    """Ann says yes, is asked again because her key was not known, and says no. Then the key of her
    first answer comes."""
    shop = Shop(live_store, all_of_three)
    job = await asked_of(shop, all_of_three)
    await answer(live_store, job, "ann", True, keys=BOTH)
    await shop.drain(signing_keys=OLD)
    await asyncio.sleep(0.01)  # the store's clock tells two answers apart
    await answer(live_store, job, "ann", False, keys=OLD)
    await shop.drain(signing_keys=BOTH)
    assert (await shop.get(job)).result == [False, True, ["ann"]]


async def test_a_person_whose_vote_is_proven_after_all_cannot_answer_again(
    live_store: Store,
) -> None:
    shop = Shop(live_store, all_of_three)
    job = await asked_of(shop, all_of_three)
    await answer(live_store, job, "ann", keys=BOTH)
    await shop.drain(signing_keys=OLD)
    await answer(live_store, job, "bob")
    await shop.drain(signing_keys=BOTH)
    with pytest.raises(AnswerRefused):
        await answer(live_store, job, "ann", False)
    await answer(live_store, job, "cyd")
    await shop.drain(signing_keys=BOTH)
    assert (await shop.get(job)).result == [True, False, PEOPLE]


@pytest.mark.parametrize("text", ["{}", "null", '"yes"', "forged", "foreign"])
async def test_a_row_without_a_proof_counts_neither_for_nor_against(
    live_store: Store, text: str
) -> None:
    """Whether it has no form, a proof by another key of the same name, or that of another job."""
    shop = Shop(live_store, all_of_three)
    job = await asked_of(shop, all_of_three)
    if text in ("forged", "foreign"):
        asked = Invited(job if text == "forged" else "another", "leads", "ann")
        keys = Keyring.of_text(generate_key("k1")) if text == "forged" else OLD
        text = Signer(keys).ballot(asked, Vote("ann", False, await live_store.now()))
    for who in ("ann", "bob"):
        await by_hand(live_store, job, who, text)
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).state is JobState.SUSPENDED
    assert await send_provable(live_store, OLD) == 0
    for who in PEOPLE:
        await answer(live_store, job, who)
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).result == [True, False, PEOPLE]


async def test_a_step_that_was_written_by_hand_does_not_count(live_store: Store) -> None:
    async def forging(ctx: Context) -> list[Any]:
        if ctx.attempt == 1 and not (await live_store.steps.load([JobId(ctx.job.id)])):
            name = Invited(ctx.job.id, "leads", "ann").signal
            record = StepRecord(JobId(ctx.job.id), ctx.fence, name, 1, result="{}")
            assert await live_store.steps.record([record]) == [True]
            raise ValueError("again")
        return await one_of_one(ctx)

    shop = Shop(live_store, forging)
    job = await shop.enqueue(forging)
    for _ in range(2):
        await shop.drain(signing_keys=OLD)
        await live_store.jobs.promote_due(10)
    assert (await shop.get(job)).state is JobState.SUSPENDED
    await answer(live_store, job, "ann")
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).result == [True, False, ["ann"]]


async def test_a_decision_stands_where_its_votes_cannot_be_proven(live_store: Store) -> None:
    """A worker that has the key closes the question and dies; one that lacks the key goes on."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), one_of_one)
    job = await asked_of(shop, one_of_one)
    await answer(live_store, job, "ann", keys=BOTH)

    async def die() -> None:
        [live] = await live_store.jobs.live([job])
        await live_store.jobs.finish([decide(live, Reclaimed("killed"))])

    line.first["finish"] = die
    await shop.drain(signing_keys=BOTH)
    assert not line.first, "it happened"
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).result == [True, False, ["ann"]]


async def test_a_recorded_vote_counts_although_the_next_worker_lacks_its_key(
    live_store: Store,
) -> None:
    shop = Shop(live_store, all_of_three)
    job = await asked_of(shop, all_of_three)
    await answer(live_store, job, "ann", keys=BOTH)
    await shop.drain(signing_keys=BOTH)
    await answer(live_store, job, "bob", keys=OLD)
    await shop.drain(signing_keys=OLD)
    await answer(live_store, job, "cyd", keys=OLD)
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).state is JobState.SUSPENDED, "ann's vote is not proven here"
    assert await send_provable(live_store, BOTH) == 1
    await shop.drain(signing_keys=BOTH)
    assert (await shop.get(job)).result == [True, False, PEOPLE]


async def test_explain_knows_the_keys_of_live_workers(live_store: Store) -> None:
    shop = Shop(live_store, one_of_three)
    job = await asked_of(shop, one_of_three)
    for who in ("ann", "bob"):
        await by_hand(live_store, job, who, "{}" if who == "ann" else "null")
    ballot = Signer(NEW).ballot(
        Invited(job, "leads", "cyd"), Vote("cyd", False, await live_store.now())
    )
    await by_hand(live_store, job, "cyd", ballot)
    async with shop.worker(signing_keys=OLD) as worker:
        await worker.drain()
        await told_keys(live_store, "k1")
        said = await explained(live_store, job)
    for one in (
        "ann has answered (without a valid proof)",
        "bob has answered (without a valid proof)",
        "cyd no (signed with a key that no worker of the job has: k2)",
    ):
        assert one in said


MANY = 8
FOUR = [*PEOPLE, "dee"]


async def all_of_four(ctx: Context) -> list[Any]:
    granted, denied, people = _told(await ctx.invite("leads", of=FOUR).quorum(4))
    return [granted, denied, sorted(people)]


class Rotating:
    """Some jobs whose people all say yes, while the program that takes the answers and two workers
    are given new keys."""

    def __init__(self, store: Store, stack: AsyncExitStack, later: Keyring) -> None:
        self.store = store
        self.shop = Shop(store, all_of_four)
        self.later = later
        self.taking = OLD
        self._stack = stack

    async def begin(self) -> None:
        self.jobs = [await self.shop.enqueue(all_of_four) for _ in range(MANY)]
        self.workers = [await self._worker(OLD) for _ in range(2)]

    async def _worker(self, keys: Keyring) -> Worker:
        return await self._stack.enter_async_context(self.shop.worker(signing_keys=keys))

    async def vote(self, *people: str) -> None:
        client = Client(self.store, signing_keys=self.taking)
        tokens = [
            Signer(OLD).token(Invited(job, "leads", who)) for job in self.jobs for who in people
        ]
        votes = await asyncio.gather(*(client.answer(token, True) for token in tokens))
        assert all(vote.approve for vote in votes), "each is accepted"

    async def replace(self, n: int) -> None:
        """Start a worker with the later keys, and stop an old one."""
        await self._worker(self.later)
        await self.workers[n].stop()

    async def settled(self) -> None:
        async def all_wait() -> bool:
            found = await self.store.jobs.get(self.jobs)
            return all(job.ended or job.state is JobState.SUSPENDED for job in found)

        await wait_until(all_wait, 20 * slowness(), "every job has looked at its votes")

    async def granted(self) -> None:
        async def all_ended() -> bool:
            await send_provable(self.store, self.later)
            return all(job.ended for job in await self.store.jobs.get(self.jobs))

        await wait_until(all_ended, 20 * slowness(), "every question is decided")
        found = await self.store.jobs.get(self.jobs)
        assert [(job.state, job.result) for job in found] == [
            (JobState.SUCCEEDED, [True, False, FOUR])
        ] * MANY


async def test_rotation_under_load_with_the_new_key_first_where_answers_are_taken(
    live_store: Store,
) -> None:
    async with AsyncExitStack() as stack:
        rotating = Rotating(live_store, stack, BOTH)
        await rotating.begin()
        await rotating.vote("ann")
        rotating.taking = BOTH
        await rotating.vote("bob", "cyd", "dee")
        await rotating.settled()
        assert all(not job.ended for job in await live_store.jobs.get(rotating.jobs))
        await rotating.replace(0)
        await rotating.replace(1)
        await rotating.granted()


async def test_rotation_under_load_with_the_new_key_first_at_the_workers(
    live_store: Store,
) -> None:
    async with AsyncExitStack() as stack:
        rotating = Rotating(live_store, stack, BOTH)
        await rotating.begin()
        await asyncio.gather(rotating.vote("ann"), rotating.replace(0))
        await asyncio.gather(rotating.vote("bob"), rotating.replace(1))
        rotating.taking = BOTH
        await rotating.vote("cyd", "dee")
        await rotating.granted()


async def test_rotation_under_load_where_the_workers_forget_the_old_key_too_early(
    live_store: Store,
) -> None:
    """Those whose votes nobody can prove any more answer again."""
    async with AsyncExitStack() as stack:
        rotating = Rotating(live_store, stack, NEW)
        await rotating.begin()
        await rotating.vote("ann")
        await asyncio.gather(rotating.vote("bob"), rotating.replace(0), rotating.replace(1))
        await rotating.vote("cyd")
        await rotating.settled()
        rotating.taking = BOTH
        await rotating.vote(*FOUR)
        await rotating.granted()


async def test_no_vote_is_sent_again_where_the_workers_of_the_job_share_no_key(
    live_store: Store,
) -> None:
    """Each copy would wake the job in vain, and take a place of the signals that it may have."""
    shop = Shop(live_store, one_of_three)
    job = await asked_of(shop, one_of_three, NEW)
    for who in ("ann", "bob"):
        await answer(live_store, job, who, keys=OLD)
    async with shop.worker(signing_keys=NEW) as worker:
        await worker.drain()
        await told_keys(live_store, "k2")
        before = (await shop.get(job)).fence
        for _ in range(3):
            assert await send_provable(live_store, OLD) == 0
            await worker.drain()
        assert (await shop.get(job)).fence == before, "nothing woke it"
    async with shop.worker(signing_keys=BOTH) as worker:
        await told_keys(live_store, "k2", "k1")
        assert await send_provable(live_store, OLD) == 2, "other workers are there"
        await worker.drain()
    assert (await shop.get(job)).result == [True, False, ["ann", "bob"]]


async def test_workers_that_cannot_run_the_job_need_no_key(live_store: Store) -> None:
    """One serves another queue, one lacks the task, and one takes only other jobs."""
    shop, others = Shop(live_store, one_of_one), Shop(live_store, all_of_three)
    job = await asked_of(shop, one_of_one)
    await answer(live_store, job, "ann", keys=BOTH)
    async with AsyncExitStack() as stack:
        able = await stack.enter_async_context(shop.worker(signing_keys=OLD))
        await able.drain()
        await told_keys(live_store, "k1")
        await stack.enter_async_context(shop.worker({"mail": 1}))
        await stack.enter_async_context(others.worker())
        await stack.enter_async_context(shop.worker(labels=("gpu",), only=("gpu",)))
        assert await send_provable(live_store, BOTH) == 1
        await able.drain()
    assert (await shop.get(job)).result == [True, False, ["ann"]]


async def test_a_vote_is_sent_again_a_few_times_where_a_key_has_an_id_of_another(
    live_store: Store,
) -> None:
    """The ids of keys do not tell that these two differ. The person can answer all the same."""
    namesake = Keyring.of_text(generate_key("k2"))
    shop = Shop(live_store, one_of_one)
    job = await asked_of(shop, one_of_one, namesake)
    await answer(live_store, job, "ann", keys=NEW)
    async with shop.worker(signing_keys=namesake) as worker:
        await worker.drain()
        await told_keys(live_store, "k2")
        sent = []
        for _ in range(5):
            sent.append(await send_provable(live_store, NEW))
            await worker.drain()
        assert sent == [1, 1, 0, 0, 0]
        await answer(live_store, job, "ann", keys=namesake)
        await worker.drain()
    assert (await shop.get(job)).result == [True, False, ["ann"]]


async def test_a_person_can_answer_a_job_that_can_take_no_more_signals(live_store: Store) -> None:
    shop = Shop(live_store, one_of_one)
    job = await asked_of(shop, one_of_one)
    most = SignalLimits()
    notes = [NewSignal(job, "note", "1", f"note {n}") for n in range(most.number)]
    assert set(await live_store.signals.send(notes, most)) == {Sent.KEPT}
    assert await live_store.signals.send([NewSignal(job, "note", "1", "more")], most) == [Sent.FULL]
    await answer(live_store, job, "ann")
    await shop.drain(signing_keys=OLD)
    assert (await shop.get(job)).result == [True, False, ["ann"]]
