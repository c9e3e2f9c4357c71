"""The few messages of Postgres by which a session goes from one connection to the next."""

from __future__ import annotations

from collections.abc import Iterator

TERMINATE = b"X\x00\x00\x00\x04"
READY = b"Z\x00\x00\x00\x05I"
CLEARING = b"unlisten *; close all; reset all; select pg_advisory_unlock_all()\0"
RESET = b"Q" + (4 + len(CLEARING)).to_bytes(4, "big") + CLEARING
IS_RESET = "CCCTDCZ"  # three commands done, a row, a fourth done, ready
NOTIFIED = "A"  # somebody was quicker than the reset of a session that listened
PREPARED = ("31tT", "31tn")  # closed, parsed, its parameters, its columns or that it has none


def text(message: bytes, start: int) -> bytes:
    return message[start : message.index(0, start)]


def closing(name: bytes) -> bytes:
    return b"C" + (4 + 1 + len(name) + 1).to_bytes(4, "big") + b"S" + name + b"\0"


def kinds(messages: bytes) -> Iterator[str]:
    """Each message is a letter, its length and its content."""
    while messages:
        yield chr(messages[0])
        messages = messages[1 + int.from_bytes(messages[1:5], "big") :]
