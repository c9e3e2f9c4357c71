"""Functions run in child processes, which can really be stopped.

Each child has a socket of its own and runs one call at a time. Children share nothing, so killing
one in the middle of a write can neither corrupt nor block another; the pool starts a new child
when it next needs one. A child is killed with SIGKILL, and the kill is waited for, so an attempt
never ends while its function still runs.
"""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from multiprocessing.context import SpawnProcess

import msgspec

from holdfast.handlers import child, wire
from holdfast.handlers.registry import Handler
from holdfast.job.ends import End, WorkerLost
from holdfast.job.importable import name_in_child
from holdfast.job.record import Claimed
from holdfast.job.requests import Answer, Request
from holdfast.logs.setup import plan_in_force

_HEADER = struct.Struct("!i")  # the framing of multiprocessing.connection.Connection
_SPAWN = multiprocessing.get_context("spawn")  # fork copies locks and loops in unknown states

DYING_SECONDS = 1.0
"""Seconds a child that closed its end has to finish dying."""

LEAVING_SECONDS = 0.4
"""Seconds an idle child has to leave by itself, so that what its modules do at exit is done: a
library that collects spans or reports sends the last of them there."""

Ask = Callable[[Request], Awaitable[Answer]]


class Child:
    """One child process and this end of its socket."""

    def __init__(self, process: SpawnProcess, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:  # fmt: skip
        self.process = process
        self._reader = reader
        self._writer = writer
        self._stopped = False

    @classmethod
    async def start(cls, imports: tuple[str, ...] = ()) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            process = _SPAWN.Process(
                target=child.main, args=(theirs, imports, plan_in_force()), name="holdfast-child"
            )
            process.start()
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            process.kill()
            process.join()
            raise
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        return not self._stopped and self.process.is_alive()

    async def call(self, call: wire.Call, ask: Ask) -> End:
        """How the function ended; a child that ends first counts as a lost worker."""
        try:
            await self._send(call)
            while isinstance(message := await self._receive(), Request):
                await self._send(await ask(message))
            return message
        except (EOFError, ConnectionError):
            await self.stop(after=DYING_SECONDS)
            return WorkerLost(_last_words(self.process))

    async def stop(self, *, after: float = 0.0) -> None:
        """Kill the process and wait until it is gone; one that is dying has `after` seconds to
        end by itself, so that its exit code says why."""
        self._stopped = True
        kill_at = asyncio.get_running_loop().time() + after
        self._writer.close()
        while self.process.is_alive():
            if asyncio.get_running_loop().time() >= kill_at:
                self.process.kill()
            await asyncio.sleep(0.002)

    async def _send(self, message: object) -> None:
        data = wire.encode(message)
        self._writer.write(_HEADER.pack(len(data)) + data)
        await self._writer.drain()

    async def _receive(self) -> wire.FromChild:
        try:
            (size,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            return wire.read_message(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError:
            raise EOFError from None


class Processes:
    """Warm children, started when first needed, at most `size` at a time. A child first imports
    what its worker imported."""

    def __init__(self, size: int, imports: tuple[str, ...] = ()) -> None:
        self._imports = imports
        self._size = self._room = size
        self._idle: list[Child] = []
        self._children: set[Child] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def run(
        self,
        handler: Handler,
        job: Claimed,
        *,
        keep_result: bool,
        carried: dict[str, str],
        begin: Callable[[], None],
        ask: Ask,
    ) -> End:
        """How the function ended. `carried` goes to its context. `begin` is called when a child is
        free for it, and `ask` with each request that the function sends to its worker.

        If the wait is interrupted, the child is killed before this returns. Otherwise the child
        would later send the end of this call as the answer to the next one.
        """
        function, around = handler.function, handler.surroundings
        call = wire.Call(
            name_in_child(function.__module__),
            function.__qualname__,
            handler.name,
            job if job.recalled is None else msgspec.structs.replace(job, recalled=None),
            keep_result,
            around.importable_hooks if around is not None else (),
            carried,
        )
        one = await self._take()
        begin()
        try:
            return await one.call(call, ask)
        except BaseException:
            await asyncio.shield(one.stop())
            raise
        finally:
            self._give(one)

    def resize(self, size: int) -> None:
        """Run at most so many calls at a time from now on. Calls that run go on."""
        self._room += size - self._size
        self._size = size
        for _ in range(self._room):
            self._call_next()

    async def close(self) -> None:
        """Let idle children leave, and kill those that still run a function."""
        idle, self._idle = set(self._idle), []
        children = tuple(self._children)
        stops = (one.stop(after=LEAVING_SECONDS if one in idle else 0.0) for one in children)
        await asyncio.gather(*stops)
        for one in children:
            self._forget(one)

    async def _take(self) -> Child:
        while self._room <= 0:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._call_next()
                raise
        self._room -= 1
        while self._idle:
            one = self._idle.pop()
            if one.alive:
                return one
            self._forget(one)
        try:
            return await self._start()
        except BaseException:
            self._room += 1
            self._call_next()
            raise

    async def _start(self) -> Child:
        one = await Child.start(self._imports)
        self._children.add(one)
        # Children are not daemons, so that a handler may have children of its own; a program
        # that leaves without closing the pool must then not wait for them forever.
        atexit.register(one.process.kill)
        return one

    def _give(self, one: Child) -> None:
        self._room += 1
        if one.alive:
            self._idle.append(one)
        else:
            self._forget(one)
        self._call_next()

    def _forget(self, one: Child) -> None:
        self._children.discard(one)
        atexit.unregister(one.process.kill)

    def _call_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def _last_words(process: SpawnProcess) -> str:
    code = process.exitcode
    how = f"was killed by signal {-code}" if code and code < 0 else f"exited with code {code}"
    return f"the handler's process {how} before the function returned"
