"""From the arguments of a call to the job that is inserted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.codec.signature import Signature
from holdfast.enqueue.options import JobOptions
from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.checks import check_job_id
from holdfast.job.ids import new_job_id
from holdfast.job.line_rule import LineRule
from holdfast.job.policy import encode_policy
from holdfast.job.record import NewJob
from holdfast.job.ties import PERMITS
from holdfast.job.unique import Unique, UniqueBy


class JobMaker:
    """Makes the NewJobs of one task with one set of options. Policy, headers and times are the same
    for all of them and are computed once."""

    def __init__(self, task: str, options: JobOptions, signature: Signature | None = None) -> None:
        self._task = task
        self._options = options
        self._signature = signature
        self._id = None if options.id is None else check_job_id(options.id)
        _check_chosen(task, options.unique, signature)
        line = options.line
        self._stands_in_line = bool(line)
        _check_keys(task, line, signature)
        _check_costs(task, line, signature)
        self._find_line = self._line_finder(line)
        self._policy = encode_policy(options.policy())
        self._headers = options.headers_json()
        self._delay = None if options.delay is None else checks.wait("delay", options.delay)
        self._deadline_at, self._deadline_in = options.split_deadline()
        self._run_at = None if options.run_at is None else checks.moment("run_at", options.run_at)
        self.hide_key: Callable[[str], str] | None = None  # of an app that encrypts

    def make(self, args: str, headers: Mapping[str, str] | None = None) -> NewJob:
        """The job of one call. Its own options win over `headers`."""
        options = self._options
        unique = None if options.unique is None else self._unique(options.unique, args)
        given = (
            self._id or new_job_id(unique.key if unique else None, limited=self._stands_in_line),
            self._task,
            options.queue,
            args,
            self._policy,
            options.priority,
            self._run_at,
            self._delay,
            self._deadline_at,
            self._deadline_in,
            unique,
            options.tags,
            self._headers if headers is None else options.headers_json(headers),
        )
        if not self._stands_in_line:
            return NewJob(*given)
        return NewJob(*given + self._find_line(args))  # two thirds of the time of two stars

    def _line_finder(self, line: LineRule) -> Callable[[str], tuple[Any, ...]]:
        """Says by the arguments of a call what its job has as it stands in a line: the fields of
        `NewJob` from its ties on."""

        def find(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
            return (PERMITS, False, *line.passed(self._task, arguments), line.weight)

        if self._signature is None:
            return lambda args: find(self._given(args))
        return self._signature.finder({name for _, name in line.arguments}, find)

    def _given(self, args: str) -> dict[str, Any]:
        """The arguments of a call. If the signature is known, defaults are filled in, so that a
        call that passes a default and a call that leaves it out count as the same."""
        signature = self._signature
        found: dict[str, Any] = (
            msgspec.json.decode(args) if signature is None else signature.completed(args)
        )
        return found

    def _unique(self, by: str | UniqueBy, args: str) -> Unique:
        by = UniqueBy(key=by) if isinstance(by, str) else by
        own = self._task if by.scope == "task" else self._options.queue
        value = by.key if by.key is not None else self._chosen(by.args or (), args)
        max_wait = None if by.max_wait is None else checks.wait("max_wait", by.max_wait)
        period = None if by.period is None else checks.wait("unique period", by.period)
        key = f"{by.scope}:{own}:{value}"
        if self.hide_key is not None:
            key = self.hide_key(key)
        return Unique(key, by.states, by.on_conflict, max_wait, period)

    def _chosen(self, names: tuple[str, ...], args: str) -> str:
        """The chosen arguments as canonical JSON, or the digest of a long JSON text."""
        given = self._given(args)
        missing = [name for name in names if name not in given]
        if missing:
            option = f"task {self._task!r}: unique args"
            raise BadOption(option, "arguments of this call", missing[0])
        chosen = {name: given[name] for name in (names or given)}
        text = msgspec.json.encode(chosen, order="deterministic").decode()
        if len(text) <= 256:
            return text
        import hashlib  # few keys are so long

        return hashlib.sha256(text.encode()).hexdigest()


def _check_chosen(task: str, by: str | UniqueBy | None, signature: Signature | None) -> None:
    if not isinstance(by, UniqueBy) or signature is None:
        return
    known = signature.parameters.parameters
    for name in by.args or ():
        if name not in known:
            expected = f"parameters of the task: {', '.join(known)}"
            raise BadOption(f"task {task!r}: unique args", expected, name)


def _check_keys(task: str, line: LineRule, signature: Signature | None) -> None:
    if signature is None:
        return
    known = signature.parameters.parameters
    for what, name in line.arguments:
        if name not in known:
            expected = f"parameters of the task: {', '.join(known)}"
            raise BadOption(f"task {task!r}: {what}", expected, name)


def _check_costs(task: str, line: LineRule, signature: Signature | None) -> None:
    known = {} if signature is None else signature.parameters.parameters
    defaults = {name: parameter.default for name, parameter in known.items()} if line.limits else {}
    for one in line.limits:
        one.check_stated_cost(task, line.cost, defaults)
