"""The names that spans and instruments have, from the semantic conventions of OpenTelemetry 1.44.

The conventions for messaging are still in development: they may change, and then only here.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "holdfast"
"""The instrumentation scope of all spans and instruments."""
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

# Attributes ---------------------------------------------------------------------------------

MESSAGING_SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

EXCEPTION: Final = "exception"
"""The name of an event."""
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

TASK: Final = "holdfast.task"
ATTEMPT: Final = "holdfast.attempt"
FENCE: Final = "holdfast.fence"
END: Final = "holdfast.end"
HOW: Final = "holdfast.how"
SCHEDULE: Final = "holdfast.schedule"

# Values -------------------------------------------------------------------------------------

SYSTEM: Final = "holdfast"
ENQUEUE: Final = "enqueue"
SEND: Final = "send"
CREATE: Final = "create"
PROCESS: Final = "process"

# Instruments --------------------------------------------------------------------------------

SENT: Final = "messaging.client.sent.messages"
CONSUMED: Final = "messaging.client.consumed.messages"
OPERATION_DURATION: Final = "messaging.client.operation.duration"
PROCESS_DURATION: Final = "messaging.process.duration"
BOUNDARIES: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
"""Seconds between the buckets of a duration."""
