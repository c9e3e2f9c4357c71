"""Every event that the code emits is declared in `EVENTS` and has its row in the reference."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from holdfast.events import EVENTS
from tests.support.emitted import Emitted, emitted
from tests.support.source import ROOT

ROW = re.compile(r"^\| `([a-z_.]+)` \| ([a-z, ]+) \| (.*?) \| (.*) \|$", re.MULTILINE)
PAGE = {
    name: (set(levels.split(", ")), set(re.findall(r"`(\w+)`", fields)), when)
    for name, levels, fields, when in ROW.findall((ROOT / "docs/reference/events.md").read_text())
}


def calls_of(name: str) -> list[Emitted]:
    return [one for one in emitted() if fnmatchcase(name, one.name)]


def test_pages_speak_of_events_that_there_are() -> None:
    groups = {name.partition(".")[0] for name in EVENTS}
    spoken = {
        name
        for page in (*(ROOT / "docs/guides").glob("*.md"), ROOT / "docs/reference/cli.md")
        for name in re.findall(r"`([a-z]+\.[a-z_]+)`", page.read_text())
        if name.partition(".")[0] in groups
    }
    assert "worker.loop_blocked" in spoken
    assert spoken - EVENTS.keys() == set()


def test_the_source_is_read_at_all() -> None:
    assert len(emitted()) >= 40


def test_every_event_that_is_emitted_is_declared() -> None:
    undeclared = [
        (one.name, one.where)
        for one in emitted()
        if not any(fnmatchcase(name, one.name) for name in EVENTS)
    ]
    assert undeclared == []


def test_every_declared_event_is_emitted() -> None:
    assert [name for name in EVENTS if not calls_of(name)] == []


def test_the_reference_has_every_event_in_the_words_of_its_declaration() -> None:
    assert {name: when for name, (_, _, when) in PAGE.items()} == EVENTS


def test_the_reference_names_the_fields_and_levels_that_are_emitted() -> None:
    for name, (levels, fields, _) in PAGE.items():
        calls = calls_of(name)
        assert fields == set().union(*(one.fields for one in calls)), name
        assert levels == set().union(*(one.levels for one in calls)), name
