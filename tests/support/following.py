"""Followers of real jobs: what they see has to be one whole try in the end, whatever died."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from holdfast.handle import JobHandle


@dataclass
class Seen:
    """What a follower of `talkative` has shown, by section, and how late each frame came."""

    shown: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    delays: list[float] = field(default_factory=list)
    restarts: int = 0

    async def follow(self, job: JobHandle[int]) -> None:
        """To the end; now and then as one that comes back with its cursor."""
        cursor, is_over = None, False
        while not is_over:
            is_over, number = True, 0
            async for frame in job.stream("tokens", after=cursor):
                now, cursor = time.monotonic(), frame.cursor
                if frame.restarted:
                    self.shown[frame.section] = []
                    self.restarts += 1
                self.shown.setdefault(frame.section, []).append(frame.data)
                if frame.section == "":
                    self.delays.append(now - frame.data["at"])
                number += 1
                if number == 150:
                    is_over = False
                    break

    def check(self, count: int, fence: int) -> None:
        """F11: in the end one try, dense from 0, of one fence; what the recorded step said is
        there once."""
        said = self.shown[""]
        assert [frame["n"] for frame in said] == list(range(count))
        assert {frame["fence"] for frame in said} == {fence}
        assert len(self.shown["hello"]) == 1


def share(delays: list[float], part: float) -> float:
    """The delay that this part of the frames did not exceed."""
    return sorted(delays)[min(len(delays) - 1, int(part * len(delays)))]
