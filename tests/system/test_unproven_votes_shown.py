"""Votes that no live worker can prove: what the doctor and explanations of flows tell of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import App, Approval, Context
from holdfast.client.client import Client
from holdfast.client.voting import LIMITS
from holdfast.encryption.keyring import Keyring, generate_key
from holdfast.encryption.signing import Signer
from holdfast.insights.diagnosis import OK, WARNING
from holdfast.insights.node_status import statuses_of
from holdfast.insights.signals import check_signals
from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal
from holdfast.job.vote import Invited
from holdfast.store.contract.store import Store
from tests.support.waiting import slowness, wait_until
from tests.support.working import Shop

FIRST, SECOND = generate_key("k1"), generate_key("k2")
OLD, NEW = Keyring.of_text(FIRST), Keyring.of_text(f"{SECOND},{FIRST}")
"""The keys of the workers, and those of the program that takes answers."""


async def all_of_three(ctx: Context) -> bool:
    approval = await ctx.invite("leads", of=["ann", "bob", "cyd"]).quorum(3)
    return approval.granted


async def answer(store: Store, job: JobId, who: str, keys: Keyring) -> None:
    token = Signer(keys).token(Invited(job, "leads", who))
    await Client(store, signing_keys=keys).answer(token, True)


async def told_keys(store: Store, *rings: set[str]) -> None:
    """Wait for the beats that tell the keys of all live workers."""

    async def told() -> bool:
        live = [set(one.facts.signing_keys) for one in await store.workers.find() if one.alive]
        return sorted(map(sorted, live)) == sorted(map(sorted, rings))

    await wait_until(told, 10 * slowness(), "the workers tell their keys")


async def asked(store: Store) -> tuple[Shop, JobId]:
    shop = Shop(store, all_of_three)
    job = await shop.enqueue(all_of_three)
    await shop.drain(signing_keys=OLD)
    return shop, job


async def test_the_doctor_tells_of_votes_that_no_worker_can_prove(live_store: Store) -> None:
    shop, job = await asked(live_store)
    for who in ("ann", "bob"):
        await answer(live_store, job, who, NEW)
    await shop.drain(signing_keys=OLD)
    [ill] = await check_signals(live_store)
    assert (ill.check, ill.severity) == ("signals", WARNING)
    assert ill.saw == (
        "2 votes do not count: signed with a key that no worker of the job has: k2; "
        f"they are for 1 of the jobs that wait, {job} is one"
    )
    assert ill.advice == "give the workers the signing key k2, or let those people answer again"


async def test_votes_that_were_proven_are_no_matter_for_the_doctor(live_store: Store) -> None:
    shop, job = await asked(live_store)
    await answer(live_store, job, "ann", OLD)
    await shop.drain(signing_keys=OLD)
    [well] = await check_signals(live_store)
    assert (well.severity, well.saw) == (OK, "1 job waits for signals, and none has come")


async def test_a_vote_that_a_live_worker_will_prove_is_no_matter_for_the_doctor(
    live_store: Store,
) -> None:
    """It is sent to the job again, so nobody has to do anything."""
    shop, job = await asked(live_store)
    await answer(live_store, job, "ann", NEW)
    await shop.drain(signing_keys=OLD)
    async with shop.worker(signing_keys=NEW):
        await told_keys(live_store, {"k1", "k2"})
        [well] = await check_signals(live_store)
    assert well.severity is OK


async def test_a_worker_that_cannot_run_the_job_proves_nothing_for_it(live_store: Store) -> None:
    shop, job = await asked(live_store)
    await answer(live_store, job, "ann", NEW)
    await shop.drain(signing_keys=OLD)

    async def other() -> None: ...

    others = Shop(live_store, other).worker(signing_keys=Keyring.of_text(SECOND))
    async with shop.worker(signing_keys=OLD), others:
        await told_keys(live_store, {"k1"}, {"k2"})
        [ill] = await check_signals(live_store)
        [reason] = (await Client(live_store).explain(job)).reasons
        node = (await statuses_of(live_store, [job], await live_store.now()))[job]
    said = "signed with a key that no worker of the job has: k2"
    assert ill.severity is WARNING
    assert said in ill.saw
    assert said in reason.fact
    assert said in node.text


async def test_the_doctor_tells_of_votes_without_a_proof(live_store: Store) -> None:
    shop, job = await asked(live_store)
    name = Invited(job, "leads", "ann").signal
    await live_store.signals.send([NewSignal(job, name, "{}", "x")], LIMITS)
    await shop.drain(signing_keys=OLD)
    [ill] = await check_signals(live_store)
    assert ill.severity is WARNING
    assert ill.saw.startswith("1 vote does not count: without a proof that a worker can read;")
    assert ill.advice == "let those people answer again"


def flow_app(path: Path, keys: Keyring) -> tuple[App, Any]:
    app = App(f"sqlite:///{path}/jobs.db", signing_keys=keys)

    @app.task(name="ship")
    async def ship(granted: Approval) -> int:
        return len(granted.votes)

    return app, ship


async def drained(app: App) -> None:
    async with app.worker() as worker:
        await worker.drain()


async def test_the_explanation_of_a_flow_tells_of_votes_that_no_worker_can_prove(
    tmp_path: Path,
) -> None:
    app, ship = flow_app(tmp_path, OLD)
    rotated, _ = flow_app(tmp_path, NEW)
    async with app, rotated:
        flow = app.flow("release")
        flow.add(ship, flow.approval("release", of=["ann", "bob"], need=2).output)
        run = await flow.start()
        await drained(app)
        [node] = [one for one in await run.nodes() if one.task == "holdfast.approve"]
        tokens = await rotated.client.tokens(node.job_id, "release", ["ann", "bob"])
        for token in tokens.values():
            await rotated.client.answer(token, True)
        await drained(app)
        told = await app.client.flows.explain(run.id)
        blocked = await app.client.explain((await run.nodes())[-1].job_id)
        [own] = told.frontier
    said = "2 votes do not count: signed with a key that no worker of the job has: k2"
    assert own.why.startswith("is suspended: it waits for 2 of 2 votes on 'release' since ")
    assert own.why.endswith(said)
    assert "ann" not in own.why, "its redaction is that of another job"
    assert said in told.waiting[0].why
    assert "signing key k2" in blocked.reasons[0].advice
