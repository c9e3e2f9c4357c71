"""Scripts: what they declare, and a server that forgets them."""

from __future__ import annotations

import asyncio
import re

import pytest

from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.valkey import constants, scripts
from holdfast.store.valkey.scripts import script, verbs
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import (
    Scene,
    ids,
    new_job,
)


@pytest.mark.parametrize("verb", verbs())
def test_a_script_declares_its_key_and_gets_what_it_declares(verb: str) -> None:
    chosen = script(verb)
    assert len(chosen.keys) == 1
    given = dict.fromkeys(chosen.arguments, "x")
    assert chosen.values(given) == ["x"] * len(chosen.arguments)
    with pytest.raises(TypeError, match=verb):
        chosen.values({**given, "unheard_of": 1})


def test_a_missing_argument_is_named_before_anything_is_sent() -> None:
    with pytest.raises(TypeError, match="worker, wants, tasks"):
        script("jobs/claim").values({"now": ""})


def test_a_constant_that_nobody_declares_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = dict(constants.constants())
    del known["FENCE"]
    monkeypatch.setattr(scripts, "constants", lambda: known)
    with pytest.raises(ValueError, match=r"jobs/claim.lua uses constants .*: FENCE"):
        script.__wrapped__("jobs/claim")


def test_parts_that_fill_a_table_stand_behind_all_that_they_use() -> None:
    text = script("jobs/finish").text
    made = text.index("local permits = setmetatable(")
    assert text.index("local moment =") < text.index("local function line(") < made
    assert made < text.index("function permits.limit_of(") < text.index("local function flush(")


@pytest.mark.parametrize("verb", verbs())
def test_what_is_made_late_is_used_by_nobody_who_does_not_declare_it(verb: str) -> None:
    """A part that only the filling of a table uses lies in the function that fills the table: a
    script that uses its names, and does not say so, would find nothing."""
    own = scripts._read(f"{verb}.lua")
    used = {
        one: scripts._declared(verb, scripts._part(one), "uses")
        for one in scripts._parts(verb, own)
    }
    tables = scripts._tables(verb, own, used)
    for table in set(tables.values()):
        inside = "\n".join(scripts._part(one) for one in used if tables.get(one) == table)
        outside = [scripts._part(one) for one in used if tables.get(one) != table]
        for text in (*outside, own):
            assert not _top(inside) & scripts._words(text) - _named(text)


def _top(text: str) -> set[str]:
    return {name for names in scripts._DECLARED.findall(text) for name in names.split(", ")}


def _named(text: str) -> set[str]:
    """What a text declares itself, anywhere, or takes as a parameter."""
    found = re.findall(r"(?:local (?:function )?|for |function[ \w.]*\()([\w, ]*)", text)
    found += re.findall(r"function[ \w.]*\(([\w, ]*)\)", text)
    return {name.strip() for names in found for name in names.split(",")}


@pytest.mark.parametrize("verb", verbs())
def test_a_script_compiles(server: ThrowawayValkey, verb: str) -> None:
    """Lua allows 200 local names, and a function 60 of an enclosing one."""
    assert server.say("SCRIPT", "LOAD", script(verb).text) == script(verb).digest


async def test_a_server_that_forgot_the_scripts_is_sent_them_again(
    scene: Scene, server: ThrowawayValkey
) -> None:
    for _ in range(3):
        await scene.enqueue()
        server.say("SCRIPT", "FLUSH")
        claimed = await scene.claim_one()
        server.say("SCRIPT", "FLUSH")
        assert (await scene.finish(claimed)).accepted


async def test_scripts_flushed_in_the_middle_of_a_long_insert_lose_no_job(
    scene: Scene, server: ThrowawayValkey
) -> None:
    jobs = [new_job() for _ in range(6_000)]
    inserting = asyncio.create_task(scene.store.jobs.insert(jobs))
    while not inserting.done():
        await asyncio.to_thread(server.say, "SCRIPT", "FLUSH")
    assert ids(await inserting) == [job.id for job in jobs]
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 6_000}
