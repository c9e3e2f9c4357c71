"""Fields and rows in the binary format of COPY.

They are made here and not by the driver, because most fields of a bulk insert are the same in row
after row: those are made once and joined to the fields that differ. Rows go out in parcels, so that
the server stores one parcel while the next is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from struct import Struct

ROWS_PER_PARCEL = 500

NULL = b"\xff\xff\xff\xff"
_FILE_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension
_FILE_END = b"\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TEXT_TYPE, _LONG_TYPE, _UUID_TYPE = 25, 20, 2950
_UUID_SIZE = b"\0\0\0\x10"

_count = Struct("!h").pack
_length = Struct("!i").pack
_sized_small = Struct("!ih").pack
_sized_int = Struct("!ii").pack
_sized_long = Struct("!iq").pack
_sized_double = Struct("!id").pack
_array_head = Struct("!iii").pack
_array_size = Struct("!ii").pack
_uuids = Struct("20s").iter_unpack


def fields(count: int) -> bytes:
    """The number of its fields, with which every row begins."""
    return _count(count)


def text(value: str | None) -> bytes:
    if value is None:
        return NULL
    data = value.encode()
    return _length(len(data)) + data


def uuid(value: str) -> bytes:
    return _UUID_SIZE + bytes.fromhex(value.replace("-", ""))


def each_uuid(values: Iterable[str]) -> list[bytes]:
    """The fields of many, read at once; there must be at least one."""
    size = _UUID_SIZE.hex()
    return [one for (one,) in _uuids(bytes.fromhex(size + size.join(values).replace("-", "")))]


def boolean(value: bool) -> bytes:
    return b"\0\0\0\1\1" if value else b"\0\0\0\1\0"


def small(value: int) -> bytes:
    return _sized_small(2, value)


def integer(value: int) -> bytes:
    return _sized_int(4, value)


def long(value: int) -> bytes:
    return _sized_long(8, value)


def double(value: float | None) -> bytes:
    return NULL if value is None else _sized_double(8, value)


def moment(value: datetime | None) -> bytes:
    return NULL if value is None else _sized_long(8, (value - _EPOCH) // _MICROSECOND)


def texts(values: Sequence[str]) -> bytes:
    """An array of one dimension; an empty array has no dimension."""
    size = _array_size(len(values), 1) if values else b""
    data = _array_head(bool(values), 0, _TEXT_TYPE) + size + b"".join(map(text, values))
    return _length(len(data)) + data


def uuids(values: Sequence[bytes]) -> bytes:
    """An array of one or more fields that `uuid` has made."""
    return _head_of(_UUID_TYPE, len(values), 16) + b"".join(values)


def longs(values: Sequence[int]) -> bytes:
    return _head_of(_LONG_TYPE, len(values), 8) + b"".join(map(long, values))


@lru_cache(maxsize=1024)
def _head_of(kind: int, count: int, size: int) -> bytes:
    """What comes before the elements of an array, if all of them have the same size."""
    head = _array_head(1, 0, kind) + _array_size(count, 1)
    return _length(len(head) + count * (4 + size)) + head


async def parcels(rows: Iterable[bytes]) -> AsyncIterator[bytes]:
    """A whole COPY file of these rows, in parts."""
    yield _FILE_HEAD
    left = iter(rows)
    while parcel := b"".join(islice(left, ROWS_PER_PARCEL)):
        yield parcel
    yield _FILE_END
