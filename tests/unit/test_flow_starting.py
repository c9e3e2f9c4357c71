"""Flows started at the same time share a transaction; a refused one is refused alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from holdfast.app import App
from holdfast.client.flows import STARTS_AT_ONCE, FlowVerbs
from holdfast.errors import BadOption, HoldfastError, StoreError
from holdfast.flow.elements import element_ids
from holdfast.flow.ids import new_flow_id, new_node_id
from holdfast.flow.model import NewFlow
from holdfast.store.contract.flows import Started
from holdfast.store.contract.store import Store


class Flows:
    """Starts flows, slowly, and refuses every call that has a flow named `bad`."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def start(self, flows: Sequence[NewFlow]) -> list[Started]:
        self.calls.append([flow.name for flow in flows])
        await asyncio.sleep(0)
        if any(flow.name == "bad" for flow in flows):
            raise StoreError("no such flow")
        return [Started(flow.id, "created") for flow in flows]


@pytest.fixture
def flows() -> Flows:
    return Flows()


@pytest.fixture
def verbs(flows: Flows) -> FlowVerbs:
    return FlowVerbs(cast("Store", SimpleNamespace(flows=flows)))


def a_flow(name: str, key: str | None = None) -> NewFlow:
    return NewFlow(id=new_flow_id(), name=name, nodes=(), graph="{}", unique_key=key)


async def started(verbs: FlowVerbs, *flows: NewFlow) -> list[Any]:
    return await asyncio.gather(*(verbs.write(flow) for flow in flows), return_exceptions=True)


async def test_starts_at_the_same_time_share_calls(verbs: FlowVerbs, flows: Flows) -> None:
    given = [a_flow(f"n{n}") for n in range(1 + STARTS_AT_ONCE + 5)]
    assert [one.id for one in await started(verbs, *given)] == [flow.id for flow in given]
    assert [len(call) for call in flows.calls] == [1, STARTS_AT_ONCE, 5]


async def test_only_the_caller_of_a_refused_flow_hears_of_it(
    verbs: FlowVerbs, flows: Flows
) -> None:
    first, good, bad, other = map(a_flow, ("first", "good", "bad", "other"))
    answers = await started(verbs, first, good, bad, other)
    assert [one.id for one in answers if isinstance(one, Started)] == [first.id, good.id, other.id]
    assert isinstance(answers[2], HoldfastError)
    assert flows.calls == [["first"], ["good", "bad", "other"], ["good"], ["bad"], ["other"]]


async def test_a_flow_with_a_unique_key_keeps_nobody_waiting(
    verbs: FlowVerbs, flows: Flows
) -> None:
    await started(verbs, a_flow("a"), a_flow("b"), a_flow("keyed", "order:1"), a_flow("c"))
    assert sorted(flows.calls) == [["a"], ["b", "c"], ["keyed"]]


# Names of nodes


def test_nodes_of_one_task_are_numbered_and_a_name_that_was_given_away_is_free_again() -> None:
    app = App("sqlite://")

    @app.task()
    async def ask(text: str, given: Any = None) -> str:
        return text

    flow = app.flow("names")
    nodes = [flow.add(ask, "x").named("first"), flow.add(ask, "x")]
    nodes += [flow.add(ask, "x").named("third"), flow.add(ask, "x"), flow.add(ask, "x")]
    assert [node.name for node in nodes] == ["first", "ask", "third", "ask#2", "ask#3"]
    nodes[3].named("other")
    assert flow.add(ask, "x").name == "ask#4"


def test_an_output_is_found_wherever_it_stands_in_a_call() -> None:
    app = App("sqlite://")

    @app.task()
    async def ask(text: str, given: Any = None) -> str:
        return text

    flow = app.flow("outputs")
    one = flow.add(ask, "x")
    waiting = [
        flow.add(ask, one.output),
        flow.add(ask, "x", given=one.output),
        flow.add(ask, "x", [one.output]),
        flow.add(ask, "x", {"deep": (one.output,)}),
    ]
    assert [list(node.needs) for node in waiting] == [[one]] * 4
    assert flow.add(ask, "x", {"deep": [1]}).job.args == '{"text":"x","given":{"deep":[1]}}'


# Ids of elements


def test_elements_of_a_map_follow_each_other_and_are_nobody_elses() -> None:
    flow = new_flow_id()
    maps = [new_node_id(flow) for _ in range(20)]
    ids = [element_ids(one, range(0, 9_000, 7)) for one in maps]
    assert all(some == sorted(some) for some in ids)
    every = {one for some in ids for one in some}
    assert len(every | set(maps)) == sum(map(len, ids)) + len(maps)
    assert all(str(UUID(one)) == one and UUID(one).version == 7 for one in every)
    assert {one[-3:] for one in every} == {flow[-3:]}


@pytest.mark.parametrize("unique", ["a\0b", "\ud800", "x" * 600, "", 5, b"key", ["key"]])
async def test_a_key_that_is_no_text_is_refused_and_the_flow_can_still_be_started(
    unique: Any,
) -> None:
    app = App("sqlite://")

    @app.task()
    async def work() -> None: ...

    flow = app.flow("keyed")
    flow.add(work)
    async with app:
        with pytest.raises(BadOption, match="unique must be 1 to 512 characters of text"):
            await flow.start(unique=unique)
        assert (await flow.start(unique="order:42")).created


@pytest.mark.parametrize("retention", ["7d", 5, {"failed": 60}, True])
def test_a_retention_of_a_flow_that_is_none_is_refused(retention: Any) -> None:
    with pytest.raises(BadOption, match="retention must be a Retention"):
        App("sqlite://").flow("kept", retention=retention)
