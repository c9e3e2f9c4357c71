"""The groups of commands, apart so that any module can add to them."""

from __future__ import annotations

import typer


def group(about: str) -> typer.Typer:
    """Errors of ours are one line each; any other is a defect, and its traceback stays plain."""
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
