"""The peers of a benchmark: who takes part, what they are told, and how a failure is reported."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.peers import ALL, contenders, environments
from bench.peers.environments import PeerFailed, python_of
from bench.peers.once import sample_in
from bench.peers.roster import FLOWS, PEERS, Peer
from bench.peers.scripts.marks import RECORD, Marks
from bench.peers.scripts.peer import chunks
from bench.places import Place


class Nowhere:
    """A store that only counts what it was asked for."""

    url = "valkey://127.0.0.1:1"

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: list[str] = []

    async def describe(self) -> dict[str, str]:
        return {}

    def new_url(self) -> str:
        self.open.append("somewhere")
        return "somewhere"

    async def settle(self, url: str) -> None: ...

    def discard(self, url: str) -> None:
        self.open.remove(url)

    def server_seconds(self) -> float:
        return 0.0

    def apart(self) -> AbstractContextManager[Place]:
        return nullcontext(self)


def test_the_fastest_of_a_store_take_part_unless_others_are_asked_for() -> None:
    place = Nowhere("postgres")
    assert [peer.name for peer in contenders(place, "drain")] == ["pgqueuer 1.6.0", "awa 0.6.9"]
    [asked] = contenders(place, "drain", ["dbos"])
    assert (asked.name, asked.peer) == ("dbos 3.3.0", True)
    assert len(contenders(place, "drain", ALL)) == sum(peer.store == "postgres" for peer in PEERS)


def test_every_peer_is_pinned_by_number_and_has_a_script() -> None:
    for peer in PEERS:
        assert all("==" in pinned for pinned in (peer.requirement, *peer.beside))
        workloads = ("drain", *(FLOWS if peer.flows else ()))
        assert all(find_spec(peer.module(one)) is not None for one in workloads)


def test_one_environment_is_made_of_one_list_of_packages() -> None:
    wanted: dict[str, set[tuple[str, ...]]] = {}
    for peer in PEERS:
        wanted.setdefault(peer.name, set()).add((peer.requirement, *peer.beside))
    assert all(len(lists) == 1 for lists in wanted.values())


async def test_a_peer_that_cannot_be_installed_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    future = Peer("ahead", "postgres", "ahead==1.0", python=(9, 9), fastest=True)
    monkeypatch.setattr("bench.peers.PEERS", [future])
    place = Nowhere("postgres")
    [contender] = contenders(place, "drain")
    with pytest.raises(PeerFailed, match=r"installing ahead==1.0: it needs python9.9"):
        await contender.measure()
    assert place.open == []


def test_an_installed_peer_is_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    peer = Peer("there", "sqlite", "there==1.0", ("beside==2.0",), python=(9, 9))
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "installed.txt").write_text("there==1.0\nbeside==2.0")
    assert python_of(peer) == folder / "bin" / "python"
    (folder / "installed.txt").write_text("there==0.9\nbeside==2.0")
    with pytest.raises(PeerFailed):
        python_of(peer)


def test_the_last_line_said_is_the_reason_of_a_failure() -> None:
    for said in ("Traceback\n  at\nValueError: no\n\n", "  | ValueError: no\n  +------\n"):
        failed = PeerFailed(PEERS[0], "measuring", said)
        assert str(failed) == "measuring pgqueuer==1.6.0: ValueError: no"
    assert str(PeerFailed(PEERS[0], "measuring", "")).endswith("it said nothing")


def test_a_sample_is_read_past_whatever_was_printed_before() -> None:
    assert sample_in('hello\n{"rate": 12.5}\n') == {"rate": 12.5}


def test_marks_are_read_and_a_job_that_ran_twice_is_noticed() -> None:
    marks = Marks()
    try:
        marks.path.write_bytes(RECORD.pack(1, 0.5) + RECORD.pack(2, 0.75))
        assert (marks.count(), marks.read()) == (2, {1: 0.5, 2: 0.75})
        marks.path.write_bytes(RECORD.pack(1, 0.5) + RECORD.pack(1, 0.75))
        with pytest.raises(RuntimeError, match="2 handlers ran for 1 jobs"):
            marks.read()
    finally:
        marks.remove()


def test_chunks_hold_every_number_once() -> None:
    assert [list(some) for some in chunks(range(5), 2)] == [[0, 1], [2, 3], [4]]
