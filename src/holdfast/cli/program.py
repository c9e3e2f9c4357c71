"""All commands of `holdfast`, in the order of its help."""

from __future__ import annotations

import click

from holdfast import __version__
from holdfast.cli.command import Group, Program, global_options
from holdfast.cli.target import CommandSession

MODULES = {
    "worker": ["worker"],
    "enqueue": ["enqueue"],
    "jobs": ["jobs", "jobs_verbs", "signals", "streams"],
    "queues": ["queues"],
    "tasks": ["tasks"],
    "schedules": ["schedules", "schedules_verbs"],
    "flows": ["flows"],
    "waits": ["signals"],
    "limits": ["limits"],
    "workers": ["workers", "workers_drain"],
    "top": ["top"],
    "operations": ["operations"],
    "failures": ["failures"],
    "audit": ["audit"],
    "keys": ["keys"],
    "migrate": ["migrate"],
    "doctor": ["doctor"],
    "health": ["health"],
    "stats": ["stats"],
    "metrics": ["metrics"],
    "demo": ["demo"],
}
"""The modules that add each command, or the commands of each group."""


def _before_the_command(url: str | None, app: str | None, as_json: bool) -> None:
    """Keep the global options that stood before the command."""
    click.get_current_context().obj = CommandSession(url, app, as_json)


program = Program(
    {name: [f"holdfast.cli.{module}" for module in modules] for name, modules in MODULES.items()},
    name="holdfast",
    help="Durable jobs for Python: run workers, look at jobs, mend what went wrong.",
    params=global_options(),
    callback=_before_the_command,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
click.version_option(__version__, "--version", "-V", message="holdfast %(version)s")(program)


def _group(name: str, about: str) -> Group:
    group = Group(name, help=about)
    program.add_command(group)
    return group


jobs_group = _group("jobs", "Look at jobs and change them.")
queues_group = _group("queues", "Look at queues, pause, resume and tune them.")
tasks_group = _group("tasks", "Look at paused tasks, pause and resume them.")
schedules_group = _group("schedules", "Look at schedules, question and change them.")
flows_group = _group("flows", "Look at flows, cancel, pause, resume and retry them.")
waits_group = _group("waits", "Look at what suspended jobs wait for, and answer.")
limits_group = _group("limits", "Look at limits and their buckets, change, shut and open them.")
workers_group = _group("workers", "Look at workers, and tell them to leave.")
operations_group = _group("operations", "Look at acts on many jobs, stop and undo them.")
failures_group = _group("failures", "Look at errors by cause, mute them, run their jobs again.")
audit_group = _group("audit", "Look at what operators did.")
keys_group = _group("keys", "Make keys for encryption, and see which are still needed.")
