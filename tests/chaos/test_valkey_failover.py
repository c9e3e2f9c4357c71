"""A master dies and its replica takes over: a store that asks sentinels follows by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.wakeups import Topic
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from holdfast.testing.servers.ports import free_port
from holdfast.testing.servers.resp import Refusal, say
from tests.conformance.builders import new_job
from tests.support.backends import opened
from tests.support.listening import listening
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


@contextmanager
def sentinel_of(master: ThrowawayValkey, folder: Path) -> Iterator[int]:
    """One sentinel that decides alone; yields its port."""
    port = free_port("Valkey")
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor main 127.0.0.1 {master.port} 1\n"
        "sentinel down-after-milliseconds main 1000\n"
        "sentinel failover-timeout main 5000\n"
    )
    with subprocess.Popen(
        [find_valkey().program, settings, "--sentinel"], stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield port
        finally:
            process.terminate()


async def test_a_store_follows_its_master(tmp_path: Path) -> None:
    binary = find_valkey()
    with ThrowawayValkey(binary, settings=("repl-diskless-sync-delay 0",)) as master:
        follows = (f"replicaof 127.0.0.1 {master.port}",)
        replicating = ThrowawayValkey(binary, settings=follows)
        with replicating as replica, sentinel_of(master, tmp_path) as port:
            await wait_until(lambda: _sees_the_replica(port), 40, "the sentinel knows both")
            await _work_through_a_failover(
                master, replica, f"valkey+sentinel://127.0.0.1:{port}/main"
            )


def _sees_the_replica(port: int) -> bool:
    try:
        told = say(("127.0.0.1", port), "SENTINEL", "replicas", "main")
    except (OSError, Refusal):
        return False
    return isinstance(told, list) and len(told) == 1 and "master-link-status" in str(told)


async def _work_through_a_failover(
    master: ThrowawayValkey, replica: ThrowawayValkey, url: str
) -> None:
    async with opened(url) as store, listening(store) as ear:
        await store.jobs.insert([new_job() for _ in range(5)])

        def has_all() -> bool:
            return replica.say("DBSIZE") == master.say("DBSIZE")

        await wait_until(has_all, 20, "the replica has the jobs")
        master.halt()

        async def answers() -> bool:
            try:
                return await store.jobs.count(JobFilter()) == {JobState.READY: 5}
            except StoreUnavailable:
                return False

        await wait_until(answers, 40, "the replica serves", look_every=0.2)
        ear.heard.clear()
        await store.jobs.insert([new_job(queue="mail")])
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 6}
        assert await ear.hears(Topic.READY, "mail")
