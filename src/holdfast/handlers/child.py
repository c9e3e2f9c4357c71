"""The child's side of a process handler: one call at a time, until the pipe closes.

The parent names the task's function by module and name, which it takes from its registry and
never from a payload, and sends the claimed job along. Everything that crosses the pipe is JSON.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
from functools import cache, partial
from multiprocessing.connection import Connection
from socket import socket
from typing import Any

from holdfast.context import HOLDER, Context, JobHolder
from holdfast.errors import BadArguments, BadOption, BadResult, BadTask
from holdfast.handlers.exceptions import end_of, refused
from holdfast.handlers.registry import Handler
from holdfast.handlers.wire import Call, encode, read_answer, read_call, write_end
from holdfast.job.ends import DoesNotFit, End, Returned
from holdfast.job.requests import Answer, Request
from holdfast.logs.setup import LogPlan, set_up_logs


def main(pipe: socket, imports: tuple[str, ...], logs: LogPlan | None) -> None:
    """Serve calls until the parent closes the pipe or dies. `imports` is what the parent imported
    before it started, and `logs` how it set up its logging, if it did."""
    # A terminal sends Ctrl-C, and SIGHUP when it closes, to the whole group; but only the parent
    # decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    connection = Connection(pipe.detach())
    while True:
        try:
            call = read_call(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(write_end(_serve(call, imports, logs, connection)))


def _leave_with_parent() -> None:
    """End with the parent: the job of a killed worker runs again elsewhere."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _PipeLink:
    """A context's way out of the child. It never says to stop: a cancel kills the child."""

    must_stop = is_over = False
    stop_reason = None

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ask_sync(self, request: Request) -> Answer:
        self._connection.send_bytes(encode(request))
        return read_answer(self._connection.recv_bytes())

    async def ask(self, request: Request) -> Answer:
        return self.ask_sync(request)

    async def finish_within(self, connection: object, result: object) -> bool:
        return self.finish_within_sync(connection, result)

    def finish_within_sync(self, connection: object, result: object) -> bool:
        where = "called in a handler on the loop or in a thread: a child process has no store"
        raise BadOption("finish_within", where, "process=True")


def _serve(
    call: Call, imports: tuple[str, ...], logs: LogPlan | None, connection: Connection
) -> End:
    try:
        handler = _handler(imports, call.module, call.qualname, call.task, call.keep_result)
        _set_up_once(logs)
        hooks = [_imported(module, qualname, call.task) for module, qualname in call.hooks]
        context = Context(call.job, _PipeLink(connection), call.carried)
        args, kwargs = handler.signature.call_arguments(call.job.args, context)
    except BadTask as error:
        return refused(error)
    except BadArguments as error:
        return DoesNotFit(str(error))
    except BaseException as error:  # noqa: BLE001 - the user's modules, which may raise anything
        return end_of(error)
    HOLDER.set(JobHolder(call.job))
    run = partial(handler.function, *args, **kwargs)
    for hook in reversed(hooks):
        run = partial(hook, context, run)
    try:
        value = run()
    except BaseException as error:  # noqa: BLE001 - a function may end its call, not its process
        return end_of(error)
    try:
        return Returned(handler.signature.encode_result(value) if call.keep_result else None)
    except BadResult as error:
        return refused(error)


@cache
def _set_up_once(logs: LogPlan | None) -> None:
    """When the modules are imported that may set up logging themselves."""
    if logs is not None:
        set_up_logs(logs)


@cache
def _handler(
    imports: tuple[str, ...], module: str, qualname: str, task: str, keep_result: bool
) -> Handler:
    """Import what the worker imported, then the registered function. A decorated name is bound
    to a `Task`, which holds its function. Whatever a module raises is the error of the attempt.
    The next attempt imports the module again."""
    for name in imports:
        importlib.import_module(name)
    found = _imported(module, qualname, task)
    function = getattr(found, "function", found)
    return Handler.of(task, function, process=True, keep_result=keep_result)


def _imported(module: str, qualname: str, task: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise _unreachable(module, qualname, task, error) from error
    try:
        for part in qualname.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise _unreachable(module, qualname, task, error) from error
    return found


def _unreachable(module: str, qualname: str, task: str, error: Exception) -> BadTask:
    return BadTask(
        task,
        f"process=True needs a function that a child process can import, and {module}:"
        f"{qualname} cannot be ({error}); define it at the top level of a module",
    )
