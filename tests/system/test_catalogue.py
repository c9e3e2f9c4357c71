"""The catalogue: workers publish their tasks, once, and programs without the code read them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from holdfast import App, Secret, StoreError
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.events import Event, Events
from holdfast.insights.catalogue import KIND, Catalogue, CatalogueEntry
from holdfast.insights.publishing import KEPT_SECONDS, Publisher
from holdfast.job.redaction import UNKNOWN, Rules
from holdfast.store.contract.shelf import VALUE_BYTES, Put
from holdfast.store.contract.store import Store
from holdfast.testing import Harness
from tests.conformance.builders import new_job
from tests.support.waiting import wait_until


def shop() -> App:
    app = App("sqlite://")

    @app.task(name="pay", also=["charge"], queue="money", redact=("customer.email",))
    async def pay(customer: dict[str, str], hint: Annotated[str, Secret] = "s3cret") -> None:
        """Charge a customer.

        More than once does no harm.
        """

    @app.task(name="greet")
    async def greet(name: str) -> None: ...

    return app


def publisher(store: Store, app: App) -> Publisher:
    return Publisher(store, Events(), app.tasks_with_queues)


async def entry(store: Store, name: str) -> CatalogueEntry:
    [found] = await store.shelf.get(KIND, [name])
    return msgspec.json.decode(found.value, type=CatalogueEntry)


async def test_every_name_of_a_task_is_published(store: Store) -> None:
    assert await publisher(store, shop()).publish() == 3
    paid = await entry(store, "pay")
    assert (paid.queue, paid.doc) == ("money", "Charge a customer.")
    assert set(paid.redact) == {("customer", "email"), ("hint",)}
    assert await entry(store, "charge") == paid
    assert paid.schema is not None
    [arguments] = paid.schema["$defs"].values()
    assert arguments["required"] == ["customer"]
    assert arguments["properties"]["hint"] == {"type": "string"}, "no default: it may be a secret"


async def test_nothing_is_written_that_the_catalogue_says_already(
    store: Store, clock: ManualClock
) -> None:
    await publisher(store, shop()).publish()
    assert await publisher(store, shop()).publish() == 0
    clock.advance(KEPT_SECONDS * 0.6)
    assert await publisher(store, shop()).publish() == 3, "it would be gone soon"
    clock.advance(KEPT_SECONDS * 0.6)
    [found] = await store.shelf.get(KIND, ["pay"])
    assert found.revision == 2


async def test_a_task_that_changed_is_published_again(store: Store) -> None:
    await publisher(store, shop()).publish()
    app = App("sqlite://")

    @app.task(name="greet", redact=("name",))
    async def greet(name: str) -> None: ...

    assert await publisher(store, app).publish() == 1
    assert (await Catalogue(store.shelf).rules(["greet", "pay"]))["greet"] == Rules((("name",),))


async def test_a_worker_publishes_its_tasks_at_its_start() -> None:
    app = shop()
    async with Harness(app) as harness:
        shelf = harness.app.store.shelf
        assert [one.key for one in await shelf.find(KIND, 10)] == ["charge", "greet", "pay"]
    async with app, app.worker({"default": 1}) as worker:

        async def published() -> bool:
            return len(await app.store.shelf.find(KIND, 10)) == 3

        await wait_until(published, 5, "the tasks are published")
        await worker.drain()


async def test_a_worker_runs_its_jobs_although_nothing_can_be_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, told = shop(), list[Event]()
    app.events.subscribe(told.append, "catalogue.publish_failed")

    async def refuse(*_: Any) -> None:
        raise StoreError("no room on the shelf")

    async with app:
        monkeypatch.setattr(app.store.shelf, "put", refuse)
        job = await app.task_named("greet").enqueue(name="Ada")
        async with app.worker({"default": 1}) as worker:
            await worker.drain()
            await wait_until(lambda: bool(told), 5, "the failure is told")
        assert await job.result(1) is None
    assert told[0].fields["error"] == "no room on the shelf"


async def test_a_schema_that_is_too_large_is_left_out(store: Store) -> None:
    app = App("sqlite://")
    names = [f"{'field' * 20}_{n}" for n in range(VALUE_BYTES // 100)]
    wide_model = msgspec.defstruct("Wide", [(name, str) for name in names])

    @app.task(name="wide", redact=("it.x",))
    async def wide(it: Any) -> None: ...

    wide.handler.signature._sent = wide_model
    assert await publisher(store, app).publish() == 1
    assert (await entry(store, "wide")).schema is None
    assert (await Catalogue(store.shelf).rules(["wide"]))["wide"].paths == (("it", "x"),)


async def test_a_program_knows_its_own_tasks_without_a_catalogue(store: Store) -> None:
    app = shop()
    catalogue = Catalogue(store.shelf, app.registry)
    rules = await catalogue.rules(["pay", "charge", "ghost"])
    assert rules["pay"] == rules["charge"] != UNKNOWN
    assert rules["ghost"] == UNKNOWN


async def test_a_document_that_nobody_can_read_shows_nothing(store: Store) -> None:
    await store.shelf.put(KIND, [Put(key="pay", value="{", expires_in=60.0)])
    assert await Catalogue(store.shelf).rules(["pay"]) == {"pay": UNKNOWN}


async def test_what_was_read_is_believed_for_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("holdfast.insights.catalogue.time.monotonic", lambda: now[0])
    catalogue = Catalogue(store.shelf)
    assert await catalogue.rules(["pay"]) == {"pay": UNKNOWN}
    await publisher(store, shop()).publish()
    assert await catalogue.rules(["pay"]) == {"pay": UNKNOWN}
    now[0] += 31
    assert (await catalogue.rules(["pay"]))["pay"] != UNKNOWN


async def test_a_client_shows_jobs_by_the_catalogue(store: Store) -> None:
    text = '{"customer":{"email":"cnry","name":"Ada"},"hint":"cnry2"}'
    known, unknown = new_job("pay", args=text), new_job("ghost", args=text)
    await store.jobs.insert([known, unknown])
    await publisher(store, shop()).publish()
    client = Client(store)
    shown = await client.shown.page(await client.page())
    args = {job.task: job.args_json for job in shown.jobs}
    assert args["pay"] == '{"customer":{"email":"***","name":"Ada"},"hint":"***"}'
    assert args["ghost"] == '{"customer":"<object>","hint":"<text>"}'
    assert (await client.get(known.id)).args_json == text, "a program is trusted"
    await client.aclose()
