"""What happened, as values: the code emits events, logging and metrics subscribe.

An event is a name and fields. The message never varies, the fields do, so a
log can be searched and a counter can be kept without parsing text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec

logger = logging.getLogger("holdfast")


class Event(msgspec.Struct, frozen=True):
    """Something that happened: `job.failed`, `worker.started`, `reconciler.tick`, …"""

    name: str
    fields: Mapping[str, object]
    level: int = logging.INFO


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber; a subscriber that raises harms nobody else."""

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers: list[Subscriber] = list(subscribers)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def info(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields))

    def warning(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields, logging.WARNING))

    def error(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields, logging.ERROR))

    def debug(self, name: str, **fields: object) -> None:
        self.emit(Event(name, fields, logging.DEBUG))

    def emit(self, event: Event) -> None:
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception:
                logger.exception("event subscriber failed", extra={"event": event.name})


def log_event(event: Event) -> None:
    """The default subscriber: standard logging, fields readable and under `extra`."""
    if logger.isEnabledFor(event.level):
        shown = " ".join(f"{key}={value}" for key, value in event.fields.items())
        extra = {"event": event.name, "fields": dict(event.fields)}
        logger.log(event.level, "%s %s", event.name, shown, extra=extra)
