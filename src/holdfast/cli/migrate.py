"""`holdfast migrate`: bring the store's schema up to this program."""

from __future__ import annotations

import click

from holdfast.cli.program import program
from holdfast.cli.target import CommandSession, shown_url
from holdfast.store.open import open_store


@program.command("migrate")
@click.option("--sql", is_flag=True, help="Print the migrations instead of applying them.")
async def migrate(session: CommandSession, sql: bool) -> None:
    """Apply the migrations that are missing.

    A SQLite store does so when it is opened. The store must be named by --url, --app or the
    settings.
    """
    url = session.named_url
    store, where = open_store(url), shown_url(url)
    if sql:
        script = store.migration_sql()
        if session.as_json:
            session.answer({"sql": script}, list)
        else:
            print(script)  # not by Rich, which would wrap and colour a script for psql
        return
    try:
        applied = await store.migrate()
    finally:
        await store.close()
    done = [f"applied {name} to {where}" for name in applied]
    current = f"nothing to do: the schema of {where} is up to date"
    session.answer({"applied": applied, "store": where}, lambda: done or [current])
