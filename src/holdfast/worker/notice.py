"""The notice that a worker is to leave: who gave it, and whether running work is waited for.

A first signal asks to leave, and a second one of SIGTERM or SIGINT to hurry. SIGHUP asks to leave
and never to hurry: somebody wants new code, or a terminal is gone. Whoever starts workers puts
another in the place of one that leaves because of SIGHUP or a limit, unless it was told to stop
meanwhile.
"""

from __future__ import annotations

import asyncio
import signal


class Notice:
    """What one worker was told so far. `signals` is counted by the thread that hears signals, all
    else on the worker's loop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        self.drained = False  # an operator's order
        self.retiring = False  # it has done enough
        self.signals = 0  # without SIGHUP
        self._hung_up = False
        self._stops_heard = 0

    def count(self, number: signal.Signals) -> None:
        """Note a signal at once, also while the loop is blocked."""
        self.signals += number is not signal.SIGHUP

    def hear(self, number: signal.Signals) -> bool:
        """Note a signal on the loop; answers whether it says to hurry."""
        if number is signal.SIGHUP:
            self._hung_up = True
            return False
        again = self.asked.is_set() and not (self._hung_up and self._stops_heard == 0)
        self._stops_heard += 1
        return again

    @property
    def wants_successor(self) -> bool:
        return (self._hung_up or self.retiring) and not (self.signals or self.drained)

    @property
    def why(self) -> str:
        """Nothing while the worker stays."""
        if self.wants_successor:
            return "reload" if self._hung_up else "limit"
        if self.drained:
            return "drain"
        return "stop" if self.asked.is_set() else ""
