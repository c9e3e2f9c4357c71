"""The shelf: small documents, written by compare-and-swap and gone when their time is over."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import BadOption
from holdfast.store.contract.shelf import VALUE_BYTES, Document, Put
from tests.conformance.builders import Scene
from tests.support.backends import siblings

KIND = "task"


async def put(
    scene: Scene,
    key: str,
    value: str = "1",
    revision: int | None = None,
    expires_in: float | None = 60.0,
) -> int | None:
    document = Put(key=key, value=value, revision=revision, expires_in=expires_in)
    [written] = await scene.store.shelf.put(KIND, [document])
    return written


async def read(scene: Scene, key: str) -> Document | None:
    found = await scene.store.shelf.get(KIND, [key])
    return found[0] if found else None


async def keys(scene: Scene, limit: int = 100, after: str | None = None) -> list[str]:
    return [one.key for one in await scene.store.shelf.find(KIND, limit, after)]


async def test_a_document_is_what_was_put(scene: Scene) -> None:
    assert await put(scene, "mail.send:ß", '{"doc":"Grüße\\u0000"}', expires_in=None) == 1
    assert await read(scene, "mail.send:ß") == Document(
        kind=KIND, key="mail.send:ß", value='{"doc":"Grüße\\u0000"}', revision=1, expires_at=None
    )
    await scene.store.shelf.delete(KIND, ["mail.send:ß"])


async def test_every_put_raises_the_revision(scene: Scene) -> None:
    assert [await put(scene, "a", str(n)) for n in range(3)] == [1, 2, 3]
    found = await read(scene, "a")
    assert found is not None
    assert (found.value, found.revision) == ("2", 3)


async def test_a_put_that_names_a_revision_needs_that_one(scene: Scene) -> None:
    assert await put(scene, "a", "new", revision=1) is None  # there is none to change
    assert await read(scene, "a") is None
    assert await put(scene, "a", "first", revision=0) == 1
    assert await put(scene, "a", "second", revision=0) is None
    assert await put(scene, "a", "third", revision=2) is None
    assert await put(scene, "a", "fourth", revision=1) == 2
    found = await read(scene, "a")
    assert found is not None
    assert (found.value, found.revision) == ("fourth", 2)


async def test_one_refused_put_leaves_the_others_of_its_batch(scene: Scene) -> None:
    await put(scene, "b")
    batch = [Put(key=key, value="2", revision=0, expires_in=60.0) for key in ("c", "b", "a")]
    assert await scene.store.shelf.put(KIND, batch) == [1, None, 1]
    assert [one.value for one in await scene.store.shelf.find(KIND, 10)] == ["2", "1", "2"]


async def test_of_two_programs_that_swap_at_once_one_wins(scene: Scene) -> None:
    await put(scene, "a")
    async with siblings(scene.store, 4) as stores:
        for revision in range(1, 4):
            answers = await asyncio.gather(
                *(
                    one.shelf.put(KIND, [Put(key="a", value="2", revision=revision, expires_in=9)])
                    for one in stores
                )
            )
            assert sorted(answers, key=str) == [[revision + 1], [None], [None], [None]]


async def test_of_two_programs_that_make_it_at_once_one_wins(scene: Scene) -> None:
    async with siblings(scene.store, 4) as stores:
        new = [Put(key="a", value="1", revision=0, expires_in=9)]
        answers = await asyncio.gather(*(one.shelf.put(KIND, new) for one in stores))
    assert sorted(answers, key=str) == [[1], [None], [None], [None]]


async def test_documents_are_found_in_the_order_of_their_bytes(scene: Scene) -> None:
    for key in ("b", "ä", "Z", "a:b", "a"):
        await put(scene, key)
    assert await keys(scene) == ["Z", "a", "a:b", "b", "ä"]
    assert await keys(scene, limit=2) == ["Z", "a"]
    assert await keys(scene, limit=2, after="a") == ["a:b", "b"]
    assert await keys(scene, after="ä") == []
    assert await keys(scene, after="aa") == ["b", "ä"]  # a key that is not there


async def test_kinds_do_not_meet(scene: Scene) -> None:
    await put(scene, "a")
    await scene.store.shelf.put("view", [Put(key="a", value="v", expires_in=9)])
    assert [one.value for one in await scene.store.shelf.get("view", ["a"])] == ["v"]
    assert await scene.store.shelf.delete("view", ["a"]) == ["a"]
    assert await keys(scene) == ["a"]


async def test_a_document_is_gone_when_its_time_is_over(scene: Scene) -> None:
    await put(scene, "a", expires_in=10.0)
    scene.clock.advance(9.5)
    found = await read(scene, "a")
    assert found is not None
    assert found.expires_at is not None
    assert (found.expires_at - scene.clock.now).total_seconds() == 0.5
    scene.clock.advance(0.5)
    assert await read(scene, "a") is None
    assert await keys(scene) == []
    assert await put(scene, "a", revision=1) is None
    assert await scene.store.shelf.delete(KIND, ["a"]) == []


@pytest.mark.parametrize("revision", [None, 0])
async def test_a_document_begins_again_where_one_has_expired(
    scene: Scene, revision: int | None
) -> None:
    await put(scene, "a", expires_in=1.0)
    await put(scene, "a", expires_in=1.0)
    scene.clock.advance(1)
    assert await put(scene, "a", "new", revision) == 1
    assert await scene.store.shelf.prune(10) == 0
    found = await read(scene, "a")
    assert found is not None
    assert found.value == "new"


async def test_a_put_decides_anew_how_long_a_document_stays(scene: Scene) -> None:
    await put(scene, "a", expires_in=1.0)
    await put(scene, "a", expires_in=None)
    scene.clock.advance(2)
    assert await scene.store.shelf.prune(10) == 0
    assert await keys(scene) == ["a"]
    await scene.store.shelf.delete(KIND, ["a"])


async def test_prune_removes_what_is_over_a_batch_at_a_time(scene: Scene) -> None:
    for n in range(5):
        await put(scene, f"a:{n}", expires_in=1.0 + n)
    await scene.store.shelf.put("view", [Put(key="a", value="v", expires_in=1.5)])
    scene.clock.advance(4)
    assert [await scene.store.shelf.prune(3) for _ in range(3)] == [3, 2, 0]
    assert await keys(scene) == ["a:4"]


async def test_delete_answers_what_was_there(scene: Scene) -> None:
    await put(scene, "b")
    await put(scene, "a")
    assert await scene.store.shelf.delete(KIND, ["b", "x", "a"]) == ["a", "b"]
    assert await scene.store.shelf.delete(KIND, ["b", "x", "a"]) == []
    assert await keys(scene) == []
    assert await put(scene, "a") == 1


async def test_empty_batches_do_nothing(scene: Scene) -> None:
    assert await scene.store.shelf.put(KIND, []) == []
    assert await scene.store.shelf.get(KIND, []) == []
    assert await scene.store.shelf.delete(KIND, []) == []


async def test_a_value_may_fill_its_room_and_not_more(scene: Scene) -> None:
    assert await put(scene, "a", "ß" * (VALUE_BYTES // 2)) == 1
    with pytest.raises(BadOption, match=r"'a' must be at most 65536 bytes, got '65538 bytes'"):
        await put(scene, "a", "ß" * (VALUE_BYTES // 2 + 1))


@pytest.mark.parametrize("key", ["", "k" * 201, "a\x00b"])
async def test_a_key_that_a_store_cannot_keep_is_refused(scene: Scene, key: str) -> None:
    with pytest.raises(BadOption, match="key of a document must be 1 to 200 characters"):
        await put(scene, key)


async def test_a_key_twice_in_one_batch_is_refused(scene: Scene) -> None:
    with pytest.raises(BadOption, match="keys of a put must be distinct"):
        await scene.store.shelf.put(KIND, [Put(key="a", value="1"), Put(key="a", value="2")])
    assert await keys(scene) == []


@pytest.mark.parametrize("kind", ["", "Task", "a:b", "k" * 33])
async def test_a_kind_is_a_short_word(scene: Scene, kind: str) -> None:
    with pytest.raises(BadOption, match="kind of a document must be"):
        await scene.store.shelf.put(kind, [Put(key="a", value="1")])
