"""What a line of `--json-logs` carries."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from holdfast.cli.logs import JsonLines
from holdfast.events import Event, log_event


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(JsonLines().format(record)) for record in caplog.records]


def test_what_a_line_was_given_beside_its_message_is_in_its_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("holdfast")
    logger.warning("sqlite watcher reconnects", extra={"error": "disk I/O error", "tries": 3})
    [line] = lines(caplog)
    assert line["message"] == "sqlite watcher reconnects"
    assert line["fields"] == {"error": "disk I/O error", "tries": 3}


def test_an_event_keeps_its_name_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    log_event(Event("worker.store_back", {"after": 2.5}, logging.WARNING))
    [line] = lines(caplog)
    assert (line["event"], line["fields"]) == ("worker.store_back", {"after": 2.5})
    assert "message" not in line


def test_a_line_of_a_handler_names_its_job_beside_its_own_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    about = {"job_id": "1", "task": "send", "queue": "mail", "attempt": 2}
    logging.getLogger("holdfast.job").warning("sent", extra={**about, "to": "ann"})
    [line] = lines(caplog)
    assert {name: line[name] for name in about} == about
    assert line["fields"] == {"to": "ann"}


def test_a_plain_line_has_no_fields(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("holdfast").warning("%s of %s", 1, 2)
    [line] = lines(caplog)
    assert line["message"] == "1 of 2"
    assert "fields" not in line
