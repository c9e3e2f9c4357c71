"""Schedules.declare: code adds and updates, never deletes, never overrules an operator."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from holdfast.schedule.model import DECLARATION_SECONDS, CatchUp, Definition, OnCrash, Overlap, Rule
from tests.conformance.builders import Scene
from tests.conformance.planning import NAME, Diary, definition
from tests.support.backends import siblings

RICH = Definition(
    Rule(
        every=90.5,
        anchor=datetime(2028, 1, 1, 1, tzinfo=UTC),
        delay=1.5,
        jitter=3.0,
    ),
    task="räume auf",
    queue="mail",
    args='{"a":"\\u0000"}',
    policy='{"timeout":5}',
    priority=-3,
    tags=("a", "b,c"),
    headers="{}",
    catch_up=CatchUp.ALL,
    window=60.0,
    cap=7,
    lateness=30.0,
    overlap=Overlap.QUEUE_ONE,
    on_crash=OnCrash.FAIL,
    scopes="tenants",
    planner="by hand",
    keep=3600.0,
)


async def test_the_time_zone_of_a_schedule_is_kept(scene: Scene) -> None:
    rule = Rule(cron="0 9 * * mon-fri", timezone="Europe/Berlin")
    given = Definition(rule, task="t", queue="mail")
    await scene.store.schedules.declare({NAME: given})
    [found] = await scene.store.schedules.find()
    assert found.definition == given


async def test_declaring_nothing_does_nothing(scene: Scene) -> None:
    await scene.store.schedules.declare({})
    assert await scene.store.schedules.find() == []


async def test_a_declared_schedule_is_there_as_it_was_declared(scene: Scene) -> None:
    await scene.store.schedules.declare({NAME: RICH})
    [found] = await scene.store.schedules.find()
    assert found.name == NAME
    assert found.definition == RICH
    assert (found.paused, found.edited, found.revision) == (False, False, 1)
    assert found.created_at == found.declared_at == scene.clock.now
    assert (found.error, found.error_at) == (None, None)
    assert (found.paused_at, found.resumed_at, found.changed_at) == (None, None, None)


async def test_declaring_the_same_again_changes_only_when_it_was_declared(scene: Scene) -> None:
    diary = await Diary.of(scene)
    before = await diary.schedule()
    scene.clock.advance(60)
    await Diary.of(scene)
    after = await diary.schedule()
    assert after.declared_at == scene.clock.now
    assert (after.revision, after.created_at) == (before.revision, before.created_at)
    assert after.changed_at is None


async def test_declaring_another_definition_updates_it(scene: Scene) -> None:
    diary = await Diary.of(scene)
    scene.clock.advance(60)
    await Diary.of(scene, cron="0 4 * * *")
    found = await diary.schedule()
    assert found.definition == definition("0 4 * * *")
    assert found.revision == 2
    assert found.changed_at == scene.clock.now


async def test_only_another_rule_counts_as_a_change_of_the_rule(scene: Scene) -> None:
    diary = await Diary.of(scene)
    scene.clock.advance(60)
    await Diary.of(scene, priority=5)
    found = await diary.schedule()
    assert found.revision == 2
    assert found.changed_at is None


async def test_what_another_deployment_declared_stays(scene: Scene) -> None:
    await scene.store.schedules.declare({"theirs": definition()})
    await scene.store.schedules.declare({"ours": definition()})
    assert [found.name for found in await scene.store.schedules.find()] == ["ours", "theirs"]


async def test_an_operators_edit_is_not_overwritten(scene: Scene) -> None:
    diary = await Diary.of(scene)
    edited = definition("0 5 * * *", keep=60.0)
    await scene.store.schedules.put(NAME, edited)
    before = await diary.schedule()
    scene.clock.advance(60)
    await Diary.of(scene, cron="0 6 * * *")
    found = await diary.schedule()
    assert found.definition == edited
    assert (found.revision, found.changed_at) == (before.revision, before.changed_at)
    assert found.declared_at == scene.clock.now


async def test_an_edited_schedule_keeps_its_ledger_as_the_operator_said(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await scene.store.schedules.put(NAME, definition(keep=60.0))
    await Diary.of(scene, keep=86_400.0)
    await diary.record(diary.plan())
    scene.clock.advance(61)
    assert await diary.schedules.prune_ledger(10) == 1


async def test_a_paused_schedule_stays_paused(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await scene.store.schedules.pause([NAME])
    await Diary.of(scene, cron="0 4 * * *")
    found = await diary.schedule()
    assert found.paused
    assert found.definition == definition("0 4 * * *")


async def test_thousands_may_be_declared_at_once(scene: Scene) -> None:
    many = {f"{number:05} ⏰": definition(priority=number) for number in range(3000)}
    await scene.store.schedules.declare(many)
    found = await scene.store.schedules.find()
    assert {one.name: one.definition for one in found} == many


async def test_many_workers_may_declare_at_once(scene: Scene) -> None:
    names = [f"s{number}" for number in range(40)]
    orders = (names, names[::-1], names[20:] + names[:20], names[::2] + names[1::2])
    async with siblings(scene.store, len(orders)) as others:
        await asyncio.gather(
            *(
                other.schedules.declare(dict.fromkeys(order, definition()))
                for other, order in zip(others, orders, strict=True)
            )
        )
    found = await scene.store.schedules.find()
    assert [one.name for one in found] == sorted(names)
    assert {one.revision for one in found} == {1}


async def test_an_anchor_comes_back_as_the_same_instant(scene: Scene) -> None:
    anchor = datetime(2028, 10, 29, 2, 30, 0, 5, tzinfo=UTC)
    rule = Rule(every=timedelta(hours=1).total_seconds(), anchor=anchor)
    await scene.store.schedules.declare({NAME: Definition(rule, "t", "q")})
    [found] = await scene.store.schedules.find()
    assert found.definition.rule.anchor == anchor


# Programs that differ --------------------------------------------------------------------------

OURS, THEIRS = definition("0 4 * * *"), definition("0 5 * * *")


async def test_of_two_programs_that_differ_the_one_that_started_last_wins(scene: Scene) -> None:
    diary, verbs = Diary(scene), scene.store.schedules
    old = scene.clock.now
    await verbs.declare({NAME: OURS}, old)
    scene.clock.advance(60)
    young = scene.clock.now
    await verbs.declare({NAME: THEIRS}, young)
    before = await diary.schedule()
    assert (before.definition, before.rival) == (THEIRS, None)
    for _ in range(5):
        scene.clock.advance(600)
        await verbs.declare({NAME: OURS}, old)
        contested = await diary.schedule()
        assert (contested.rival, contested.rival_at) == (OURS, scene.clock.now)
        await verbs.declare({NAME: THEIRS}, young)
    found = await diary.schedule()
    assert (found.definition, found.version, found.changed_at) == (
        THEIRS,
        before.version,
        before.changed_at,
    )
    assert found.declared_at == scene.clock.now
    assert found.rival == OURS


async def test_when_the_younger_program_is_gone_the_older_ones_word_counts(scene: Scene) -> None:
    diary, verbs = Diary(scene), scene.store.schedules
    old = scene.clock.now
    scene.clock.advance(60)
    await verbs.declare({NAME: THEIRS})
    scene.clock.advance(DECLARATION_SECONDS)
    await verbs.declare({NAME: OURS}, old)
    assert (await diary.schedule()).definition == THEIRS
    scene.clock.advance(1)
    await verbs.declare({NAME: OURS}, old)
    found = await diary.schedule()
    assert (found.definition, found.rival, found.rival_at) == (OURS, None, None)
    assert found.changed_at == scene.clock.now


async def test_a_restart_with_the_older_code_wins_again(scene: Scene) -> None:
    diary, verbs = Diary(scene), scene.store.schedules
    old = scene.clock.now
    scene.clock.advance(60)
    await verbs.declare({NAME: THEIRS})
    await verbs.declare({NAME: OURS}, old)
    scene.clock.advance(60)
    await verbs.declare({NAME: OURS})
    found = await diary.schedule()
    assert (found.definition, found.rival) == (OURS, None)


async def test_what_an_operator_edited_has_no_rival(scene: Scene) -> None:
    diary, verbs = Diary(scene), scene.store.schedules
    await verbs.put(NAME, THEIRS)
    await verbs.declare({NAME: OURS}, scene.clock.now - timedelta(days=1))
    found = await diary.schedule()
    assert (found.definition, found.rival) == (THEIRS, None)
