"""Approvals as people see them: `explain`, the list of waits, and the command that answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import App, Context
from holdfast.cli.program import program
from holdfast.encryption.keyring import Keyring, generate_key
from holdfast.encryption.signing import Signer
from holdfast.job.vote import Invited
from tests.support.waiting_job import Bench
from tests.unit.cli import Desk, desk_in

KEY = generate_key("k1")
SIGNER = Signer(Keyring.of_text(KEY))
PEOPLE = ["ann", "bob", "cyd", "dee", "eve"]


async def release(ctx: Context) -> str:
    vote = await ctx.invite("leads", of=PEOPLE).quorum(3, timeout=86_400)
    return "released" if vote.granted else "not released"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench(signing_keys=KEY)
    async with bench.harness:
        await bench.begin(release)
        yield bench


async def answer(bench: Bench, who: str, approve: bool) -> None:
    await bench.app.client.answer(SIGNER.token(Invited(bench.handle.id, "leads", who)), approve)


async def test_explain_says_who_has_answered_who_can_and_until_when(bench: Bench) -> None:
    everybody = "ann, bob, cyd, dee, eve have not answered"
    left = "24 h left, then it goes on without them"
    said = "it waits for 3 of 5 votes on 'leads' since 0.0 s"
    assert await bench.explained() == [f"{said}; {everybody}; {left}"]
    await answer(bench, "bob", approve=True)
    await bench.drain()
    await answer(bench, "ann", approve=False)
    await bench.pass_time(hours=2)
    said = "it waits for 3 of 5 votes on 'leads' since 0.0 s: bob yes, ann no"
    left = "22 h left, then it goes on without them"
    assert await bench.explained() == [f"{said}; cyd, dee, eve have not answered; {left}"]
    [reason] = (await bench.app.client.explain(bench.handle.id)).reasons
    assert (reason.code, reason.who) == ("awaits-votes", "those who were asked")


async def test_explain_names_some_of_many_people(bench: Bench) -> None:
    async def crowd(ctx: Context) -> None:
        await ctx.invite("crowd", of=[f"p{n}" for n in range(12)]).quorum(12)

    await bench.begin(crowd)
    [fact] = await bench.explained()
    assert fact.endswith("p8, p9 and 2 others have not answered")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("HOLDFAST_SIGNING_KEYS", KEY)
    return desk_in(tmp_path, monkeypatch)


def asked_on(desk: Desk) -> str:
    app = App(desk.url)
    job = app.task()(release).enqueue_sync()
    app.run_worker(burst=True)
    app.close_sync()
    return job.id


def test_the_command_line_answers_for_a_person(desk: Desk) -> None:
    job = asked_on(desk)
    waits = desk.json("waits", "list")["waits"]
    assert [wait["id"] for wait in waits] == [job] * 5
    assert {"wait": "leads", "who": "ann"} in [wait["vote"] for wait in waits]
    assert "vote of ann on 'leads'" in desk.on_store("waits", "list", width=200).out
    token = SIGNER.token(Invited(job, "leads", "ann"))
    vote = desk.json("waits", "answer", token, "yes", "--note", "fine")
    assert (vote["who"], vote["approve"], vote["note"]) == ("ann", True, "fine")
    assert desk.on_store("waits", "answer", token, "yes", "--note", "fine").code == 0
    refused = desk.on_store("waits", "answer", token, "no")
    assert (refused.code, "this answer does not count" in refused.err) == (1, True)
    assert token not in refused.err + refused.out
    act = desk.json("audit", "list")["acts"][-1]
    assert (act["verb"], act["target"], "@" in act["by"]) == ("jobs.answer", job, True)
    assert act["arguments"]["who"] == "ann"


def test_a_token_may_come_from_standard_input(desk: Desk) -> None:
    token = SIGNER.token(Invited(asked_on(desk), "leads", "bob"))
    words = ["waits", "answer", "-", "no", "--url", desk.url]
    ran = CliRunner().invoke(program, words, input=f"{token}\n")
    assert ran.stdout.strip() == "bob has answered no"
