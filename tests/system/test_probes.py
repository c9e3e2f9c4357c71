"""Probes of a worker: over HTTP, and told to systemd. Each worker here is a real process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support.backends import opened
from tests.support.shell import (
    SHOP,
    STARTS,
    Command,
    Shell,
    ended,
    enqueue,
    wait_for_state,
    wait_for_workers,
)
from tests.support.waiting import wait_until
from tests.unit.test_metrics import Labels, by, read

BLOCK = """

@app.task(name="block")
async def block(seconds: float) -> None:
    import time

    time.sleep(seconds)
"""


@pytest.fixture
async def store(shell: Shell) -> AsyncIterator[Store]:
    async with opened(shell.url) as store:
        yield store


class Probes:
    """The probes of one process, asked as a supervisor asks them."""

    def __init__(self, process: Command) -> None:
        found = (re.search(r"probes at (http://\S+)/live", line) for line in process.told())
        self._url = next(match[1] for match in found if match)

    def ask(self, path: str) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=STARTS) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def scrape(self, path: str = "metrics") -> dict[str, dict[Labels, float]]:
        with urllib.request.urlopen(f"{self._url}/{path}", timeout=STARTS) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return read(answer.read().decode())

    async def wait_for(self, path: str, status: int) -> dict[str, Any]:
        said: dict[str, Any] = {}

        async def comes() -> bool:
            nonlocal said
            code, said = await asyncio.to_thread(self.ask, path)
            return code == status

        await wait_until(comes, STARTS, f"/{path} answers {status}")
        return said


async def test_probes_are_answered_by_what_the_worker_is_doing(shell: Shell, store: Store) -> None:
    job = await enqueue(store, "sleep", seconds=600)
    worker = shell.start("worker", "shop:app", "--health", "0", "--grace", "1h")
    probes = Probes(worker)
    await probes.wait_for("startup", 200)
    await wait_for_state(store, job, JobState.RUNNING)
    ready = await probes.wait_for("ready", 200)
    assert (ready["running"], ready["leaving"]) == (1, "")
    assert "store_says" not in ready
    assert probes.ask("live")[0] == 200
    paths = ["/live", "/ready", "/startup", "/metrics", "/metrics/store", "/scale"]
    assert probes.ask("jobs") == (404, {"paths": paths})
    worker.send_signal(signal.SIGTERM)
    leaving = await probes.wait_for("ready", 503)
    assert leaving["leaving"] == "stop"
    assert [probes.ask(path)[0] for path in ("live", "startup")] == [200, 200]
    worker.send_signal(signal.SIGTERM)
    assert ended(worker)[0] == 0


async def test_probes_are_answered_while_the_event_loop_is_blocked(
    shell: Shell, store: Store
) -> None:
    shell.app.write_text(SHOP.format(url=shell.url) + BLOCK)
    worker = shell.start("worker", "shop:app", "--health", "127.0.0.1:0", "--max-block", "1h")
    probes = Probes(worker)
    await probes.wait_for("ready", 200)
    await enqueue(store, "block", seconds=5)

    async def lags() -> bool:
        code, said = await asyncio.to_thread(probes.ask, "live")
        return code == 200 and said["loop_lag"] > 0.5

    await wait_until(lags, STARTS, "the probe tells of the lag")


async def test_a_worker_tells_metrics_of_itself_and_of_its_store(
    shell: Shell, store: Store
) -> None:
    job = await enqueue(store, "sleep", seconds=600)
    worker = shell.start("worker", "shop:app", "--health", "0", "--queues", "default:7")
    probes = Probes(worker)
    await probes.wait_for("ready", 200)
    await wait_for_state(store, job, JobState.RUNNING)

    async def is_busy() -> bool:
        found = await asyncio.to_thread(probes.scrape)
        return found["holdfast_worker_slots"][by(state="busy")] == 1

    await wait_until(is_busy, STARTS, "the slot is told as busy")
    own = probes.scrape()
    assert own["holdfast_worker_slots"][by(state="free")] == 6
    assert own["holdfast_worker_claims_total"] == {(): 1}
    assert by(reconciler="promotion") in own["holdfast_worker_reconciler_errors_total"]
    assert not any(name.startswith(("holdfast_jobs", "holdfast_queue")) for name in own)
    shared = probes.scrape("metrics/store")
    assert shared["holdfast_store_up"] == {by(store="sqlite"): 1}
    assert shared["holdfast_jobs_total"][by(queue="default", task="sleep", what="claimed")] == 1
    slots = shared["holdfast_slots"]
    assert sum(slots[by(queue="default", state=each)] for each in ("used", "free")) == 7
    code, said = probes.ask("scale?queue=default")
    assert (code, said["running"], said["work"], said["slots"]) == (200, 1, 1, 7)
    assert probes.ask("scale")[1]["queues"]["default"] == said


async def test_metrics_are_told_while_the_event_loop_is_blocked(shell: Shell, store: Store) -> None:
    shell.app.write_text(SHOP.format(url=shell.url) + BLOCK)
    worker = shell.start("worker", "shop:app", "--health", "127.0.0.1:0", "--max-block", "1h")
    probes = Probes(worker)
    await probes.wait_for("ready", 200)
    job = await enqueue(store, "block", seconds=600)
    await wait_for_state(store, job, JobState.RUNNING)

    async def lags() -> bool:
        found = await asyncio.to_thread(probes.scrape)
        return found["holdfast_worker_loop_lag_seconds"][()] > 0.5

    await wait_until(lags, STARTS, "the lag is told")
    assert probes.scrape("metrics/store")["holdfast_store_up"] == {by(store="sqlite"): 1}


async def test_one_address_answers_for_all_processes(shell: Shell, store: Store) -> None:
    shell.environment = {"HOLDFAST_HEALTH": "127.0.0.1:0"}
    parent = shell.start("worker", "shop:app", "--processes", "2")
    probes = Probes(parent)
    said = await probes.wait_for("ready", 200)
    pids = await wait_for_workers(store, 2)
    assert {one["pid"] for one in said["processes"].values()} == pids
    assert probes.scrape()["holdfast_worker_ready"] == {by(process="1"): 1, by(process="2"): 1}
    assert probes.scrape("metrics/store")["holdfast_workers"][by(state="alive")] == 2
    victim = min(pids)
    os.kill(victim, signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)
    said = await probes.wait_for("ready", 503)
    assert (said["live"], said["started"]) == (True, True), "the parent starts it again"
    await probes.wait_for("ready", 200)
    parent.send_signal(signal.SIGTERM)
    assert ended(parent)[0] == 0


def test_an_address_that_is_taken_or_wrong_is_told_at_once(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, _, err = shell.run("worker", "shop:app", "--health", port)
        assert code == 1
        assert f"no probes at 127.0.0.1:{port}: Address already in use" in err
        assert "Traceback" not in err
    code, _, err = shell.run("worker", "shop:app", "--health", "everywhere")
    assert (code, "health must be HOST:PORT or a port" in err) == (2, True)


# systemd ------------------------------------------------------------------------------------


class Systemd:
    """A socket on which a service tells how it is."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(STARTS)

    def wait_for(self, word: str) -> list[str]:
        """What was told up to this word, which is the last."""
        heard: list[str] = []
        while word not in heard:
            heard += self._socket.recv(4096).decode().splitlines()[:1]
        return heard

    def close(self) -> None:
        self._socket.close()
        if not self._address.startswith("\0"):
            Path(self._address).unlink()


@pytest.mark.parametrize("kind", ["path", "abstract"])
async def test_systemd_is_told_and_its_watchdog_is_fed(
    shell: Shell, store: Store, kind: str
) -> None:
    name = f"holdfast-test-{os.getpid()}"
    path = name if kind == "abstract" else f"/tmp/{name}.sock"
    systemd = Systemd(f"\0{path}" if kind == "abstract" else path)
    try:
        shell.environment = {
            "NOTIFY_SOCKET": f"@{path}" if kind == "abstract" else path,
            "WATCHDOG_USEC": "1000000",
        }
        worker = shell.start("worker", "shop:app")
        assert systemd.wait_for("READY=1").count("READY=1") == 1
        systemd.wait_for("WATCHDOG=1")
        worker.send_signal(signal.SIGHUP)
        told = [*systemd.wait_for("RELOADING=1"), *systemd.wait_for("READY=1")]
        assert "STOPPING=1" not in told
        worker.send_signal(signal.SIGTERM)
        systemd.wait_for("STOPPING=1")
        assert ended(worker)[0] == 0
    finally:
        systemd.close()


async def test_the_parent_alone_tells_systemd(shell: Shell, store: Store) -> None:
    address = f"holdfast-test-parent-{os.getpid()}"
    systemd = Systemd(f"\0{address}")
    try:
        shell.environment = {"NOTIFY_SOCKET": f"@{address}"}
        parent = shell.start("worker", "shop:app", "--processes", "2")
        assert systemd.wait_for("READY=1") == ["READY=1"]
        await wait_for_workers(store, 2)
        parent.send_signal(signal.SIGTERM)
        assert systemd.wait_for("STOPPING=1") == ["STOPPING=1"]
        assert ended(parent)[0] == 0
    finally:
        systemd.close()
