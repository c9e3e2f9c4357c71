"""An approval as a node of a flow: it asks, tells whom it asks, escalates, and is denied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import App, Approval, BadOption
from holdfast.client.flow_handle import FlowHandle
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
