"""Which queues a worker serves: queues by name, and patterns such as `mail*` or `*`.

A pattern ends in a star, which no name of a queue does. It stands for every queue whose name begins
with what is before the star, also one that comes into being later.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.job.checks import check_name


def is_pattern(choice: str) -> bool:
    return choice.endswith("*")


def choice_of(queue: str, choices: Collection[str]) -> str | None:
    """By which of these names and patterns a queue is served: by its own name, else by the longest
    pattern that fits.

    >>> choices = ["*", "mail*", "mail"]
    >>> [choice_of(queue, choices) for queue in ("mail", "mail-eu", "media")]
    ['mail', 'mail*', '*']
    >>> choice_of("media", ["mail*"])
    """
    if queue in choices:
        return queue
    return max((one for one in choices if _fits(queue, one)), key=len, default=None)


def check_choice(choice: object, what: str = "queue") -> None:
    """Raise `BadOption` unless a queue can have this name, or one that this pattern fits."""
    if choice == "*":
        return
    is_prefix = isinstance(choice, str) and is_pattern(choice)
    check_name(what, choice[:-1] if is_prefix and isinstance(choice, str) else choice)


def _fits(queue: str, choice: str) -> bool:
    return is_pattern(choice) and queue.startswith(choice[:-1])
