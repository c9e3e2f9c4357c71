"""Operations: each move starts from the revision that was read, and nothing else moves them."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.store.contract.operations import (
    UNREADABLE,
    Advance,
    Operation,
    OperationId,
    OperationProgress,
    OperationRequest,
    OperationState,
    new_operation_id,
)
from tests.conformance.builders import Scene
from tests.support.backends import siblings

REQUEST = OperationRequest(
    verb="move",
    which='{"queues":["mail"]}',
    value='"ß"',
    by="ann@desk",
    reason="they stand in the way",
    matched=12,
    canary=3,
    pace=0.5,
)
RUNNING, WAITING = OperationState.RUNNING, OperationState.WAITING
STOPPED, DONE = OperationState.STOPPED, OperationState.DONE


async def begun(scene: Scene, request: OperationRequest = REQUEST) -> OperationId:
    operation = new_operation_id()
    await scene.store.operations.begin(operation, request)
    scene.clock.advance(1)
    return operation


async def read(scene: Scene, operation: OperationId) -> Operation:
    [found] = await scene.store.operations.find([operation])
    return found


async def moved(scene: Scene, operation: OperationId, **facts: Any) -> bool:
    """Move the operation from where it is."""
    now = await read(scene, operation)
    given: dict[str, Any] = {"state": RUNNING, "progress": OperationProgress()}
    move = Advance(**(given | facts))
    return await scene.store.operations.advance(operation, now.revision, move)


async def found(scene: Scene, *states: OperationState) -> list[OperationId]:
    return [one.id for one in await scene.store.operations.find(states=states)]


async def polled(scene: Scene) -> bool:
    return (await scene.store.workers.poll(scene.worker, ["default"], ["greet"])).operations


async def test_a_begun_operation_runs_and_is_what_was_asked_for(scene: Scene) -> None:
    operation = new_operation_id()
    await scene.store.operations.begin(operation, REQUEST)
    assert await read(scene, operation) == Operation(
        id=operation,
        request=REQUEST,
        state=RUNNING,
        revision=1,
        progress=OperationProgress(),
        hand=None,
        begun_at=scene.clock.now,
        advanced_at=scene.clock.now,
    )


async def test_a_second_begin_changes_nothing(scene: Scene) -> None:
    operation = await begun(scene)
    await moved(scene, operation, state=DONE)
    before = await read(scene, operation)
    await scene.store.operations.begin(operation, OperationRequest(verb="cancel"))
    assert await read(scene, operation) == before


async def test_a_move_from_the_revision_that_was_read_is_taken(scene: Scene) -> None:
    operation = await begun(scene)
    progress = OperationProgress("cursor", 5, 2, ("one", "two"), canary_over=True)
    move = Advance(state=WAITING, progress=progress, hand="[1]")
    assert await scene.store.operations.advance(operation, 1, move)
    now = await read(scene, operation)
    assert (now.state, now.revision, now.progress, now.hand) == (WAITING, 2, progress, "[1]")
    assert now.advanced_at == scene.clock.now
    assert await moved(scene, operation)
    assert (await read(scene, operation)).hand is None


async def test_a_move_from_an_old_revision_is_refused(scene: Scene) -> None:
    operation = await begun(scene)
    assert await moved(scene, operation)
    before = await read(scene, operation)
    move = Advance(state=DONE, progress=OperationProgress("other"), hand="x", kept="y")
    assert not await scene.store.operations.advance(operation, 1, move)
    assert not await scene.store.operations.advance(new_operation_id(), 1, move)
    assert await read(scene, operation) == before
    assert await scene.store.operations.kept(operation, 0, 10) == []


async def test_of_two_moves_at_once_one_is_taken(scene: Scene) -> None:
    operation = await begun(scene)
    move = Advance(state=RUNNING, progress=OperationProgress())
    async with siblings(scene.store, 4) as others:
        taken = await asyncio.gather(
            *(other.operations.advance(operation, 1, move) for other in others)
        )
    assert sorted(taken) == [False, False, False, True]


async def test_what_an_undo_needs_is_kept_in_order(scene: Scene) -> None:
    operation, other = await begun(scene), await begun(scene)
    for page in ("a", "b", "c"):
        await moved(scene, operation, kept=page)
        await moved(scene, operation)
    await moved(scene, other, kept="z")
    kept = scene.store.operations.kept
    assert await kept(operation, 0, 2) == [(1, "a"), (2, "b")]
    assert await kept(operation, 2, 2) == [(3, "c")]
    assert await kept(operation, 3, 2) == []
    assert await kept(other, 0, 2) == [(1, "z")]


async def test_what_runs_or_waits_can_be_stopped_and_notices(scene: Scene) -> None:
    runs, waits, done = [await begun(scene) for _ in range(3)]
    await moved(scene, runs, hand="[1]")
    await moved(scene, waits, state=WAITING)
    await moved(scene, done, state=DONE)
    stale = (await read(scene, runs)).revision
    asked = [runs, waits, done, new_operation_id()]
    assert await scene.store.operations.stop(asked) == sorted([runs, waits])
    assert await scene.store.operations.stop(asked) == []
    move = Advance(state=RUNNING, progress=OperationProgress())
    assert not await scene.store.operations.advance(runs, stale, move)
    stopped = await read(scene, runs)
    assert (stopped.state, stopped.hand) == (STOPPED, "[1]")
    assert (await read(scene, done)).state is DONE


async def test_what_was_stopped_or_waits_can_go_on(scene: Scene) -> None:
    runs, waits, stopped, done = [await begun(scene) for _ in range(4)]
    await moved(scene, waits, state=WAITING)
    await moved(scene, done, state=DONE)
    await scene.store.operations.stop([stopped])
    asked = [runs, waits, stopped, done]
    assert await scene.store.operations.go_on(asked) == sorted([waits, stopped])
    assert await scene.store.operations.go_on([]) == []
    assert set(await found(scene, RUNNING)) == {runs, waits, stopped}


async def test_operations_are_found_newest_first_by_state_and_page(scene: Scene) -> None:
    ids = [await begun(scene) for _ in range(5)]
    await moved(scene, ids[1], state=DONE)
    await moved(scene, ids[3], state=DONE)
    assert await found(scene) == ids[::-1]
    assert await found(scene, DONE) == [ids[3], ids[1]]
    assert await found(scene, WAITING, STOPPED) == []
    find = scene.store.operations.find
    assert [one.id for one in await find(limit=2)] == [ids[4], ids[3]]
    assert [one.id for one in await find(limit=2, before=ids[3])] == [ids[2], ids[1]]
    assert [one.id for one in await find(states=[DONE], before=ids[3])] == [ids[1]]
    assert [one.id for one in await find(ids[:2])] == [ids[1], ids[0]]
    assert await find([new_operation_id()]) == []


async def test_a_poll_tells_whether_an_operation_is_to_run(scene: Scene) -> None:
    assert not await polled(scene)
    operation = await begun(scene)
    assert await polled(scene)
    await scene.store.operations.stop([operation])
    assert not await polled(scene)
    await scene.store.operations.go_on([operation])
    assert await polled(scene)
    await moved(scene, operation, state=DONE)
    assert not await polled(scene)


async def test_old_operations_are_pruned_unless_they_run(scene: Scene) -> None:
    runs, old, older, young = [await begun(scene) for _ in range(4)]
    for one in (old, older):
        await moved(scene, one, state=DONE, kept="jobs")
    scene.clock.advance(100)
    await moved(scene, young, state=WAITING)
    assert await scene.store.operations.prune(10, 200.0) == 0
    assert await scene.store.operations.prune(1, 100.0) == 1
    assert await scene.store.operations.prune(10, 100.0) == 1
    assert await found(scene) == [young, runs]
    assert await scene.store.operations.kept(old, 0, 10) == []


class NewerRequest(OperationRequest, frozen=True, kw_only=True):
    """What a later release might write."""

    dearest_first: bool = True


class NewerProgress(OperationProgress, frozen=True):
    """What a later release might write."""

    skipped: int = 1


async def test_what_only_a_newer_release_can_read_is_listed_and_spoils_no_other(
    scene: Scene,
) -> None:
    known = await begun(scene)
    asked = await begun(scene, NewerRequest(verb="move", dearest_first=False))
    went = await begun(scene)
    assert await moved(scene, went, progress=NewerProgress(changed=5, skipped=2))
    listed = {one.id: one.request.verb for one in await scene.store.operations.find()}
    assert listed == {known: "move", asked: UNREADABLE, went: UNREADABLE}
    assert await scene.store.operations.stop([asked, went]) == sorted([asked, went])
