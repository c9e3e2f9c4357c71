"""The shop's own tests: real parts, a clock that the test moves, and no mail.

python -m pytest shop
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.testing import Harness, SyncHarness
from shop.app import app, request_id
from shop.orders import OutOfStock, connect, place_order, place_order_async
from shop.tasks import Mailer, announce, count_shipped, database, mailer, ship


class FakeMailer(Mailer):
    def __init__(self) -> None:
        self.down = False
        self.sent: list[tuple[str, str, str]] = []

    async def send(self, to: str, text: str) -> None:
        if self.down:
            raise ConnectionError("the mail service is down")
        self.sent.append((to, text, request_id.get()))


class Scene:
    """A database of the test's own, and what stands in for the resources."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "shop.db")
        self.url = f"sqlite:///{self.path}"
        self.mail = FakeMailer()
        self.resources: dict[Callable[..., object], object] = {
            database: self.path,
            mailer: self.mail,
        }

    def shipped(self, db: sqlite3.Connection) -> list[int]:
        return [order for (order,) in db.execute("select id from orders where shipped")]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def db(scene: Scene) -> Iterator[sqlite3.Connection]:
    with closing(connect(scene.path)) as db:
        yield db


def test_an_order_is_shipped_and_announced(scene: Scene, db: sqlite3.Connection) -> None:
    with SyncHarness(app, url=scene.url, resources=scene.resources) as harness:
        request_id.set("r7")
        order = place_order(db, "ann@example.org", "chair")
        harness.assert_enqueued(ship, order)
        harness.drain()
        assert scene.shipped(db) == [order]
        assert scene.mail.sent == [("ann@example.org", "your chair is on its way", "r7")]


def test_an_order_that_cannot_be_placed_leaves_no_job(scene: Scene, db: sqlite3.Connection) -> None:
    with SyncHarness(app, url=scene.url) as harness:
        with pytest.raises(OutOfStock):
            place_order(db, "ann@example.org", "unicorn")
        harness.assert_not_enqueued(ship)


@pytest.mark.asyncio
async def test_a_mail_that_fails_is_sent_a_second_later(
    scene: Scene, db: sqlite3.Connection
) -> None:
    async with Harness(app, url=scene.url, resources=scene.resources) as harness:
        await place_order_async(db, "bob@example.org", "lamp")
        scene.mail.down = True
        drained = await harness.drain(raises=False)
        assert [end.task for end in drained.failures] == [announce.name]
        scene.mail.down = False
        await harness.advance(seconds=1)
        await harness.drain()
        assert len(scene.mail.sent) == 1


@pytest.mark.asyncio
async def test_every_morning_tells_what_was_shipped(scene: Scene, db: sqlite3.Connection) -> None:
    night = datetime(2030, 1, 1, 4, tzinfo=UTC)
    async with Harness(app, url=scene.url, start=night, resources=scene.resources) as harness:
        await place_order_async(db, "bob@example.org", "lamp")
        await harness.drain()
        await harness.advance(hours=1)
        drained = await harness.drain()
        assert [job.result for job in drained.of(count_shipped).jobs] == ["2030-01-01: 1 shipped"]


@pytest.mark.asyncio
async def test_an_order_that_was_deleted_meanwhile_fails_for_good(scene: Scene) -> None:
    connect(scene.path).close()
    async with Harness(app, resources=scene.resources) as harness:
        with pytest.raises(Exception, match="there is no order 5"):
            await harness.run(ship, 5)
