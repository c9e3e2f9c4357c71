"""How the rows of a ledger are named.

A plan time is 15 hexadecimal digits that sort as text. They are exact, where a score (a floating
point number) would be rounded. `lua/parts/ledger.lua` says which names they are part of.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.job.ids import partition_bits
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.moments import EPOCH, SECOND, to_micros

DIGITS = 15
HIGHEST = 16**DIGITS - 1
EARLIEST = to_micros(datetime.min.replace(tzinfo=UTC)) - 86_400 * SECOND


def home(connections: Connections, schedule: str) -> int:
    """The partition of a schedule, of all that belongs to it, and of the jobs it starts."""
    return partition_bits(schedule) % connections.options.partitions


def instant(moment: datetime) -> str:
    return f"{to_micros(moment) - EARLIEST:0{DIGITS}x}"


def from_instant(text: str) -> datetime:
    return EPOCH + timedelta(microseconds=int(text, 16) + EARLIEST)


def inverted(text: str) -> str:
    """The digits of a time such that later times sort first."""
    return f"{HIGHEST - int(text, 16):0{DIGITS}x}"


def next_inverted(text: str) -> str:
    """The inverted digits of one microsecond earlier."""
    return f"{int(text, 16) + 1:0{DIGITS}x}"


def of_scope(scope: str) -> str:
    """What the names of all rows of a scope begin with."""
    return f"{len(scope.encode()):08x}{scope}"


def scope_and_time(name: str) -> tuple[str, datetime]:
    """What a row's name says."""
    return name[8:-DIGITS], from_instant(inverted(name[-DIGITS:]))
