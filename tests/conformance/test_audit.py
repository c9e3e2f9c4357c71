"""The audit: an act is written before it is done and closed after it, and found again later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.store.contract.audit import (
    INTERRUPTED_AFTER_SECONDS,
    Act,
    ActId,
    ActOutcome,
    AuditEntry,
    AuditFilter,
    new_act_id,
)
from tests.conformance.builders import Scene
from tests.support.backends import siblings

EVERY = AuditFilter()


def new_act(**facts: Any) -> Act:
    given = {"id": new_act_id(), "by": "ann@desk", "verb": "jobs.cancel", "target": "some-job"}
    return Act(**(given | facts))


async def begun(scene: Scene, **facts: Any) -> ActId:
    act = new_act(**facts)
    await scene.store.audit.begin(act)
    scene.clock.advance(1)
    return act.id


async def the_entry(scene: Scene) -> AuditEntry:
    [entry] = (await scene.store.audit.page(EVERY, 10)).entries
    return entry


async def found(scene: Scene, **words: Any) -> list[ActId]:
    page = await scene.store.audit.page(AuditFilter(**words), 100)
    return [entry.id for entry in page.entries]


async def test_a_begun_act_is_under_way_with_all_its_facts(scene: Scene) -> None:
    act = new_act(which='{"queues":["mail"]}', arguments='{"to":"ß"}')
    await scene.store.audit.begin(act)
    assert await the_entry(scene) == AuditEntry(
        id=act.id,
        by="ann@desk",
        verb="jobs.cancel",
        target="some-job",
        which='{"queues":["mail"]}',
        arguments='{"to":"ß"}',
        begun_at=scene.clock.now,
        closed_at=None,
        outcome=ActOutcome.UNDER_WAY,
        changed=0,
        error=None,
    )


@pytest.mark.parametrize("outcome", [ActOutcome.DONE, ActOutcome.REFUSED, ActOutcome.FAILED])
async def test_a_closed_act_says_how_it_ended_and_when(scene: Scene, outcome: ActOutcome) -> None:
    act = await begun(scene, target="")
    await scene.store.audit.close(act, outcome, 2**40, "why\x00")
    entry = await the_entry(scene)
    assert (entry.outcome, entry.changed, entry.error) == (outcome, 2**40, "why\ufffd")
    assert (entry.closed_at, entry.begun_at) == (
        scene.clock.now,
        scene.clock.now - timedelta(seconds=1),
    )
    assert (entry.target, entry.which, entry.arguments) == ("", None, None)


async def test_an_act_that_nobody_closes_was_interrupted(scene: Scene) -> None:
    await begun(scene)
    assert (await the_entry(scene)).outcome is ActOutcome.UNDER_WAY
    scene.clock.advance(INTERRUPTED_AFTER_SECONDS)
    entry = await the_entry(scene)
    assert (entry.outcome, entry.closed_at) == (ActOutcome.INTERRUPTED, None)


async def test_an_act_that_is_begun_again_goes_on_and_keeps_its_first_time(scene: Scene) -> None:
    act = new_act()
    await scene.store.audit.begin(act)
    since = scene.clock.now
    for _ in range(3):
        scene.clock.advance(INTERRUPTED_AFTER_SECONDS - 1)
        await scene.store.audit.begin(act)
    entry = await the_entry(scene)
    assert (entry.outcome, entry.begun_at) == (ActOutcome.UNDER_WAY, since)


async def test_an_act_that_was_closed_can_go_on_and_be_closed_again(scene: Scene) -> None:
    act = new_act()
    await scene.store.audit.begin(act)
    await scene.store.audit.close(act.id, ActOutcome.INTERRUPTED, 3, "stopped")
    await scene.store.audit.begin(act)
    entry = await the_entry(scene)
    assert (entry.outcome, entry.closed_at, entry.error) == (ActOutcome.UNDER_WAY, None, None)
    await scene.store.audit.close(act.id, ActOutcome.DONE, 5)
    await scene.store.audit.close(act.id, ActOutcome.DONE, 5)
    entry = await the_entry(scene)
    assert (entry.outcome, entry.changed) == (ActOutcome.DONE, 5)


async def test_an_act_that_is_not_there_is_not_made_by_closing_it(scene: Scene) -> None:
    await scene.store.audit.close(new_act_id(), ActOutcome.DONE, 1)
    assert await found(scene) == []


async def test_acts_are_found_by_who_what_on_what_and_when(scene: Scene) -> None:
    start = scene.clock.now
    first = await begun(scene)
    second = await begun(scene, by="bob@desk", verb="queues.pause", target="mail")
    third = await begun(scene, verb="queues.pause", target="mail")
    fourth = await begun(scene, target="")
    assert await found(scene) == [fourth, third, second, first]
    assert await found(scene, by="ann@desk") == [fourth, third, first]
    assert await found(scene, verb="queues.pause") == [third, second]
    assert await found(scene, target="mail") == [third, second]
    assert await found(scene, target="mail", by="bob@desk") == [second]
    assert await found(scene, by="ann@desk", verb="jobs.cancel") == [fourth, first]
    assert await found(scene, by="nobody") == []
    assert await found(scene, target="") == []
    assert await found(scene, after=start) == [fourth, third, second]
    assert await found(scene, before=start + timedelta(seconds=2)) == [second, first]
    between = {"after": start, "before": start + timedelta(seconds=3), "by": "ann@desk"}
    assert await found(scene, **between) == [third]


@pytest.mark.parametrize("words", [{}, {"by": "ann@desk"}, {"target": "some-job"}])
async def test_pages_follow_each_other_while_acts_come(scene: Scene, words: Any) -> None:
    acts = [await begun(scene) for _ in range(5)]
    await begun(scene, by="bob", target="other")
    which, seen, cursor = AuditFilter(verb="jobs.cancel", before=scene.clock.now, **words), [], None
    while True:
        page = await scene.store.audit.page(which, 2, cursor)
        seen += [entry.id for entry in page.entries if entry.by == "ann@desk"]
        await begun(scene)
        if (cursor := page.next_cursor) is None:
            break
    assert seen == acts[::-1]


async def test_acts_of_one_moment_are_all_on_some_page(scene: Scene) -> None:
    acts = [new_act() for _ in range(5)]
    for act in acts:
        await scene.store.audit.begin(act)
    first = await scene.store.audit.page(EVERY, 3)
    rest = await scene.store.audit.page(EVERY, 3, first.next_cursor)
    seen = [entry.id for entry in (*first.entries, *rest.entries)]
    assert seen == sorted((act.id for act in acts), reverse=True)


async def test_old_acts_are_pruned_oldest_first_and_a_bounded_number_at_once(scene: Scene) -> None:
    acts = [await begun(scene) for _ in range(4)]
    assert await scene.store.audit.prune(10, 100.0) == 0
    scene.clock.advance(98)  # the acts are 102, 101, 100 and 99 seconds old
    assert await scene.store.audit.prune(1, 100.0) == 1
    assert await found(scene) == acts[:0:-1]
    assert await scene.store.audit.prune(10, 100.0) == 2
    assert await found(scene) == acts[3:]
    assert await found(scene, by="ann@desk", target="some-job") == acts[3:]
    pruned = acts[1]
    assert (await scene.store.audit.page(EVERY, 10, pruned)).entries == ()


async def test_another_process_sees_the_act_before_it_is_closed(scene: Scene) -> None:
    async with siblings(scene.store, 1) as [other]:
        act = await begun(scene)
        [entry] = (await other.audit.page(EVERY, 10)).entries
        assert (entry.id, entry.outcome) == (act, ActOutcome.UNDER_WAY)
