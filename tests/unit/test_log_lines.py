"""What a line of a worker's log carries, readable and as JSON."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from holdfast.events import Event
from holdfast.logs import JsonLines, TextLines
from holdfast.logs.records import log_event

ABOUT = {"job_id": "1", "task": "send", "queue": "mail", "attempt": 2}


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(JsonLines().format(record)) for record in caplog.records]


def texts(caplog: pytest.LogCaptureFixture, **options: bool) -> list[str]:
    """Lines without their times."""
    shown = TextLines(**options)
    return [shown.format(record).split(" ", 2)[2] for record in caplog.records]


def test_what_a_line_was_given_beside_its_message_is_in_its_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("holdfast")
    logger.warning("sqlite watcher reconnects", extra={"error": "disk I/O error", "tries": 3})
    [line] = lines(caplog)
    assert line["message"] == "sqlite watcher reconnects"
    assert line["fields"] == {"error": "disk I/O error", "tries": 3}


def test_an_event_keeps_its_name_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    facts = {"worker": "7", "after": 2.5, "why": None}
    log_event(Event("worker.store_back", facts, logging.WARNING))
    [line] = lines(caplog)
    assert (line["event"], line["worker"], line["fields"]) == (
        "worker.store_back",
        "7",
        {"after": 2.5},
    )
    assert line["message"] == "worker.store_back worker=7 after=2.5"


def test_a_line_of_a_handler_names_its_job_beside_its_own_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger("shop").warning("sent", extra={**ABOUT, "to": "ann"})
    [line] = lines(caplog)
    assert {name: line[name] for name in ABOUT} == ABOUT
    assert line["fields"] == {"to": "ann"}
    assert texts(caplog) == ["WARNING shop [send 1] sent"]


def test_a_plain_line_has_no_fields(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("holdfast").warning("%s of %s", 1, 2)
    [line] = lines(caplog)
    assert line["message"] == "1 of 2"
    assert "fields" not in line
    assert texts(caplog) == ["WARNING holdfast 1 of 2"]


@pytest.mark.parametrize("given", ["\udcff", {(1, 2): 3}, object()])
def test_a_line_is_written_whatever_it_was_given(
    caplog: pytest.LogCaptureFixture, given: object
) -> None:
    logging.getLogger("shop").warning("odd", extra={"given": given})
    [line] = lines(caplog)
    assert line["message"] == "odd"
    assert "given" in line["fields"]


def test_an_event_of_a_job_is_short_and_stays_on_its_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    facts = {**ABOUT, "fence": 3, "worker": "7", "message": "two\nlines", "seconds": 0.00004}
    log_event(Event("job.attempt_failed", facts, logging.WARNING))
    said = r"queue=mail attempt=2 message='two\nlines' seconds=0.00004"
    assert texts(caplog) == [f"WARNING holdfast.jobs [send 1] job.attempt_failed {said}"]
    assert "job_id=1" in caplog.messages[0], "for formats of a program's own"


def test_a_traceback_that_is_only_text_is_shown_by_every_formatter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    facts = {**ABOUT, "traceback": "Traceback of a child\n", "exception": None}
    log_event(Event("job.attempt_failed", facts, logging.ERROR))
    [record] = caplog.records
    for formatter in (logging.Formatter(), TextLines()):
        assert formatter.format(record).endswith("\nTraceback of a child")
    assert lines(caplog)[0]["exception"] == "Traceback of a child"


def test_a_terminal_sees_levels_in_colour(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("shop").error("oh")
    assert texts(caplog, colour=True) == ["\033[31mERROR  \033[0m shop oh"]
