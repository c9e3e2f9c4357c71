"""Who did it: each change that an operator makes is reported as an event.

A caller that acts for somebody passes `actor`: a user's name, a token's name, `ann@host`. A
program that calls a verb for its own purposes passes none, and nothing is reported.
"""

from __future__ import annotations

from holdfast.events import Events, log_event
from holdfast.insights.actions import Noun, Verb


class Acts:
    """Reports what actors did."""

    def __init__(self, events: Events | None = None) -> None:
        self._events = events or Events(log_event)

    def report(
        self,
        actor: str | None,
        noun: Noun,
        verb: Verb,
        target: object,
        *,
        value: object = None,
        changed: int = 1,
    ) -> None:
        """Emit `operator.acted`. `target` is an id, a name, or the words of a job filter;
        `changed` counts the jobs, queues or schedules that are different now."""
        if actor is not None:
            self._events.info(
                "operator.acted",
                actor=actor,
                verb=f"{noun}.{verb}",
                target=target,
                value=value,
                changed=changed,
            )
