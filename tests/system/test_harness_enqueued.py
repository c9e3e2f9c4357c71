"""What `assert_enqueued` compares: arguments by the task's codec, options as `using` says them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from unittest.mock import ANY

import msgspec
import pydantic
import pytest

from holdfast import App, BadArguments, Retry, UniqueBy
from holdfast.testing import Harness

app = App("postgres://nobody.invalid/nothing")  # a harness never touches it
START = datetime(2030, 1, 1, tzinfo=UTC)


class Mail(pydantic.BaseModel):
    to: str = pydantic.Field(alias="To")
    cc: list[str] = []


@dataclass
class Place:
    row: int
    name: str = "a"


class Item(msgspec.Struct):
    price: Decimal


class Colour(Enum):
    RED = 1
    OTHER = "other"


@app.task(queue="mail")
async def send(mail: Mail, colour: Colour = Colour.RED) -> None: ...


@app.task()
async def place(at: Place, items: list[Item], when: datetime | None = None) -> None: ...


@app.task(retry=3)
async def ping(to: str, times: int = 1) -> None: ...


async def test_models_are_compared_by_the_codec_of_the_task() -> None:
    async with Harness(app) as harness:
        await send.enqueue(Mail(To="a"), Colour.OTHER)
        await harness.assert_enqueued(send, mail=Mail(To="a"))
        await harness.assert_enqueued(send, Mail(To="a"), Colour.OTHER)
        await harness.assert_enqueued(send, mail={"To": "a", "cc": []})
        await harness.assert_not_enqueued(send, mail=Mail(To="b"))
        await harness.assert_not_enqueued(send, colour=Colour.RED)
        await place.enqueue(Place(1), [Item(Decimal("1.50"))], when=START)
        await harness.assert_enqueued(place, Place(1), when=START)
        await harness.assert_enqueued(place, items=[Item(Decimal("1.50"))])
        await harness.assert_not_enqueued(place, at=Place(1, "b"))


async def test_an_argument_that_was_left_out_has_its_default() -> None:
    async with Harness(app) as harness:
        await ping.enqueue("a")
        await harness.assert_enqueued(ping, times=1)
        await harness.assert_not_enqueued(ping, times=2)


async def test_a_value_without_a_json_form_is_compared_as_python_does() -> None:
    async with Harness(app) as harness:
        await ping.enqueue("a", 5)
        await harness.assert_enqueued(ping, to=ANY, times=pytest.approx(5.0))
        await harness.assert_not_enqueued(ping, times=pytest.approx(6.0))


async def test_an_argument_that_the_task_does_not_take_is_refused() -> None:
    async with Harness(app) as harness:
        await ping.enqueue("a")
        for check in (harness.assert_enqueued, harness.assert_not_enqueued):
            with pytest.raises(BadArguments, match=r"'too'.*it takes \(to: str, times: int = 1\)"):
                await check(ping, too="a")


async def test_options_are_expected_as_they_are_given_at_an_enqueue() -> None:
    async with Harness(app, start=START) as harness:
        await ping.using(
            queue="bulk", delay=300, priority=-5, tags=["a", "b"], unique="k", headers={"x": "1"}
        ).enqueue("a")
        same: list[dict[str, Any]] = [
            {"queue": "bulk"},
            {"delay": timedelta(minutes=5)},
            {"run_at": START + timedelta(minutes=5)},
            {"priority": -5},
            {"tags": ["b"]},
            {"unique": "k"},
            {"unique": UniqueBy(key="k")},
            {"headers": {"x": "1"}},
            {"retry": 3},
            {"queue": "bulk", "tags": ["a"], "delay": 300},
        ]
        other: list[dict[str, Any]] = [
            {"queue": "default"},  # also the task's own default, if `using` names it
            {"delay": 200},
            {"delay": 0},
            {"run_at": START},
            {"priority": 0},
            {"tags": ["c"]},
            {"unique": "other"},
            {"unique": None},
            {"headers": {"x": "2"}},
            {"retry": Retry.never()},
            {"deadline": 60},
            {"timeout": 5},
        ]
        for using in same:
            await harness.assert_enqueued(ping.using(**using), to="a")
        for using in other:
            await harness.assert_not_enqueued(ping.using(**using), to="a")


async def test_times_may_differ_by_the_tolerance() -> None:
    async with Harness(app, start=START, tolerance=10) as harness:
        await ping.using(delay=300, deadline=600).enqueue("a")
        await harness.assert_enqueued(ping.using(delay=309))
        await harness.assert_not_enqueued(ping.using(delay=311))
        await harness.assert_enqueued(ping.using(deadline=START + timedelta(seconds=605)))
        await harness.assert_not_enqueued(ping.using(start_by=600))
        await harness.advance(minutes=5)
        await harness.assert_enqueued(ping.using(run_at=START + timedelta(minutes=5)))
        await harness.assert_not_enqueued(ping.using(run_at=START + timedelta(minutes=6)))


async def test_a_key_of_chosen_arguments_is_made_from_the_arguments_of_the_job() -> None:
    by = UniqueBy(args=("to",))
    async with Harness(app) as harness:
        await ping.using(unique=by).enqueue("a", 2)
        await harness.assert_enqueued(ping.using(unique=by), times=2)
        await harness.assert_not_enqueued(ping.using(unique=UniqueBy(args=("times",))))


async def test_the_error_lists_what_there_is_and_what_is_other_about_it() -> None:
    async with Harness(app) as harness:
        await ping.enqueue("a")
        await ping.using(queue="bulk", tags=["t"]).enqueue("b", 2)
        await harness.drain()
        await ping.using(queue="bulk", tags=["t"], delay=60).enqueue("b", 2)
        with pytest.raises(AssertionError) as caught:
            await harness.assert_enqueued(ping.using(queue="default"), to="b", times=3)
        text = str(caught.value)
        assert "ping.using(queue='default')(to='b', times=3)" in text
        assert "queue='bulk'" in text
        assert "tags=['t']  ← other times, queue" in text
        assert "and 2 have ended" in text


async def test_a_task_that_is_known_by_name_only_is_compared_too() -> None:
    named = app.task_named("elsewhere.charge")
    async with Harness(app) as harness:
        await named.using(queue="money").enqueue(order=1, card=Item(Decimal("2")))
        await harness.assert_enqueued(named.using(queue="money"), order=1)
        await harness.assert_enqueued(named, card={"price": "2"})
        await harness.assert_not_enqueued(named, order=2)
