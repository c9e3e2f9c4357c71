"""Which task undoes a step or a node, as it is written down."""

from __future__ import annotations

from inspect import Parameter

from holdfast.codec.signature import Signature
from holdfast.enqueue.maker import JobMaker
from holdfast.errors import BadOption
from holdfast.job.undo import Undo
from holdfast.task import Task

TAKES = "a task of this program that takes the result, and needs nothing more"


def undo_of(task: object) -> Undo:
    """The task gets the result of what it undoes as its first parameter."""
    return task_of_one("undo", TAKES, task)


def task_of_one(option: str, takes: str, task: object) -> Undo:
    """A task that is given one value, as it is written down to be run later."""
    if not isinstance(task, Task) or not isinstance(task.codec, Signature):
        raise BadOption(option, takes, task)
    parameters = [*task.codec.parameters.parameters.values()]
    if not parameters or any(one.default is Parameter.empty for one in parameters[1:]):
        raise BadOption(option, takes, task)
    options = task.options
    for word, given in (
        ("unique", options.unique),
        ("run_at", options.run_at),
        ("delay", options.delay),
    ):
        if given is not None:
            raise BadOption(word, f"left out for {option}=…: the task runs in its turn", given)
    if options.line:
        raise BadOption("limits, fair and requires", f"left out for {option}=…", task.name)
    job = JobMaker(task.name, options).make("{}")
    return Undo(
        task.name, parameters[0].name, job.queue, job.policy, job.priority, job.tags, job.headers
    )
