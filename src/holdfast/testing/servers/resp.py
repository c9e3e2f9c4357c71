"""The few words of the Redis protocol that a test server is spoken to with.

No driver: this package works in any kind of program, and a driver belongs to its backend.
"""

from __future__ import annotations

import socket
from io import BufferedRWPair

TIMEOUT = 20.0
Answer = str | int | None | list["Answer"]


class Refusal(RuntimeError):
    """The server answered with an error; the message is its own."""


def say(address: tuple[str, int], *words: str | int, password: str | None = None) -> Answer:
    """One command on a connection of its own."""
    with socket.create_connection(address, timeout=TIMEOUT) as line, line.makefile("rwb") as talk:
        if password:
            _send(talk, ("AUTH", password))
            _hear(talk)
        _send(talk, words)
        return _hear(talk)


def _send(talk: BufferedRWPair, words: tuple[str | int, ...]) -> None:
    parts = [str(word).encode() for word in words]
    talk.write(b"*%d\r\n" % len(parts))
    for part in parts:
        talk.write(b"$%d\r\n%b\r\n" % (len(part), part))
    talk.flush()


def _hear(talk: BufferedRWPair) -> Answer:
    line = talk.readline()
    if not line:
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:].strip()
    match kind:
        case b"+":
            return rest.decode()
        case b"-":
            raise Refusal(rest.decode())
        case b":":
            return int(rest)
        case b"$":
            return (
                None if rest == b"-1" else talk.read(int(rest) + 2)[:-2].decode("utf-8", "replace")
            )
        case b"*":
            return [_hear(talk) for _ in range(int(rest))]
    raise Refusal(f"an answer of an unknown kind: {line!r}")
