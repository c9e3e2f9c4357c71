"""Enqueue: one caller, one job after the other; and many jobs in one call."""

from __future__ import annotations

import time

from bench.measure import Contender, Figure, Sample, Workload
from bench.places import Place, store_url
from bench.program import program

SINGLE = 2_000
BULK = 20_000


def single_enqueue(place: Place) -> Workload:
    contender = Contender("holdfast", lambda: one_by_one(place))
    return Workload("single enqueue", place.name, Figure.RATE, (contender,))


def bulk_enqueue(place: Place) -> Workload:
    contender = Contender("holdfast", lambda: all_at_once(place))
    return Workload("bulk enqueue", place.name, Figure.RATE, (contender,))


async def one_by_one(place: Place) -> Sample:
    async with store_url(place) as url:
        app, noop = program(url, lambda number: None)
        async with app:
            await noop.enqueue(-1)
            began = time.perf_counter()
            for number in range(SINGLE):
                await noop.enqueue(number)
            return {"rate": SINGLE / (time.perf_counter() - began)}


async def all_at_once(place: Place) -> Sample:
    async with store_url(place) as url:
        app, noop = program(url, lambda number: None)
        async with app:
            await noop.enqueue(-1)
            began = time.perf_counter()
            await noop.enqueue_many((number,) for number in range(BULK))
            return {"rate": BULK / (time.perf_counter() - began)}
