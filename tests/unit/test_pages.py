"""What pages say that there is, and that there is not.

What they say of behaviour is held beside the behaviour: that of limits in
`tests/conformance/test_pages.py`, that of effects in `tests/system/test_one_effect.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.source import ROOT

GUIDES = ROOT / "docs/guides"
PUT_OFF = re.compile(r"not in Holdfast yet|not yet in Holdfast|today \|")
"""How a table says that something comes later."""
FEATURES = {
    "flow": "flows.md",
    "chain": "flows.md",
    "chord": "flows.md",
    "workflow": "flows.md",
    "limit": "limits.md",
    "rate": "limits.md",
    "budget": "limits.md",
    "schedule": "schedules.md",
    "signal": "signals.md",
    "step": "steps.md",
    "stream": "streams.md",
    "approval": "approvals.md",
    "saga": "sagas.md",
    "encryption": "secrets.md",
}
"""Words of things that Holdfast has, and the guide of each."""


def rows(page: str) -> list[list[str]]:
    """The cells of all tables of a guide, without their heads."""
    lines = (GUIDES / page).read_text().splitlines()
    found = [[cell.strip() for cell in one.strip("|").split(" | ")] for one in lines if "|" in one]
    return [row for row in found if set(row[0]) != {"-"}]


def words(text: str) -> set[str]:
    """The words of a text, those in the plural also in the singular."""
    found = set(re.findall(r"[a-z]+", text.lower()))
    return found | {word.removesuffix("s") for word in found}


@pytest.mark.parametrize("row", rows("when-not.md"), ids=lambda row: str(row[0][:40]))
def test_who_is_sent_elsewhere_for_what_holdfast_has_is_led_to_its_guide(row: list[str]) -> None:
    """A row may name such a thing if it says how the need differs from it."""
    needed, advice = row[0], " ".join(row[1:])
    for word in words(needed) & set(FEATURES):
        assert f"]({FEATURES[word]}" in advice, f"{needed!r} names {word!r}: say what there is"


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: str(page.name))
def test_no_guide_puts_off_what_there_is(page: Path) -> None:
    assert PUT_OFF.findall(page.read_text()) == []


def test_each_feature_has_its_guide() -> None:
    assert [page for page in FEATURES.values() if not (GUIDES / page).exists()] == []


def test_what_can_refuse_nothing_leads_to_its_own_section() -> None:
    [row] = [row for row in rows("fencing.md") if row[0] == "something that can refuse nothing"]
    assert "](#something-that-can-refuse-nothing)" in row[1]
    assert "\n## Something that can refuse nothing\n" in (GUIDES / "fencing.md").read_text()


GIVEN_BACK = re.compile(r"[^.]*\b(?:given|gives|give)\b[^.]*\sback\b[^.]*\.")


@pytest.mark.parametrize("page", ["README.md", "docs/guides/limits.md"])
def test_only_places_of_concurrency_limits_are_said_to_be_given_back(page: str) -> None:
    """The table of the guide says which kinds give back what: prose says no more."""
    text = (ROOT / page).read_text()
    prose = "\n".join(one for one in text.splitlines() if not one.startswith("|"))
    found = [" ".join(one.split()) for one in GIVEN_BACK.findall(prose)]
    assert found
    allowed = ("concurrency limit", "nothing is given back twice", "nothing gives back")
    assert [one for one in found if not any(words in one for words in allowed)] == []
