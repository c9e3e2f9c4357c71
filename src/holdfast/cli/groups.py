"""The groups of commands: `holdfast jobs`, `holdfast queues` and so on."""

from __future__ import annotations

import typer


def group(about: str) -> typer.Typer:
    """A group of commands. An error of Holdfast is shown as one line. Any other exception is a
    defect, and is shown with Python's own traceback."""
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


jobs_group = group("Look at jobs and change them.")
queues_group = group("Look at queues, pause, resume and tune them.")
schedules_group = group("Look at schedules, question and change them.")
workers_group = group("Look at workers.")
