"""Remedies as data: insights name verbs, the command line writes commands."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast.insights
from holdfast.cli.advice import advice_text, command_text
from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.job.redaction import redact
from tests.unit.cli import Desk, desk_in

JOB = "01a1e540-7899-732e-a343-0b5536664571"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("action", "command"),
    [
        (Action(Noun.JOBS, Verb.REQUEUE, JOB), f"holdfast jobs retry {JOB}"),
        (Action(Noun.JOBS, Verb.RESCHEDULE, JOB, value=0), f"holdfast jobs run-now {JOB}"),
        (Action(Noun.JOBS, Verb.RESUME, JOB), f"holdfast jobs resume {JOB}"),
        (
            Action(Noun.JOBS, Verb.REPRIORITISE, JOB, value=-4),
            f"holdfast jobs reprioritise {JOB} --to -4",
        ),
        (
            Action(Noun.JOBS, Verb.MOVE, which={"queue": "lonely"}, value="default"),
            "holdfast jobs move --all --queue=lonely --to default",
        ),
        (
            Action(Noun.JOBS, Verb.CANCEL, which={"task": "it's odd"}),
            "holdfast jobs cancel --all '--task=it'\"'\"'s odd'",
        ),
        (Action(Noun.QUEUES, Verb.RESUME, "mail"), "holdfast queues resume mail"),
        (Action(Noun.QUEUES, Verb.RESUME, "*"), "holdfast queues resume --all"),
        (Action(Noun.TASKS, Verb.RESUME, "mail.send"), "holdfast tasks resume mail.send"),
        (Action(Noun.SCHEDULES, Verb.DELETE, "nightly"), "holdfast schedules delete nightly"),
        (Action(Noun.OPERATIONS, Verb.GO_ON, JOB), f"holdfast operations go-on {JOB}"),
        (Action(Noun.BOOKS, Verb.CORRECT), "holdfast doctor --fix"),
        (START_WORKER, "holdfast worker app:app"),
        (Action(Noun.WORKERS, Verb.START, "mail"), "holdfast worker app:app --queues mail"),
    ],
)
def test_an_action_is_written_as_its_command(action: Action, command: str) -> None:
    assert command_text(action) == command


def test_advice_is_followed_by_every_command_that_carries_it_out() -> None:
    assert advice_text("just wait", []) == "just wait"
    assert advice_text("", [START_WORKER]) == "holdfast worker app:app"
    both = [START_WORKER, Action(Noun.QUEUES, Verb.RESUME, "mail")]
    written = "holdfast worker app:app, or holdfast queues resume mail"
    assert advice_text("start one", both) == f"start one: {written}"


def test_the_command_that_an_explanation_names_can_be_typed(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue(delay=60.0))
    [reason] = desk.json("jobs", "explain", job)["reasons"]
    action = {"noun": "jobs", "verb": "reschedule", "target": job, "which": {}, "value": 0.0}
    assert reason["action"] == action
    assert reason["command"] in desk.on_store("jobs", "explain", job, width=200).out
    assert desk.on_store(*reason["command"].split()[1:]).code == 0
    assert desk.json("jobs", "show", job)["state"] == "ready"


def test_the_commands_that_the_doctor_names_can_be_typed(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue(queue="lonely"))
    [found] = [each for each in desk.json("doctor", code=1)["findings"] if each["actions"]]
    assert found["commands"][0] == "holdfast worker app:app --queues lonely"
    move = found["commands"][1].split()[1:]
    assert " ".join(move) in " ".join(desk.on_store("doctor", width=300).out.split())
    assert desk.on_store(*move, "--yes").out == "1 of 1 job moved to default\n"


def texts(tree: ast.AST) -> list[str]:
    """Every text of a module that is no docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


def test_insights_hold_no_command() -> None:
    files = list(Path(holdfast.insights.__path__[0]).glob("*.py"))
    assert files
    for file in files:
        for text in texts(ast.parse(file.read_text())):
            assert "holdfast " not in text, f"{file.name}: {text}"
            assert "--" not in text, f"{file.name}: {text}"


def test_no_password_of_a_url_is_shown_wherever_it_stands() -> None:
    told = "cannot reach postgres://ann:secret@db/jobs, nor redis://:hidden@cache"
    assert redact(told) == "cannot reach postgres://ann:***@db/jobs, nor redis://:***@cache"
