"""Time zones by name. Every program of a store has to mean the same by a name: a budget would begin
anew at another moment in each of them, and a schedule would fire at another."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.errors import BadOption

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

OF_THE_MACHINE = frozenset({"localtime", "posixrules"})
"""What the administrator of a machine has set there."""
FOLDERS_OF_THE_MACHINE = ("posix/", "right/")
"""Some systems have copies of all zones there, and those under `right` count leap seconds."""


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """The zone of an IANA name; the error says what is wrong with it."""
    from zoneinfo import ZoneInfo  # a program without schedules and budgets needs none

    plain = name.lower()
    if plain in OF_THE_MACHINE or plain.startswith(FOLDERS_OF_THE_MACHINE):
        expected = "an IANA name such as Europe/Berlin, which is the same zone on every machine"
        raise BadOption("timezone", expected, name)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadOption("timezone", f"an IANA name such as Europe/Berlin ({error})", name) from None
