"""Connections of Django, without a project: settings in memory, and one database each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings
from django.db.utils import ConnectionHandler


@contextmanager
def django_connections(**database: Any) -> Iterator[Any]:
    """Django's `connections`, with this database as its default; closed at the end."""
    if not settings.configured:
        settings.configure(USE_TZ=True, TIME_ZONE="UTC")
        django.setup()
        # Django refuses its connections where a loop runs, and nearly every test of ours is on one.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    handler = ConnectionHandler({"default": database})
    try:
        yield handler
    finally:
        handler["default"].close()


def on_postgres(url: str) -> dict[str, Any]:
    """The settings of a database for a URL as our own tests have it."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
    }


def on_sqlite(path: str) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
