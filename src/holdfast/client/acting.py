"""Who did it: an act of an operator is written to the audit before it is done, and closed after it.

A caller that acts for somebody passes `by`: a user's name, a token's name, `ann@host`. The command
line always does. A program that calls a verb for its own purposes passes none: nothing is written
and nothing is reported, because such calls may be as frequent as the jobs themselves.

The begin comes first, so an act that was cut off by a crash is seen as interrupted. An act whose
begin cannot be written is not done. If only its close cannot be written, the act stays done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from holdfast.errors import HoldfastError, StoreError
from holdfast.events import Events
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.redaction import redact, redact_value
from holdfast.job.text import describe
from holdfast.logs.records import log_event
from holdfast.operations.verbs import VERBS
from holdfast.store.contract.audit import (
    INTERRUPTED_AFTER_SECONDS,
    Act,
    ActOutcome,
    Audit,
    new_act_id,
)

LONGEST_NAME = 200
LONGEST_REASON = 1_000


class Audited(Protocol):
    """A store, or its verbs on jobs in the caller's transaction."""

    @property
    def audit(self) -> Audit: ...


class Acts:
    """Opens acts, and reports those that changed something as events."""

    def __init__(self, events: Events | None = None) -> None:
        self.events = events or Events(log_event)

    def act(
        self,
        on: Audited,
        by: str | None,
        noun: Noun,
        verb: Verb,
        target: str = "",
        *,
        which: object = None,
        value: object = None,
        long: bool = False,
    ) -> OpenAct | SilentAct:
        """The act, for `async with`. `value` is what the verb takes beside its target or filter,
        without secrets. `long`: it may take longer than a moment, and runs on an event loop."""
        if by is None:
            return SilentAct()
        act = Act(
            id=new_act_id(),
            by=checks.text("by", by, LONGEST_NAME),
            verb=VERBS[noun, verb].word,
            target=target,
            which=None if which is None else _json(which),
            arguments=None if value is None else _json(_named(noun, verb, value)),
        )
        return OpenAct(self.events, on, act, which, value, long)


class SilentAct:
    """An act of a program for its own purposes."""

    changed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class OpenAct:
    """An act from its begin to its close. Who carries it out counts in `changed` what is different
    by now."""

    def __init__(
        self, events: Events, on: Audited, act: Act, which: object, value: object, long: bool
    ) -> None:
        self.changed = 0
        self._events = events
        self._on = on
        self._act = act
        self._which = which
        self._value = value
        self._over = asyncio.Event() if long else None
        self._keeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._on.audit.begin(self._act)
        if self._over is not None:
            self._keeping = asyncio.create_task(self._keep_open(self._over))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._over is not None and self._keeping is not None:
            self._over.set()
            await asyncio.wait((self._keeping,))
        await self._close(_outcome(error), None if error is None else redact(describe(error)))
        if error is None or self.changed:
            self._report()

    async def _close(self, outcome: ActOutcome, error: str | None) -> None:
        try:
            await self._on.audit.close(self._act.id, outcome, self.changed, error)
        except Exception as failed:  # noqa: BLE001 - reported; the act itself is over
            self._events.error(
                "audit.close_failed",
                act=self._act.id,
                verb=self._act.verb,
                outcome=outcome.value,
                error=repr(failed),
            )

    async def _keep_open(self, over: asyncio.Event) -> None:
        """Say from time to time that the act goes on. A store that is away hears it later."""
        while not over.is_set():
            try:
                await asyncio.wait_for(over.wait(), INTERRUPTED_AFTER_SECONDS / 3)
            except TimeoutError:
                await self._say_that_it_goes_on()

    async def _say_that_it_goes_on(self) -> None:
        try:
            await self._on.audit.begin(self._act)
        except StoreError as failed:
            self._events.debug("audit.begin_failed", act=self._act.id, error=repr(failed))

    def _report(self) -> None:
        self._events.info(
            "operator.acted",
            by=self._act.by,
            verb=self._act.verb,
            target=self._act.target or self._which,
            value=self._value,
            changed=self.changed,
        )


def _outcome(error: BaseException | None) -> ActOutcome:
    """A refusal leaves everything as it was; a failure may not."""
    match error:
        case None:
            return ActOutcome.DONE
        case StoreError():
            return ActOutcome.FAILED
        case HoldfastError():
            return ActOutcome.REFUSED
        case Exception():
            return ActOutcome.FAILED
        case _:
            return ActOutcome.INTERRUPTED


def _named(noun: Noun, verb: Verb, value: object) -> Mapping[str, Any]:
    """The value by the name of its parameter; several come by their names already."""
    if isinstance(value, Mapping):
        return value
    return {VERBS[noun, verb].arguments[0].name: value}


def _json(value: object) -> str:
    return msgspec.json.encode(redact_value(value)).decode()
