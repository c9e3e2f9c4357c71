"""An approval as a node of a flow: it asks, tells whom it asks, escalates, and is denied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import App, Approval, BadOption
from holdfast.client.flow_handle import FlowHandle
from holdfast.flow.approving import APPROVE
from holdfast.testing import Harness


class Release:
    """An app whose flow ships something if people grant it."""

    def __init__(self) -> None:
        self.app = App("sqlite://")
        self.harness = Harness(self.app)
        self.tokens: dict[str, str] = {}
        self.told: list[str] = []
        self.run: FlowHandle

        @self.app.task(name="mail")
        async def mail(asked: dict[str, Any]) -> None:
            self.told.append(asked["wait"])
            self.tokens.update(await self.app.client.tokens(**asked))

        @self.app.task(name="ship")
        async def ship(granted: Approval) -> list[str]:
            return [vote.who for vote in granted.votes]

        self.mail, self.ship = mail, ship

    async def start(self, **options: Any) -> None:
        flow = self.app.flow("release")
        granted = flow.approval("leads", tell=self.mail, **options)
        flow.add(self.ship, granted.output)
        self.run = await flow.start()
        await self.harness.drain(raises=False)

    async def answer(self, who: str, approve: bool = True) -> None:
        await self.app.client.answer(self.tokens[who], approve)
        await self.harness.drain(raises=False)


@pytest.fixture
async def release() -> AsyncIterator[Release]:
    release = Release()
    async with release.harness:
        yield release


async def test_the_node_succeeds_when_enough_have_said_yes(release: Release) -> None:
    await release.start(of=["ann", "bob", "cyd"], need=2)
    assert release.told == ["leads"]
    await release.answer("cyd")
    await release.answer("bob", approve=False)
    await release.answer("ann")
    assert await release.run.result(timeout=5) == ["cyd", "bob", "ann"]
    assert release.told == ["leads"], "nobody is told twice"


async def test_without_a_number_all_of_them_are_needed(release: Release) -> None:
    await release.start(of=["ann", "bob"])
    await release.answer("ann")
    assert release.told == ["leads"]
    assert (await release.run.get()).state == "running"
    await release.answer("bob")
    assert (await release.run.get()).state == "succeeded"


async def test_others_are_asked_when_the_time_is_over(release: Release) -> None:
    await release.start(of=["ann", "bob"], timeout=3_600, escalate_to=["cto"])
    await release.answer("ann")
    await release.harness.advance(hours=1)
    await release.harness.drain()
    assert release.told == ["leads", "leads escalated"]
    await release.answer("cto")
    assert await release.run.result(timeout=5) == ["cto"]


async def test_a_denial_fails_the_node_and_skips_what_needs_it(release: Release) -> None:
    await release.start(of=["ann", "bob"])
    await release.answer("ann", approve=False)
    [denied] = (await release.app.client.page(state="failed")).jobs
    assert (denied.errors[0].kind, denied.errors[0].message) == ("Denied", "denied: ann no")
    assert denied.attempts == 1
    [skipped] = (await release.app.client.page(task="ship")).jobs
    assert (skipped.state, (await release.run.get()).state) == ("skipped", "failed")


async def test_no_token_is_in_the_store(release: Release) -> None:
    await release.start(of=["ann", "bob"])
    jobs = (await release.app.client.page(limit=100)).jobs
    texts = [job.args_json + (job.result_json or "") for job in jobs]
    steps = [
        one.result_json or "" for job in jobs for one in await release.app.client.steps(job.id)
    ]
    signatures = [token.rpartition(".")[2] for token in release.tokens.values()]
    assert len(signatures) == 2
    assert not [one for one in signatures if any(one in text for text in (*texts, *steps))]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"of": []}, "of must be 1 to 500 people"),
        ({"of": "ann"}, "of must be names of people"),
        ({"of": ["ann", "ann"]}, "of must be each person once"),
        ({"of": ["ann"], "need": 2}, "need must be between 1 and 1"),
        ({"of": ["ann"], "escalate_to": ["cto"]}, "timeout must be given with escalate_to"),
        ({"of": ["ann"], "tell": print}, "tell must be a task of this program that takes whom"),
    ],
)
def test_an_approval_that_cannot_be_given_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        App("sqlite://").flow("release").approval("leads", **options)


# What is shown


class Shown:
    """An approval, as people may see it."""

    def __init__(self) -> None:
        self.app = App("sqlite://")
        self.harness = Harness(self.app)

        @self.app.task(name="mail")
        async def mail(asked: dict[str, Any]) -> None: ...

        self.mail = mail

    async def begin(self, *people: str, headers: dict[str, str] | None = None) -> str:
        flow = self.app.flow("release")
        tell = self.mail.using(headers=headers) if headers else self.mail
        flow.approval("go-live", of=people, timeout=3_600, tell=tell)
        run = await flow.start()
        await self.harness.drain(raises=False)
        [node] = [one for one in await run.nodes() if one.task == APPROVE]
        return node.job_id

    async def reason(self, job: str) -> str:
        told = await self.app.client.shown.explanation(await self.app.client.explain(job))
        return told.reasons[0].fact

    async def answer(self, job: str, who: str, approve: bool = True) -> None:
        await self.harness.answer(job, "go-live", who, approve=approve)
        await self.harness.drain(raises=False)


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    shown = Shown()
    async with shown.harness:
        yield shown


async def test_explain_says_who_has_answered_a_node(shown: Shown) -> None:
    job = await shown.begin("alice@example.org", "robert")
    reason = await shown.reason(job)
    assert "2 of 2 votes on 'go-live'" in reason
    assert "alice@example.org, robert have not answered" in reason
    await shown.answer(job, "robert")
    assert "robert yes; alice@example.org has not answered" in await shown.reason(job)


async def test_a_denial_of_a_node_names_the_person(shown: Shown) -> None:
    job = await shown.begin("alice@example.org", "robert")
    await shown.answer(job, "alice@example.org", approve=False)
    one = await shown.app.client.shown.job(await shown.app.client.get(job))
    assert one.errors[0].message == "denied: alice@example.org no"
    assert one.reason is not None
    assert "alice@example.org no" in one.reason


async def test_the_plan_of_a_node_is_shown_without_the_secrets_of_its_telling_task(
    shown: Shown,
) -> None:
    job = await shown.begin("robert", headers={"authorization": "hunter22"})
    stored = await shown.app.client.get(job)
    assert "hunter22" in stored.args_json
    args = (await shown.app.client.shown.job(stored)).args_json
    assert '"people":["robert"]' in args
    assert "hunter22" not in args
