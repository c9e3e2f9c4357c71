"""client/sync.py: the verbs without `await` are the verbs of the client, all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import assert_type

import pytest

from holdfast import App, BulkReport, Explanation, Job, JobState
from holdfast.client.audit import AuditVerbs
from holdfast.client.client import Client
from holdfast.client.failures import FailureVerbs
from holdfast.client.keys import KeyVerbs
from holdfast.client.limits import LimitVerbs
from holdfast.client.operations import OperationVerbs
from holdfast.client.queues import QueueVerbs
from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.signals import SignalVerbs
from holdfast.client.streams import StreamVerbs
from holdfast.client.sync import SyncClient
from holdfast.client.tasks import TaskVerbs
from holdfast.client.telemetry import TelemetryVerbs
from holdfast.client.workers import WorkerVerbs
from holdfast.store.contract.queues import QueueInfo, QueueSettings
from holdfast.store.contract.records import Page
from holdfast.store.contract.workers import WorkerInfo

NOUNS: list[tuple[type, Callable[[SyncClient], object]]] = [
    (Client, lambda sync: sync),
    (QueueVerbs, lambda sync: sync.queues),
    (TaskVerbs, lambda sync: sync.tasks),
    (ScheduleVerbs, lambda sync: sync.schedules),
    (WorkerVerbs, lambda sync: sync.workers),
    (AuditVerbs, lambda sync: sync.audit),
    (KeyVerbs, lambda sync: sync.keys),
    (OperationVerbs, lambda sync: sync.operations),
    (FailureVerbs, lambda sync: sync.failures),
    (SignalVerbs, lambda sync: sync.signals),
    (StreamVerbs, lambda sync: sync.streams),
    (LimitVerbs, lambda sync: sync.limits),
    (TelemetryVerbs, lambda sync: sync.telemetry),
]


def verbs(of: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(value)
        for name, value in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_") and name != "aclose"
    }


@pytest.mark.parametrize(("noun", "pick"), NOUNS)
def test_every_verb_is_there_with_its_parameters_and_a_docstring(
    noun: type, pick: Callable[[SyncClient], object]
) -> None:
    found = pick(App("sqlite://").sync)
    public = {name for name in dir(found) if not name.startswith("_")}
    nouns = {
        "queues",
        "tasks",
        "schedules",
        "workers",
        "audit",
        "keys",
        "operations",
        "failures",
        "signals",
        "streams",
        "limits",
        "telemetry",
    }
    assert public - nouns == set(verbs(noun))
    for name, signature in verbs(noun).items():
        _, *parameters = signature.parameters.values()
        verb = getattr(found, name)
        plain = inspect.signature(verb)
        assert [*plain.parameters.values()] == parameters, name
        assert plain.return_annotation == signature.return_annotation.removeprefix("Async"), name
        assert verb.__doc__, name


def test_a_verb_of_the_client_that_streams_has_a_twin_that_iterates() -> None:
    """`app.sync` waits for one answer of every other verb."""
    for noun, pick in NOUNS:
        for name, signature in verbs(noun).items():
            streams = "AsyncI" in str(signature.return_annotation)
            assert inspect.isasyncgenfunction(getattr(noun, name)) is streams, name
            twin = getattr(pick(App("sqlite://").sync), name)
            assert inspect.isgeneratorfunction(twin) is streams, name


def typed_as_the_client(sync: SyncClient) -> None:
    """Checked by the type checker, never called."""
    assert_type(sync.get("id"), Job)
    assert_type(sync.page(limit=3, queue="mail", cursor=None), Page)
    assert_type(sync.count(state=["ready"]), dict[JobState, int])
    assert_type(sync.explain("id"), Explanation)
    assert_type(sync.cancel("id", by="ann"), JobState)
    assert_type(sync.cancel_all(tag="bulk", dry_run=True), BulkReport)
    assert_type(sync.queues.all("a", "b"), list[QueueInfo])
    assert_type(sync.queues.tune("a", retain_failed=3), QueueSettings)
    assert_type(sync.workers.all(), list[WorkerInfo])
    sync.page(limit="3")  # type: ignore[arg-type]
    sync.page(queu="mail")  # type: ignore[call-arg]
    sync.move("id")  # type: ignore[call-arg]
    sync.schedules.pause(3)  # type: ignore[arg-type]
