"""All commands of `holdfast`, in the order of its help."""

from __future__ import annotations

import click

from holdfast import __version__
from holdfast.cli.command import Group, HelpLine, Program, global_options
from holdfast.cli.target import CommandSession

COMMANDS = {
    "worker": HelpLine("Run jobs of an app until told to stop.", ["worker"]),
    "enqueue": HelpLine("Enqueue one job.", ["enqueue"]),
    "jobs": HelpLine("Look at jobs and change them.", ["jobs", "jobs_verbs", "signals", "streams"]),
    "queues": HelpLine("Look at queues, pause, resume and tune them.", ["queues"]),
    "tasks": HelpLine("Look at paused tasks, pause and resume them.", ["tasks"]),
    "schedules": HelpLine(
        "Look at schedules, question and change them.", ["schedules", "schedules_verbs"]
    ),
    "flows": HelpLine("Look at flows, cancel, pause, resume and retry them.", ["flows"]),
    "waits": HelpLine("Look at what suspended jobs wait for, and answer.", ["signals"]),
    "limits": HelpLine("Look at limits and their buckets, change, shut and open them.", ["limits"]),
    "workers": HelpLine("Look at workers, and tell them to leave.", ["workers", "workers_drain"]),
    "top": HelpLine("Watch queues, jobs, failures and workers, and act on them.", ["top"]),
    "operations": HelpLine("Look at acts on many jobs, stop and undo them.", ["operations"]),
    "failures": HelpLine("Look at errors by cause, mute them, run their jobs again.", ["failures"]),
    "audit": HelpLine("Look at what operators did.", ["audit"]),
    "keys": HelpLine("Make keys for encryption, and see which are still needed.", ["keys"]),
    "migrate": HelpLine("Apply the migrations that are missing.", ["migrate"]),
    "doctor": HelpLine("Check schema, clock, workers, queues, stuck jobs and flows.", ["doctor"]),
    "health": HelpLine(
        "Ask the store whether a worker is alive: exit code 0, or 1 with the reason.", ["health"]
    ),
    "stats": HelpLine(
        "Show how many jobs there were, how they ended, and how long they waited and ran.",
        ["stats"],
    ),
    "metrics": HelpLine("Print the figures of the store as text for Prometheus.", ["metrics"]),
    "demo": HelpLine("Watch jobs of every kind run.", ["demo"]),
}


def _before_the_command(url: str | None, app: str | None, as_json: bool) -> None:
    """Keep the global options that stood before the command."""
    click.get_current_context().obj = CommandSession(url, app, as_json)


program = Program(
    COMMANDS,
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


def _group(name: str) -> Group:
    group = Group(name, help=COMMANDS[name].about)
    program.add_command(group)
    return group


jobs_group = _group("jobs")
queues_group = _group("queues")
tasks_group = _group("tasks")
schedules_group = _group("schedules")
flows_group = _group("flows")
waits_group = _group("waits")
limits_group = _group("limits")
workers_group = _group("workers")
operations_group = _group("operations")
failures_group = _group("failures")
audit_group = _group("audit")
keys_group = _group("keys")
