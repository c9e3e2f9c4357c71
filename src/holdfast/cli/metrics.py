"""`holdfast metrics`: the figures of a store for Prometheus, once."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from holdfast.cli.output import complain
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession, require_store_file
from holdfast.errors import HoldfastError, StoreError
from holdfast.insights.figures import figures_of
from holdfast.store.open import open_store
from holdfast.telemetry.of_store import store_families
from holdfast.telemetry.text import to_text


@program.command("metrics")
@click.option(
    "--to",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Replace this file at once, for node_exporter's textfile collector.",
)
async def tell_metrics(session: CommandSession, to: Path | None) -> None:
    """Print the figures of the store as text for Prometheus.

    A store that does not answer is told as holdfast_store_up 0, and the exit code is 0: whoever
    scrapes the text must hear of it.
    """
    url = session.url
    require_store_file(url)
    store = open_store(url, may_create=False)
    try:
        figures = await figures_of(store)
    except StoreError as error:
        complain(f"the store does not answer: {error}")
        figures = None
    families = store_families(store.kind, figures)
    if to is not None:
        _replace(to, to_text(families))
        session.answer({"file": str(to), "store_up": figures is not None}, list)
    elif session.as_json:
        session.answer({"metrics": msgspec.to_builtins(families)}, list)
    else:
        click.echo(to_text(families), nl=False)


def _replace(file: Path, text: str) -> None:
    """In one step: a collector never reads half a file."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fresh.write_text(text, "utf-8")
        fresh.replace(file)
    except OSError as error:
        raise HoldfastError(f"cannot write {file}: {error.strerror or error}") from error
