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
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from inspect import Parameter
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, ValidationError

from holdfast.codec.messages import CHANGED, NO_NAN, clean, misplaced, unwritable
from holdfast.codec.parameters import POSITIONAL, FilledIn, find_filled_in, is_required, resolve
from holdfast.codec.results import Misfit, ResultType
from holdfast.codec.types import (
    Adapter,
    adapter_for,
    decode_custom,
    encode_custom,
    has_nan,
    loss,
    plain,
    unsupported,
)
from holdfast.errors import BadArguments, BadResult, BadTask
from holdfast.resources import Resource

T = TypeVar("T")

REMEMBERED = 1_024
"""Keys of which a task remembers what was found, some 300 bytes each."""
_SCALARS = (types.NoneType, bool, int, float, str, bytes)
_astuple, _asdict = msgspec.structs.astuple, msgspec.structs.asdict
_ENCODER = msgspec.json.Encoder(enc_hook=encode_custom)
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
        self._adapters = _adapters(task, parameters)
        self._readers: dict[str, Callable[[bytes], Any]] = {}  # of parameters that are sent alone
        self._sent = self._struct(lambda parameter: UNSET)
        self._read_sent = self._reader(self._sent)
        self._read_taken = self._reader(self._struct(_own_default))
        self._write = self._write_adapted if self._adapters else _ENCODER.encode
        self._count = filled_in.in_order
        self._by_name = self._sent.__struct_fields__[self._count :]
        kinds = {parameter.kind for parameter in parameters}
        in_c = kinds <= {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
        self._bind: Callable[..., Struct] = self._sent if in_c else self._bind_as_called
        self._calls_in_order = filled_in.context is None and self._count == len(parameters)
        self._result = ResultType(returns, _adapter(task, "the result", returns))

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
            lost = None if arrived == sent else self._lost(sent, arrived)
        except Exception as exc:
            # Any exception: `__post_init__`, validators and `__eq__` are the user's code.
            raise BadArguments(self.task, self._blame(sent, exc)) from exc
        if lost:
            raise BadArguments(self.task, lost)
        return text.decode()

    def encode_some(self, known: Mapping[str, Any], holed: Mapping[str, Any]) -> str:
        """The JSON object of a call some of whose values are still to come. A value that is known
        is proven to read back; one with holes is written as it is."""
        written: dict[str, Raw] = {}
        for name, value in known.items():
            written[name] = Raw(self._written(name, value))
        for name, value in holed.items():
            if name not in self.parameters.parameters:
                raise BadArguments(self.task, f"it takes no {name!r}: it takes {self.parameters}")
            written[name] = Raw(_ENCODER.encode(value))
        return _ENCODER.encode(written).decode()

    def _written(self, name: str, value: Any) -> bytes:
        """One argument as JSON, proven to read back."""
        adapter = self._adapters.get(name)
        try:
            text = adapter.write(value) if adapter else _ENCODER.encode(value)
            (adapter.read if adapter else self._reader_of(name))(text)
        except Exception as exc:
            # Any exception: serializers and validators are the user's code.
            raise BadArguments(self.task, f"parameter {name!r}: {unwritable(exc)}") from exc
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
                given[name] = Raw(adapter.write(value) if adapter else _ENCODER.encode(value))
            except Exception as exc:
                # Any exception: serializers are the user's code.
                raise BadArguments(self.task, f"{name!r}: {unwritable(exc)}") from exc
        edited = _ENCODER.encode(given).decode()
        self.check(edited)
        return edited

    def completed(self, text: str | bytes) -> dict[str, Any]:
        """All arguments of a call as plain JSON values, with the function's defaults filled in. Two
        calls that mean the same give the same answer.

        A default that JSON cannot carry is left out, for every call that uses it.
        """
        found: dict[str, Any] = {}
        for name, value in _passed(self._take(text)).items():
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
        if not all(map(_is_plain, chosen)):
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
                return _passed(self._sent(*args, **kwargs))
        try:
            return self.parameters.bind_partial(*args, **kwargs).arguments
        except TypeError as exc:
            raise BadArguments(self.task, f"{exc}: it takes {self.parameters}") from exc

    def has(self, text: str | bytes, name: str, value: object) -> bool:
        """Whether a stored call has this value of a parameter, its default included. Values are
        compared as JSON; one that has no JSON form, such as `unittest.mock.ANY`, as Python does."""
        arrived = _passed(self._take(text))
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

    def _struct(self, default_of: Callable[[Parameter], Any]) -> type[Struct]:
        """A Struct that binds arguments as the function does: keyword-only fields come last."""

        def fields(positional: bool) -> list[Any]:
            return [
                (p.name, kind) if is_required(p) else (p.name, kind, default_of(p))
                for p in self.parameters.parameters.values()
                if (p.kind in POSITIONAL) is positional
                for kind in [Raw if p.name in self._adapters else p.annotation]
            ]

        try:
            base = msgspec.defstruct(
                "Arguments", fields(True), forbid_unknown_fields=True, gc=False
            )
            return msgspec.defstruct("Arguments", fields(False), bases=(base,), kw_only=True)
        except (TypeError, RuntimeError) as exc:
            raise BadTask(self.task, f"{exc}: rename the parameter") from exc

    def _bind_as_called(self, /, *args: Any, **kwargs: Any) -> Struct:
        if any(name in self._filled_in for name in kwargs):
            raise TypeError  # it would go into `**kwargs`
        return self._sent(**self.parameters.bind(*args, **kwargs).arguments)

    def _write_adapted(self, sent: Struct) -> bytes:
        fields = _passed(sent)
        for name in self._adapters.keys() & fields.keys():
            fields[name] = Raw(self._adapters[name].write(fields[name]))
        return _ENCODER.encode(fields)

    def _reader(self, arguments: type[Struct]) -> Callable[[str | bytes], Struct]:
        """Reads JSON into this Struct: in C, unless a parameter has an adapter."""
        decode = msgspec.json.Decoder(arguments, dec_hook=decode_custom).decode
        return partial(self._read_adapted, decode) if self._adapters else decode

    def _read_adapted(self, decode: Callable[[str | bytes], Struct], text: str | bytes) -> Struct:
        arguments = decode(text)
        for name, adapter in self._adapters.items():
            raw = getattr(arguments, name)
            if isinstance(raw, Raw):
                setattr(arguments, name, _adapted(name, adapter, raw))
        return arguments

    def _take(self, text: str | bytes, advice: str = CHANGED) -> Struct:
        try:
            return self._read_taken(text)
        except Exception as exc:
            # Any exception: `__post_init__` and validators are the user's code.
            raise BadArguments(self.task, self._misfit(text, exc, advice)) from exc

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

    def _lost(self, sent: Struct, arrived: Struct) -> str | None:
        """Which argument would arrive changed, or None. Arguments that compare unequal may still
        have arrived: a tuple arrives as a list, and some classes compare by identity."""
        for name, value in _passed(sent).items():
            came = getattr(arrived, name)
            show = self._adapters[name].plain if name in self._adapters else plain
            if value != came and (found := loss(show(value), show(came))):
                advice = NO_NAN if has_nan(show(value)) else "pass or annotate its real type"
                return f"parameter {name!r}: {found}: {advice}"
        return None

    def _blame(self, sent: Struct, exc: Exception) -> str:
        """Name the parameter behind a failed write or read."""
        fields = _passed(sent)
        for name, value in fields.items():
            adapter = self._adapters.get(name)
            try:
                adapter.write(value) if adapter else _ENCODER.encode(value)
                lost = has_nan(adapter.plain(value) if adapter else plain(value))
            except Exception as cause:  # noqa: BLE001 - the user's code, and reported below
                return f"parameter {name!r}: {unwritable(cause)}"
            if lost:
                return f"parameter {name!r}: {NO_NAN}"
        return misplaced(str(exc), fields)

    def _misfit(self, text: str | bytes, exc: Exception, advice: str) -> str:
        """Why arguments in JSON do not fit. Names every parameter that the function has lost or
        gained."""
        try:
            stored = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError) as cause:
            return f"the arguments are not a JSON object: {clean(str(cause))}"
        known = self.parameters.parameters
        gone = sorted(stored.keys() - known.keys())
        new = sorted(p.name for p in known.values() if is_required(p) and p.name not in stored)
        if gone:
            return f"it takes no {', '.join(map(repr, gone))}: {advice}"
        if new:
            mended = "; give it a default" if advice is CHANGED else ""
            return f"no value for {', '.join(map(repr, new))}: {advice}{mended}"
        return f"{misplaced(str(exc), {})}: {advice}"


def _adapters(task: str, parameters: Sequence[Parameter]) -> dict[str, Adapter]:
    found = {p.name: _adapter(task, f"parameter {p.name!r}", p.annotation) for p in parameters}
    return {name: adapter for name, adapter in found.items() if adapter}


def _adapter(task: str, where: str, annotation: Any) -> Adapter | None:
    """The adapter that an annotation needs, or None. Refuses an annotation that cannot be read
    back from JSON."""
    try:
        adapter = adapter_for(annotation)
    except Exception as exc:
        # Any exception: pydantic runs code of the user's classes to build its schema.
        raise BadTask(task, f"{where}: {exc}") from exc
    problem = None if adapter else unsupported(annotation)
    if problem is None:
        return adapter
    advice = "annotate what JSON can tell apart: plain data, a dataclass, tagged msgspec Structs"
    raise BadTask(task, f"{where}: {problem}: {advice}")


def _is_plain(parameter: Parameter) -> bool:
    """Whether JSON brings its values as they are, its default included."""
    is_one = parameter.kind in (*POSITIONAL, Parameter.KEYWORD_ONLY)
    return (
        is_one
        and parameter.annotation in (int, str)
        and (is_required(parameter) or type(parameter.default) in (int, str, types.NoneType))
    )


def _own_default(parameter: Parameter) -> Any:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return ()
    if parameter.kind is Parameter.VAR_KEYWORD:
        return msgspec.field(default_factory=dict)
    if type(parameter.default) in _SCALARS:
        return parameter.default
    # A factory gives the same object as a plain call would. msgspec itself would copy a mutable
    # default, or refuse it.
    return msgspec.field(default_factory=lambda: parameter.default)


def _passed(sent: Struct) -> dict[str, Any]:
    values = zip(sent.__struct_fields__, msgspec.structs.astuple(sent), strict=True)
    return {name: value for name, value in values if value is not UNSET}


def _adapted(name: str, adapter: Adapter, raw: Raw) -> Any:
    try:
        return adapter.read(bytes(raw))
    except ValueError as exc:
        raise ValidationError(f"{exc} - at `$.{name}`") from exc
