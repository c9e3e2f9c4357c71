"""Scrapes of a store through a worker's health port: shared, bounded in time, honest in trouble."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from holdfast.worker.probes import Address, ProbeServer
from holdfast.worker.scraping import Scraper
from tests.conformance.builders import new_job
from tests.support.waiting import wait_until
from tests.unit.test_metrics import by, read

HEALTH = {"live": True, "ready": True, "started": True}


class Opened:
    """Gives siblings of a store, and counts how often one was asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.count = 0

    def __call__(self) -> Store:
        self.count += 1
        return self._store.sibling()


@contextmanager
def probes_of(scraper: Scraper | None) -> Iterator[str]:
    with ProbeServer(Address("127.0.0.1", 0), lambda: HEALTH, scraper) as server:
        yield f"http://{server.address}"


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scrapes() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "holdfast-scrape"]


async def test_many_who_ask_at_once_share_one_reading(sealed_store: Store) -> None:
    await sealed_store.jobs.insert([new_job()])
    opened = Opened(sealed_store)
    scraper = Scraper(opened, kept=3600)
    answers = await asyncio.gather(*(asyncio.to_thread(scraper.figures) for _ in range(8)))
    assert opened.count == 1
    assert all(one is answers[0] for one in answers)
    assert answers[0] is not None
    assert [tally.jobs for tally in answers[0].tallies] == [1]


async def test_figures_are_read_again_when_they_are_old(sealed_store: Store) -> None:
    opened = Opened(sealed_store)
    scraper = Scraper(opened, kept=0.0)
    for number in (1, 2):
        await asyncio.to_thread(scraper.figures)
        assert opened.count == number


@pytest.mark.parametrize("scheme", ["postgres", "valkey"])
async def test_a_silent_store_is_told_as_down_in_time(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that takes connections and never says a word."""
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"{scheme}://u@127.0.0.1:{silent.getsockname()[1]}/0"
    scraper = Scraper(lambda: open_store(url), timeout=0.5, kept=0.0)
    with silent, probes_of(scraper) as base:
        code, text = await asyncio.to_thread(ask, f"{base}/metrics/store")
        assert code == 200, "a scrape that fails would hide that the store is down"
        assert read(text)["holdfast_store_up"] == {by(store=scheme): 0}
        code, text = await asyncio.to_thread(ask, f"{base}/scale")
        assert (code, json.loads(text)) == (503, {"error": "the store does not answer"})
        assert (await asyncio.to_thread(ask, f"{base}/live"))[0] == 200
        assert (await asyncio.to_thread(ask, f"{base}/metrics"))[0] == 200
        assert len([one for one in caplog.messages if "cannot be scraped" in one]) == 1
    await wait_until(lambda: not scrapes(), 60, "the reading that nobody waits for ends")


async def test_a_failed_answer_is_not_kept_for_ever() -> None:
    urls = ["postgres://u@127.0.0.1:1/none"]
    scraper = Scraper(lambda: open_store(urls[-1]), timeout=60, kept=0.0)
    assert await asyncio.to_thread(scraper.figures) is None
    urls.append("sqlite://")
    assert await asyncio.to_thread(scraper.figures) is not None


async def test_a_defect_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> dict[str, object]:
        raise RuntimeError("no such fact")

    with ProbeServer(Address("127.0.0.1", 0), broken) as server:
        with pytest.raises((ConnectionError, urllib.error.URLError)):
            await asyncio.to_thread(ask, f"http://{server.address}/metrics")
        told = "a probe or a scrape was not answered"
        await wait_until(lambda: told in caplog.messages, 30, "the defect is logged")


async def test_without_a_store_only_the_worker_is_told() -> None:
    with probes_of(None) as base:
        assert (await asyncio.to_thread(ask, f"{base}/metrics"))[0] == 200
        code, said = await asyncio.to_thread(ask, f"{base}/scale")
    assert (code, json.loads(said)["paths"][-1]) == (404, "/metrics")


async def test_a_head_has_no_body(sealed_store: Store) -> None:
    scraper = Scraper(sealed_store.sibling)

    def head(url: str) -> tuple[Any, bytes]:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read()

    with probes_of(scraper) as base:
        kind, body = await asyncio.to_thread(head, f"{base}/metrics/store")
    assert (kind.partition(";")[0], body) == ("text/plain", b"")
    assert scraper.kind == sealed_store.kind
