"""Remedies as commands: an action of `explain` or `doctor`, written as one would type it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import assert_never

from holdfast.cli.words import JOB_COMMANDS
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.store.contract.queues import EVERY_QUEUE


def advice_text(advice: str, actions: Iterable[Action]) -> str:
    """The advice in words, followed by the commands that carry it out.

    >>> advice_text("resume the queue", [Action(Noun.QUEUES, Verb.RESUME, "mail")])
    'resume the queue: holdfast queues resume mail'
    """
    commands = ", or ".join(command_text(action) for action in actions)
    return ": ".join(part for part in (advice, commands) if part)


def command_text(action: Action) -> str:
    """The command that does what the action says."""
    return shlex.join(["holdfast", *_arguments(action)])


def _arguments(action: Action) -> list[str]:
    match action.noun:
        case Noun.JOBS:
            return ["jobs", *_on_jobs(action)]
        case Noun.QUEUES:
            return [action.noun, action.verb, *_on_queues(action)]
        case Noun.FLOWS if action.verb is Verb.CORRECT:
            return ["doctor", "--fix"]
        case Noun.FLOWS:
            node = [] if action.value is None else [str(action.value)]
            return [action.noun, action.verb, action.target, *node]
        case Noun.TASKS | Noun.SCHEDULES | Noun.FAILURES:
            return [action.noun, action.verb, action.target]
        case Noun.BOOKS:
            return ["doctor", "--fix"]
        case Noun.OPERATIONS:
            return [action.noun, action.verb.replace("_", "-"), action.target]
        case Noun.LIMITS:
            return [action.noun, *_on_limits(action)]
        case Noun.WORKERS:
            return _on_workers(action)
        case _:
            assert_never(action.noun)


def _on_queues(action: Action) -> list[str]:
    if action.target == EVERY_QUEUE:
        return ["--all"]
    if action.verb is Verb.TUNE:
        return [action.target, f"--{str(action.value).replace('_', '-')}", "N"]
    return [action.target]


def _on_workers(action: Action) -> list[str]:
    if action.verb is Verb.DRAIN:
        return [action.noun, action.verb, action.target]
    queues = ["--queues", action.target] if action.target else []
    labels = [] if action.value is None else ["--labels", str(action.value)]
    return ["worker", "app:app", *queues, *labels]


def _on_limits(action: Action) -> list[str]:
    key = [f"--key={action.which['key']}"] if "key" in action.which else []
    match action.verb:
        case Verb.SET:
            create = ["--create"] if "create" in action.which else []
            return ["set", action.target, *key, *create, f"--{action.value or 'most'}", "N"]
        case Verb.TOP_UP:
            return ["top-up", action.target, *key, "N"]
        case Verb.DRAIN:
            return ["drain", action.target, *key, "--for", str(action.value)]
    return [action.verb, action.target, *key]


def _on_jobs(action: Action) -> list[str]:
    if action.verb is Verb.SIGNAL:
        return [action.verb, action.target, str(action.value)]
    command = JOB_COMMANDS[action.verb]
    which = [f"--{word}={value}" for word, value in action.which.items()]
    chosen = [action.target] if action.target else ["--all", *which]
    return [command.word, *chosen, *(["--to", str(action.value)] if command.asks_value else [])]
