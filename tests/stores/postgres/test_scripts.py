"""How scripts are put together from their parts."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, cast
from unittest.mock import Mock

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import RowRefused
from holdfast.job.state import UNTIMED, JobState
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.records import Want
from holdfast.store.postgres.finishing import PostgresFinishing
from holdfast.store.postgres.finishing_steps import Asked, Moved
from holdfast.store.postgres.scripts import PACKAGE, _assembled, _for_each_place, load_scripts
from tests.conformance.builders import QUEUE, TASK, new_job
from tests.stores.postgres.shared import hired, opened

PARTS = {"woken": "woken as (select {{now}})", "changed": "update t set {{change}}"}


def test_a_part_stands_where_its_name_was() -> None:
    script = _assembled("a/b", "-- uses: woken\nwith {{woken}}\nselect", PARTS)
    assert "with woken as (select coalesce($1::timestamptz" in script


def test_a_part_takes_its_words_from_the_script() -> None:
    header = "-- uses: changed\n-- let change: queue = $3::text\n"
    script = _assembled("a/b", header + "{{changed}}", PARTS)
    assert script.endswith("update t set queue = $3::text")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("with {{woken}}", "woken"),
        ("-- uses: changed\n{{changed}}", "change"),
        ("-- uses: woken\nselect 1", "places it nowhere"),
        ("-- let change: n = 1\nselect 1", "places it nowhere"),
    ],
)
def test_a_name_without_a_meaning_and_a_part_without_a_place_are_errors(
    text: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        _assembled("a/b", text, PARTS)


def test_what_is_for_each_place_is_written_once() -> None:
    places = sorted(UNTIMED)
    many = _for_each_place("{{each untimed}}\nfrom_{{place}} as (),\n{{end}}\nselect")
    assert many == "".join(f"from_{place} as (),\n" for place in places) + "select"
    inline = _for_each_place("in ('ready'{{each untimed}}, '{{place}}'{{end}})")
    assert inline == "in ('ready'" + "".join(f", '{place}'" for place in places) + ")"
    with pytest.raises(KeyError, match="nowhere"):
        _for_each_place("{{each nowhere}}{{place}}{{end}}")


def test_a_part_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        _assembled("a/b", "-- uses: nothing\n{{nothing}}", PARTS)


def test_every_part_has_a_script_that_uses_it() -> None:
    folder = files(PACKAGE).joinpath("sql")
    texts = [
        file.read_text("utf-8")
        for noun in folder.iterdir()
        if noun.name != "parts"
        for file in noun.iterdir()
    ]
    for part in (folder / "parts").iterdir():
        name = part.name.removesuffix(".sql")
        assert any(f"{{{{{name}}}}}" in text for text in texts), name


def test_nothing_is_left_to_be_filled_in() -> None:
    assert not [verb for verb, script in load_scripts("holdfast").items() if "{{" in script]


async def test_a_state_that_nobody_knows_ends_no_job(url: str, clock: ManualClock) -> None:
    """The statement refuses it too, if nobody has checked the move before."""
    async with opened(url, clock=clock) as store:
        worker = await hired(store)
        await store.jobs.insert([new_job()])
        [job] = await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK])
        odd = cast("JobState", Mock(value="lost"))
        asked = Asked([], [], [], [Transition(job.id, job.fence, odd, why=What.LOST)], None)
        jobs: Any = store.jobs
        assert isinstance(jobs, PostgresFinishing)
        with pytest.raises(RowRefused, match="check"):
            await store._connections.run(lambda session: jobs._move(session, asked, Moved()))
        [found] = await store.jobs.live([job.id])
        assert found.state is JobState.RUNNING
