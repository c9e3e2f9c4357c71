"""How long, as people write it: `90`, `90s`, `15m`, `2h`."""

from __future__ import annotations

import re
from typing import Final

EXAMPLES: Final = "seconds or such as 90s, 15m, 2h, 3d"
"""What an error says that people may write."""
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|w)?")


def parse_duration(text: str) -> float | None:
    """Seconds, or None when the text is no duration.

    >>> parse_duration("90"), parse_duration("1.5h"), parse_duration("soon")
    (90.0, 5400.0, None)
    """
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2] or "s"]
