"""Arguments and results of a task as JSON, typed by the function's own signature.

A `Signature` is built once, when the task is registered, and compiles the parameters into two
msgspec Structs, so that the work per job is done in C:

- *sent* binds the arguments of an enqueue. Parameters that were not passed stay unset and are not
  stored, so a job enqueued today uses the default of the day it runs.
- *taken* reads the stored arguments for a call, with the function's defaults filled in.

`encode` reads the JSON back at once and compares. So a value of the wrong type, a NaN (which
msgspec would write as null) or a datetime that would arrive as a str is an error for the caller,
who can mend it, and not for a worker a day later. Pickle is never used: stored bytes must not run
code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from inspect import Parameter
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from holdfast.codec.messages import CHANGED, clean, unwritable
from holdfast.codec.misfits import blamed, blamed_value, lost_in, lost_value, misfit
from holdfast.codec.parameters import FilledIn, find_filled_in, is_required, resolve
from holdfast.codec.results import Misfit, ResultType
from holdfast.codec.structs import (
    ENCODER,
    adapter_of,
    adapters_of,
    arguments_struct,
    is_plain,
    own_default,
    passed,
    reader_of,
)
from holdfast.codec.types import decode_custom, encode_custom
from holdfast.errors import BadArguments, BadResult
from holdfast.resources import Resource

T = TypeVar("T")

REMEMBERED = 1_024
"""Keys of which a task remembers what was found, some 300 bytes each."""
_astuple, _asdict = msgspec.structs.astuple, msgspec.structs.asdict
_CANONICAL = msgspec.json.Encoder(enc_hook=encode_custom, order="deterministic")


class Signature:
    """How one task's arguments and result become JSON and come back."""

    def __init__(
        self, task: str, parameters: Sequence[Parameter], filled_in: FilledIn, returns: Any
    ) -> None:
        self.task = task
        self.parameters = inspect.Signature(parameters)
        self.returns = returns
        self.context_name = None if filled_in.context is None else filled_in.context.name
        self.takes_context = self.context_name is not None
        self.resources: Mapping[str, Resource] = filled_in.resources
        self._filled_in = filled_in
        self._adapters = adapters_of(task, parameters)
        self._readers: dict[str, Callable[[bytes], Any]] = {}  # of parameters that are sent alone
        self._sent = arguments_struct(task, parameters, self._adapters, lambda parameter: UNSET)
        self._read_sent = reader_of(self._sent, self._adapters)
        taken = arguments_struct(task, parameters, self._adapters, own_default)
        self._read_taken = reader_of(taken, self._adapters)
        self._write = self._write_adapted if self._adapters else ENCODER.encode
        self._count = filled_in.in_order
        self._by_name = self._sent.__struct_fields__[self._count :]
        kinds = {parameter.kind for parameter in parameters}
        in_c = kinds <= {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
        self._bind: Callable[..., Struct] = self._sent if in_c else self._bind_as_called
        self._calls_in_order = filled_in.context is None and self._count == len(parameters)
        self._result = ResultType(returns, adapter_of(task, "the result", returns))

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        *,
        task: str | None = None,
        context_type: type | None = None,
        keep_result: bool = True,
    ) -> Signature:
        """The signature of a handler. The worker fills in the first parameter that is annotated
        with `context_type`, and every resource. Without `keep_result` the return annotation may
        be anything."""
        name = str(task or getattr(fn, "__qualname__", type(fn).__qualname__))
        parameters, returns = resolve(fn, name, context_type)
        filled_in = find_filled_in(parameters, name, context_type)
        own = [parameter for parameter in parameters if parameter.name not in filled_in]
        return cls(name, own, filled_in, returns if keep_result else Any)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The JSON object `{parameter: value}` to store, proven to read back."""
        try:
            sent = self._bind(*args, **kwargs)
        except TypeError as exc:
            self._refuse_binding(args, kwargs, exc)
        try:
            text = self._write(sent)
            arrived = self._read_sent(text)
            lost = None if arrived == sent else lost_in(sent, arrived, self._adapters)
        except Exception as exc:
            # Any exception: `__post_init__`, validators and `__eq__` are the user's code.
            raise BadArguments(self.task, blamed(sent, exc, self._adapters)) from exc
        if lost:
            raise BadArguments(self.task, lost)
        return text.decode()

    def encode_some(
        self, known: Mapping[str, Any], holed: Mapping[str, Any], later: Collection[str] = ()
    ) -> str:
        """The JSON object of a call some of whose values are still to come. A value that is known
        is proven to read back; one with holes is written as it is. The parameters in `later` are
        left out, and no other one may be missing."""
        written: dict[str, Raw] = {}
        for name, value in known.items():
            written[name] = Raw(self.encode_one(name, value))
        for name, value in holed.items():
            if name not in self.parameters.parameters:
                raise BadArguments(self.task, f"it takes no {name!r}: it takes {self.parameters}")
            written[name] = Raw(ENCODER.encode(value))
        required = [p.name for p in self.parameters.parameters.values() if is_required(p)]
        if missing := [one for one in required if one not in written and one not in later]:
            names = ", ".join(map(repr, missing))
            raise BadArguments(self.task, f"no value for {names}: it takes {self.parameters}")
        return ENCODER.encode(written).decode()

    def encode_one(self, name: str, value: Any) -> bytes:
        """One argument as JSON, proven to read back."""
        adapter = self._adapters.get(name)
        try:
            text = adapter.write(value) if adapter else ENCODER.encode(value)
            came = (adapter.read if adapter else self._reader_of(name))(text)
            lost = None if came == value else lost_value(name, value, came, adapter)
        except Exception as exc:
            # Any exception: serializers and validators are the user's code.
            problem = blamed_value(name, value, adapter) or f"parameter {name!r}: {clean(str(exc))}"
            raise BadArguments(self.task, problem) from exc
        if lost:
            raise BadArguments(self.task, lost)
        return text

    def _reader_of(self, name: str) -> Callable[[bytes], Any]:
        if (reader := self._readers.get(name)) is None:
            annotation = self.parameters.parameters[name].annotation
            reader = msgspec.json.Decoder(annotation, dec_hook=decode_custom).decode
            self._readers[name] = reader
        return reader

    def check(self, text: str | bytes) -> None:
        """Refuse arguments that come as JSON, from a command line or a web form, and do not fit."""
        self._take(text, f"it takes {self.parameters}")

    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the arguments; None where they have none."""
        from holdfast.codec.schema import schema_of  # only workers publish it

        return schema_of(self._sent)

    def edit(self, text: str | bytes, changes: Mapping[str, Any]) -> str:
        """The same call with some arguments replaced, as JSON that is proven to fit."""
        given: dict[str, Raw] = msgspec.json.decode(text, type=dict[str, Raw])
        for name, value in changes.items():
            adapter = self._adapters.get(name)
            try:
                given[name] = Raw(adapter.write(value) if adapter else ENCODER.encode(value))
            except Exception as exc:
                # Any exception: serializers are the user's code.
                raise BadArguments(self.task, f"{name!r}: {unwritable(exc)}") from exc
        edited = ENCODER.encode(given).decode()
        self.check(edited)
        return edited

    def completed(self, text: str | bytes) -> dict[str, Any]:
        """All arguments of a call as plain JSON values, with the function's defaults filled in. Two
        calls that mean the same give the same answer.

        A default that JSON cannot carry is left out, for every call that uses it.
        """
        found: dict[str, Any] = {}
        for name, value in passed(self._take(text)).items():
            try:
                found[name] = self._json_value(name, value)
            except Exception:  # noqa: BLE001 - an object that only lives in this program
                continue
        return found

    def finder(
        self, names: Collection[str], find: Callable[[Mapping[str, Any]], T]
    ) -> Callable[[str | bytes], T]:
        """Says of a call what `find` says of these of its arguments, which must depend on nothing
        else. They are read as `completed` reads them. Texts and whole numbers, which most keys are,
        are read in C without the other arguments, and what was found for them is remembered: the
        calls of a program share few keys."""
        chosen = [self.parameters.parameters[name] for name in names]
        if not all(map(is_plain, chosen)):
            return lambda text: find(self.completed(text))
        fields = [
            (p.name, p.annotation) if is_required(p) else (p.name, p.annotation, p.default)
            for p in chosen
        ]
        kind = msgspec.defstruct("Chosen", fields, kw_only=True, gc=False, frozen=True)
        read = msgspec.json.Decoder(kind).decode
        found = lru_cache(REMEMBERED)(lambda some: find(_asdict(some)))
        return lambda text: found(read(text))

    def some(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Some arguments of a call, by the names of their parameters. A call with all of them is
        bound in C."""
        if self._bind is self._sent:
            with suppress(TypeError):
                return passed(self._sent(*args, **kwargs))
        try:
            return self.parameters.bind_partial(*args, **kwargs).arguments
        except TypeError as exc:
            raise BadArguments(self.task, f"{exc}: it takes {self.parameters}") from exc

    def has(self, text: str | bytes, name: str, value: object) -> bool:
        """Whether a stored call has this value of a parameter, its default included. Values are
        compared as JSON; one that has no JSON form, such as `unittest.mock.ANY`, as Python does."""
        arrived = passed(self._take(text))
        if name not in arrived:
            return False
        try:
            wanted = self._json_value(name, value)
        except Exception:  # noqa: BLE001 - an object that only lives in this program
            return bool(value == arrived[name])
        return bool(wanted == self._json_value(name, arrived[name]))

    def _json_value(self, name: str, value: object) -> Any:
        adapter = self._adapters.get(name)
        return msgspec.json.decode(adapter.write(value) if adapter else _CANONICAL.encode(value))

    def call_arguments(
        self, text: str | bytes, context: object = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with: `fn(*args, **kwargs)`. Resources are not among it: their
        holder adds them by name."""
        values = _astuple(self._take(text))
        if self._calls_in_order:
            return values, {}
        return self._arrange(values, context)

    def encode_result(self, value: object) -> str:
        """The result as JSON. A result that does not fit the annotation is stored all the same: the
        work is done, and a failed attempt would only repeat it."""
        if value is None:
            return "null"
        try:
            return self._result.encode(value)
        except Misfit as exc:
            problem = f"the result cannot be stored: {exc}, or turn results off"
            raise BadResult(self.task, problem) from exc.__cause__ or exc

    def decode_result(self, text: str | bytes) -> Any:
        """The stored result, as the return annotation types it."""
        try:
            return self._result.decode(text)
        except Misfit as exc:
            problem = f"the stored result does not fit the return annotation: {exc}"
            raise BadResult(self.task, problem) from exc.__cause__ or exc

    def _bind_as_called(self, /, *args: Any, **kwargs: Any) -> Struct:
        if any(name in self._filled_in for name in kwargs):
            raise TypeError  # it would go into `**kwargs`
        return self._sent(**self.parameters.bind(*args, **kwargs).arguments)

    def _write_adapted(self, sent: Struct) -> bytes:
        fields = passed(sent)
        for name in self._adapters.keys() & fields.keys():
            fields[name] = Raw(self._adapters[name].write(fields[name]))
        return ENCODER.encode(fields)

    def _take(self, text: str | bytes, advice: str = CHANGED) -> Struct:
        try:
            return self._read_taken(text)
        except Exception as exc:
            # Any exception: `__post_init__` and validators are the user's code.
            raise BadArguments(
                self.task, misfit(self.parameters.parameters, text, exc, advice)
            ) from exc

    def _arrange(
        self, values: tuple[Any, ...], context: object
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = values[: self._count]
        kwargs: dict[str, Any] = {}
        place = self._filled_in.context
        if place and place.index is not None:
            args = (*args[: place.index], context, *args[place.index :])
        elif place:
            kwargs[place.name] = context
        if not self._by_name:  # mostly so: the values have all been given by their order
            return args, kwargs
        for name, value in zip(self._by_name, values[self._count :], strict=True):
            match self.parameters.parameters[name].kind:
                case Parameter.VAR_POSITIONAL:
                    args = (*args, *value)
                case Parameter.VAR_KEYWORD:
                    kwargs.update(value)
                case _:
                    kwargs[name] = value
        return args, kwargs

    def _refuse_binding(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], cause: TypeError
    ) -> NoReturn:
        for name in kwargs:
            if name in self._filled_in:
                problem = f"{name!r} is filled in by the worker: leave it out"
                raise BadArguments(self.task, problem) from cause
        try:
            self.parameters.bind(*args, **kwargs)
        except TypeError as exc:
            cause = exc
        raise BadArguments(self.task, f"{cause}: it takes {self.parameters}") from cause
