"""What must not be shown: one function for the command line, logs and web pages."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(?P<user>(?://|\b)[^\s:/@]*):[^\s@/]+@")


def redact(text: str) -> str:
    """The text without the password of any URL that stands in it.

    >>> redact("cannot reach postgres://ann:secret@db/jobs")
    'cannot reach postgres://ann:***@db/jobs'
    """
    return _PASSWORD.sub(r"\g<user>:***@", text)
