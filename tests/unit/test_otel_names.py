"""The names of `contrib/otel/names.py` are those of the conventions that it says it follows."""

from __future__ import annotations

from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv._incubating.metrics import messaging_metrics as measured
from opentelemetry.semconv.attributes import error_attributes as errors
from opentelemetry.semconv.attributes import exception_attributes as exceptions
from opentelemetry.semconv.attributes import server_attributes as servers
from opentelemetry.semconv.schemas import Schemas

from holdfast.contrib.otel import names


def test_the_names_are_those_of_the_conventions() -> None:
    types = messaging.MessagingOperationTypeValues
    expected = {
        names.SCHEMA_URL: Schemas.V1_44_0.value,
        names.MESSAGING_SYSTEM: messaging.MESSAGING_SYSTEM,
        names.OPERATION_NAME: messaging.MESSAGING_OPERATION_NAME,
        names.OPERATION_TYPE: messaging.MESSAGING_OPERATION_TYPE,
        names.DESTINATION: messaging.MESSAGING_DESTINATION_NAME,
        names.MESSAGE_ID: messaging.MESSAGING_MESSAGE_ID,
        names.BATCH_COUNT: messaging.MESSAGING_BATCH_MESSAGE_COUNT,
        names.SEND: types.SEND.value,
        names.CREATE: types.CREATE.value,
        names.PROCESS: types.PROCESS.value,
        names.ERROR_TYPE: errors.ERROR_TYPE,
        names.EXCEPTION_TYPE: exceptions.EXCEPTION_TYPE,
        names.EXCEPTION_MESSAGE: exceptions.EXCEPTION_MESSAGE,
        names.EXCEPTION_STACKTRACE: exceptions.EXCEPTION_STACKTRACE,
        names.SERVER_ADDRESS: servers.SERVER_ADDRESS,
        names.SERVER_PORT: servers.SERVER_PORT,
        names.SENT: measured.MESSAGING_CLIENT_SENT_MESSAGES,
        names.CONSUMED: measured.MESSAGING_CLIENT_CONSUMED_MESSAGES,
        names.OPERATION_DURATION: measured.MESSAGING_CLIENT_OPERATION_DURATION,
        names.PROCESS_DURATION: measured.MESSAGING_PROCESS_DURATION,
    }
    assert {ours: theirs for ours, theirs in expected.items() if ours != theirs} == {}


def test_what_no_convention_names_is_ours() -> None:
    ours = {names.TASK, names.ATTEMPT, names.FENCE, names.END, names.HOW, names.SCHEDULE}
    assert all(name.startswith("holdfast.") for name in ours)
    assert list(names.BOUNDARIES) == sorted(names.BOUNDARIES)
