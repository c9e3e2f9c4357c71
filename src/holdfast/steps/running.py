"""The steps and sleeps of one attempt, where its handler runs.

A step asks the worker whether an earlier attempt has recorded its name. If not, its function is
called here, and the worker writes down how that ended. A failure is written lazily: with the next
step, because the handler then has gone on in spite of it. If the attempt fails instead, the next
attempt tries the step again.

A sleep leaves the handler (`Suspending`), so that its slot is free. It waits first until no other
step of the attempt is under way: what a step has done is not thrown away.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NoReturn

from holdfast.codec.results import Misfit, ResultType
from holdfast.context import AttemptLost
from holdfast.errors import BadOption, HoldfastError, StepFailed, StepRefused
from holdfast.job import checks
from holdfast.job.ends import AttemptEnd, Suspending
from holdfast.job.record import Claimed
from holdfast.job.requests import (
    Answer,
    FindStep,
    KeepStep,
    LeaveHandler,
    Request,
    StepFound,
    StepKept,
    Wait,
    WaitOver,
)
from holdfast.job.retry import Retry, exception_names
from holdfast.job.step import Step, StepRecord
from holdfast.job.text import MESSAGE_LIMIT, clean, describe
from holdfast.job.ties import Tie
from holdfast.steps.calling import Chosen
from holdfast.steps.results import result_type
from holdfast.steps.ways import Way

KEEPS_SLOT = 1.0
"""A shorter sleep keeps its slot: giving it back and taking it again would take about as long."""

TRY_KEEPS_SLOT = 5.0
"""A shorter wait between two tries of a step keeps its slot."""

LONGEST_NAME = 200
STEPS = int(Tie.STEPS)
_NUMBERED = re.compile(r"#\d+\Z")

WITHIN: ContextVar[str] = ContextVar("holdfast-step")
"""The step whose function runs here."""
TRIES: ContextVar[int] = ContextVar("holdfast-tries")
"""How often that function was called, this time included."""


class StepRunner:
    """Runs the steps of one attempt."""

    __slots__ = ("_began", "_claimed", "_inside", "_left", "_names", "_quiet", "_running", "_way")

    def __init__(self, claimed: Claimed, way: Way) -> None:
        self._claimed = claimed
        self._way = way
        self._began = time.monotonic()
        self._names: dict[str, int] = {}
        self._inside: dict[str, list[str]] = {}
        self._running = 0
        self._quiet: list[asyncio.Future[None]] = []
        self._left = False

    @property
    def has_loop(self) -> bool:
        """Whether the handler is a coroutine."""
        return self._way.has_loop

    def named(self, name: str) -> str:
        """The name under which a call is recorded: the second of a name is `name#2`. It is counted
        when a step is called, not when it runs, so steps of a `gather` have their order."""
        self._require_staying()
        times = self._names.get(name, 0) + 1
        if times == 1:
            checks.text("the name of a step", name, LONGEST_NAME)
            if "#" in name and _NUMBERED.search(name):
                expected = "a name without a number behind #: repeated names are numbered so"
                raise BadOption("the name of a step", expected, name)
        self._names[name] = times
        return name if times == 1 else f"{name}#{times}"

    # Steps --------------------------------------------------------------------------------------

    async def call(self, name: str, function: Callable[[], Any], chosen: Chosen) -> Any:
        """What the step gives: recorded, or by calling its function now."""
        results = result_type(function)
        found = await self._found(name)
        if found is not None and found.returned and found.result_json is not None:
            try:
                return results.decode(found.result_json)
            except Misfit as misfit:
                self._require_version(found, chosen, misfit)
        if found is not None and found.failed:
            raise StepFailed(name, found.kind or "", found.message or "", found.tries)
        if (around := WITHIN.get(None)) is not None:
            self._inside.setdefault(around, []).append(name)
        self._running += 1
        try:
            tries = 0 if found is None else await self._tries_before(name, found)
            return await self._tried(name, function, chosen, results, tries)
        finally:
            self._end_one()

    async def _tried(
        self,
        name: str,
        function: Callable[[], Any],
        chosen: Chosen,
        results: ResultType,
        tries: int,
    ) -> Any:
        while True:
            tries += 1
            try:
                value = await self._called(name, tries, function, chosen.timeout)
                text = results.encode(value)
                given = results.decode(text)
            except (AttemptEnd, AttemptLost, StepRefused):
                raise
            except Misfit as misfit:
                raise StepRefused(f"step {name!r}: its result does not fit: {misfit}") from misfit
            except Exception as error:  # noqa: BLE001 - the function is the user's code
                await self._failed(name, tries, error, chosen)
                continue
            record = StepRecord(  # WITHIN is the step around this one, if there is one
                self._claimed.id,
                self._claimed.fence,
                name,
                0,
                tries,
                text,
                message=WITHIN.get(None),
                version=chosen.version,
                undo=chosen.undo,
            )
            await self._keep(record, lazy=chosen.lazy)
            return given

    async def _called(
        self, name: str, tries: int, function: Callable[[], Any], timeout: float | None
    ) -> Any:
        token, token_of_tries = WITHIN.set(name), TRIES.set(tries)
        try:
            if timeout is None:
                value = function()
                return await value if inspect.isawaitable(value) else value
            async with asyncio.timeout(timeout):
                return await _coroutine(name, function())
        finally:
            WITHIN.reset(token)
            TRIES.reset(token_of_tries)

    async def _failed(self, name: str, tries: int, error: Exception, chosen: Chosen) -> None:
        """Wait for the next try, or raise that there is none."""
        kind, message = type(error).__name__, clean(describe(error), MESSAGE_LIMIT)
        wait = _wait_after(error, tries, chosen.retry)
        if wait is None:
            record = self._record(name, tries=tries, kind=kind, message=message)
            await self._keep(record, lazy=True)
            raise StepFailed(name, kind, message, tries) from error
        await self._pause(name, wait, tries=tries, kind=kind, message=message)

    async def _tries_before(self, name: str, found: Step) -> int:
        """How often earlier attempts tried this step; what is left of its wait is waited for."""
        if found.until is None or found.kind is None:
            return 0
        left = self._left_until(found.until)
        if left > 0:
            said = {"kind": found.kind, "message": found.message}
            await self._pause(name, left, tries=found.tries, **said)
        return found.tries

    async def _pause(self, name: str, seconds: float, **said: Any) -> None:
        if seconds < TRY_KEEPS_SLOT:
            await self._way.pause(seconds)
            return
        self._end_one()  # a step that only waits is not under way
        try:
            await self._without_slot(name, seconds, **said)
        finally:
            self._running += 1

    def _require_version(self, found: Step, chosen: Chosen, misfit: Misfit) -> None:
        if found.version == chosen.version:
            message = f"its recorded result does not fit the function's annotation: {misfit}"
            advice = "give the step another version=… to have it called again"
            raise StepFailed(found.name, "BadResult", f"{message}; {advice}") from misfit

    # Sleeps -------------------------------------------------------------------------------------

    async def sleep(self, name: str, seconds: float) -> None:
        """Return when the sleep is over. Unless it is short, the handler is left meanwhile."""
        if (step := WITHIN.get(None)) is not None:
            raise HoldfastError(
                f"step {step!r} sleeps: its result is not recorded yet, and it would be called "
                "again; sleep between steps"
            )
        found = await self._found(name)
        if found is not None and found.until is not None and found.slept:
            seconds = self._left_until(found.until)
        if seconds <= 0:
            return
        if seconds >= KEEPS_SLOT:
            await self._without_slot(name, seconds)
            return
        await self._way.pause(seconds)
        await self._keep(self._record(name, seconds=0.0), lazy=True)

    async def _without_slot(self, name: str, seconds: float, **said: Any) -> None:
        """Leave the handler for so long. Time that other steps take before that counts. Several
        sleeps of a handler leave it together: the worker is asked for each of them."""
        seconds -= await self._until_quiet()
        if seconds <= 0:
            await self._keep(self._record(name, seconds=0.0, **said), lazy=True)
            return
        match await self._way.ask(Wait(self._record(name, seconds=seconds, **said))):
            case WaitOver():
                return
            case LeaveHandler():
                self._leave()
            case other:
                raise TypeError(f"a wait was answered by {other!r}")

    def _leave(self) -> NoReturn:
        self._left = True
        raise Suspending

    def _require_staying(self) -> None:
        """A handler that swallowed its leaving gets no further."""
        if self._left:
            raise Suspending

    def _left_until(self, until: datetime) -> float:
        """Seconds until that moment of the store's clock. What passed since the claim is counted by
        the clock of this process."""
        since = time.monotonic() - self._began
        return (until - self._claimed.claimed_at).total_seconds() - since

    # What is under way --------------------------------------------------------------------------

    def _end_one(self) -> None:
        self._running -= 1
        if not self._running:
            waiting, self._quiet = self._quiet, []
            for one in waiting:
                if not one.done():
                    one.set_result(None)

    async def _until_quiet(self) -> float:
        """Wait until no step of this attempt is under way; answers how many seconds that took.
        Steps and sleeps that were called together have begun by then. Threads that a handler
        started are not waited for."""
        if not self._way.has_loop:
            return 0.0
        await asyncio.sleep(0)
        if not self._running:
            return 0.0
        began = time.monotonic()
        while self._running:
            quiet = asyncio.get_running_loop().create_future()
            self._quiet.append(quiet)
            await quiet
        return time.monotonic() - began

    # Asking the worker --------------------------------------------------------------------------

    def _record(self, name: str, **said: Any) -> StepRecord:
        return StepRecord(self._claimed.id, self._claimed.fence, name, 0, **said)

    async def _found(self, name: str) -> Step | None:
        """A look counts as under way: nobody leaves the handler before what it finds is done. A job
        that no attempt has recorded a step of came without the tie: its worker is not asked."""
        if not self._claimed.ties & STEPS:
            self._require_staying()
            return None
        self._running += 1
        try:
            answer = await self._ask(FindStep(name))
        finally:
            self._end_one()
        match answer:
            case StepFound(step):
                return step
            case other:
                raise TypeError(f"a look for a step was answered by {other!r}")

    async def _keep(self, record: StepRecord, *, lazy: bool) -> None:
        inside = self._all_inside(record.name) if self._inside else ()
        answer = await self._ask(KeepStep(record, lazy, inside))
        if not isinstance(answer, StepKept):
            raise TypeError(f"a record of a step was answered by {answer!r}")

    def _all_inside(self, name: str) -> tuple[str, ...]:
        """The steps that were called inside of this one, and inside of those."""
        called = self._inside.get(name, ())
        return (*called, *chain.from_iterable(map(self._all_inside, called)))

    def _ask(self, request: Request) -> Coroutine[Any, Any, Answer]:
        self._require_staying()
        return self._way.ask(request)


async def _coroutine(name: str, value: Any) -> Any:
    if not inspect.isawaitable(value):
        expected = "no timeout: a plain function cannot be stopped"
        raise BadOption(f"the timeout of step {name!r}", expected, "one")
    return await value


def _wait_after(error: Exception, tries: int, retry: Retry | None) -> float | None:
    """Seconds until the next try; None if there is none."""
    if retry is None or not retry.allows(tries) or not retry.covers(exception_names(type(error))):
        return None
    hint = getattr(error, "retry_after", None)
    seconds = hint.total_seconds() if isinstance(hint, timedelta) else checks.number(hint)
    return max(0.0, seconds) if math.isfinite(seconds) else retry.delay(tries)
