"""The Postgres backend: asyncpg, one SQL file per verb, no session state."""
