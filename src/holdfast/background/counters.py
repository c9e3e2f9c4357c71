"""What loops count."""

from __future__ import annotations

import msgspec


class Swept(msgspec.Struct, frozen=True):
    """What became of the items of one batch or sweep.

    `refused`: the store found the item changed since it was read, because another replica mended it
    or it mended itself; not an error. `skipped`: the item failed too often lately and rests for
    some sweeps.
    """

    found: int = 0
    mended: int = 0
    refused: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Swept) -> Swept:
        return Swept(
            self.found + other.found,
            self.mended + other.mended,
            self.refused + other.refused,
            self.failed + other.failed,
            self.skipped + other.skipped,
        )


class LoopCounters(msgspec.Struct):
    """One loop since it was made. `errors` counts ticks that failed as a whole."""

    ticks: int = 0
    errors: int = 0
    items: Swept = Swept()
    seconds: float = 0.0
    last_seconds: float = 0.0
    last_error: str | None = None

    def count_tick(self, seconds: float) -> None:
        self.ticks += 1
        self.seconds += seconds
        self.last_seconds = seconds

    def count_error(self, error: Exception) -> None:
        self.errors += 1
        self.last_error = f"{type(error).__name__}: {error}"
