"""The child's side of a process handler: one call at a time, until the pipe closes.

The parent sends the task's function by module and name (from its registry,
never from a payload) with the claimed job; all that crosses is JSON.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
from functools import cache
from multiprocessing.connection import Connection
from socket import socket
from typing import Any

from holdfast.context import Context
from holdfast.errors import BadArguments, BadResult, BadTask
from holdfast.handlers.exceptions import end_of, refused
from holdfast.handlers.registry import Handler
from holdfast.handlers.wire import Call, Reply, encode, read_call, read_kept, write_end
from holdfast.job.ends import End, Returned
from holdfast.job.record import Progress


def main(pipe: socket) -> None:
    """Serve calls until the parent closes the pipe or dies."""
    # A terminal sends Ctrl-C to the whole group; it is for the parent to decide what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    connection = Connection(pipe.detach())
    while True:
        try:
            call = read_call(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(write_end(_serve(call, connection)))


def _leave_with_parent() -> None:
    """A job whose worker was killed is run again elsewhere; this run of it must end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _PipeDesk:
    """A context's way out of the child. `cancelled` stays False: a cancel kills the child."""

    told_to_stop = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def report_sync(self, progress: Progress) -> bool:
        self._connection.send_bytes(encode(Reply(progress)))
        return read_kept(self._connection.recv_bytes())

    async def report(self, progress: Progress) -> bool:
        return self.report_sync(progress)


def _serve(call: Call, connection: Connection) -> End:
    try:
        handler = _handler(call.module, call.qualname, call.task, call.keep_result)
        context = Context(call.job, _PipeDesk(connection))
        args, kwargs = handler.signature.call_arguments(call.job.args, context)
    except (BadTask, BadArguments) as error:
        return refused(error)
    try:
        value = handler.function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - a function may end its call, not its process
        return end_of(error)
    try:
        return Returned(handler.signature.encode_result(value) if call.keep_result else None)
    except BadResult as error:
        return refused(error)


@cache
def _handler(module: str, qualname: str, task: str, keep_result: bool) -> Handler:
    """Find the registered function. Under its decorated name stands a Task; it knows its own."""
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadTask(
            task,
            f"process=True needs a function that a child process can import, and {module}:"
            f"{qualname} cannot be ({error}); define it at the top level of a module",
        ) from error
    function = getattr(found, "function", found)
    return Handler.of(task, function, process=True, keep_result=keep_result)
