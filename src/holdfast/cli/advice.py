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
        case Noun.QUEUES if action.target == EVERY_QUEUE:
            return [action.noun, action.verb, "--all"]
        case Noun.FLOWS if action.verb is Verb.CORRECT:
            return ["doctor", "--fix"]
        case Noun.FLOWS:
            node = [] if action.value is None else [str(action.value)]
            return [action.noun, action.verb, action.target, *node]
        case Noun.QUEUES | Noun.TASKS | Noun.SCHEDULES | Noun.FAILURES:
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


def _on_workers(action: Action) -> list[str]:
    if action.verb is Verb.DRAIN:
        return [action.noun, action.verb, action.target]
    return ["worker", "app:app", *(["--queues", action.target] if action.target else [])]


def _on_limits(action: Action) -> list[str]:
    key = [f"--key={action.which['key']}"] if "key" in action.which else []
    how = ["--most", "N"] if action.verb is Verb.SET else ["--for", str(action.value)]
    return [action.verb, action.target, *key, *how]


def _on_jobs(action: Action) -> list[str]:
    if action.verb is Verb.SIGNAL:
        return [action.verb, action.target, str(action.value)]
    command = JOB_COMMANDS[action.verb]
    which = [f"--{word}={value}" for word, value in action.which.items()]
    chosen = [action.target] if action.target else ["--all", *which]
    return [command.word, *chosen, *(["--to", str(action.value)] if command.asks_value else [])]
