"""All commands of `holdfast`, in the order of its help."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import (
    demo,
    doctor,
    enqueue,
    jobs,
    jobs_verbs,
    migrate,
    queues,
    schedules,
    schedules_verbs,
    worker,
    workers,
)
from holdfast.cli.command import AppOption, Given, JsonOption, UrlOption
from holdfast.cli.groups import group, jobs_group, queues_group, schedules_group, workers_group

program = group("Durable jobs for Python: run workers, look at jobs, mend what went wrong.")

# Registered in the order in which `holdfast --help` lists them.
worker.register(program)
enqueue.register(program)
jobs.register(jobs_group)
jobs_verbs.register(jobs_group)
queues.register(queues_group)
schedules.register(schedules_group)
schedules_verbs.register(schedules_group)
workers.register(workers_group)
program.add_typer(jobs_group, name="jobs")
program.add_typer(queues_group, name="queues")
program.add_typer(schedules_group, name="schedules")
program.add_typer(workers_group, name="workers")
migrate.register(program)
doctor.register(program)
demo.register(program)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"holdfast {version('holdfast')}")
        raise typer.Exit


@program.callback()
def root(
    ctx: typer.Context,
    url: UrlOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, callback=_show_version, help="Show the version."
        ),
    ] = False,
) -> None:
    """Global options may stand before the command or after it."""
    ctx.obj = Given(url, app, as_json)
