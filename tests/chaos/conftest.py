"""The same fleets as in the system tests, for longer and rougher runs."""

from __future__ import annotations

from tests.system.conftest import app, durable_postgres, fleet, shared_backend, shared_url

__all__ = ["app", "durable_postgres", "fleet", "shared_backend", "shared_url"]
