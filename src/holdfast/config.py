"""Settings: argument > HOLDFAST_* > holdfast.toml > pyproject.toml > default.

One frozen, validated object is made at the edge and passed inward; nothing
else reads the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.policy import DAY

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.encryption.keyring import Keyring

PREFIX = "HOLDFAST_"
LEAST_MAX_PAYLOAD = 1024
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
FLAGS = {"1": True, "true": True, "yes": True, "on": True} | dict.fromkeys(
    ("0", "false", "no", "off"), False
)
"""What text may stand for True and False."""
KEYS = ("keys", "signing_keys")
"""The settings that are secret."""
UNENCRYPTED = frozenset({"errors", "progress"})
"""What may stay plain beside the keys: texts of errors, and messages of progress."""


class Settings(msgspec.Struct, frozen=True):
    """What a program may set once for all. Times are seconds, sizes are bytes.
    Text may say a time with its unit."""

    url: str = "sqlite:///holdfast.db"
    app: str | None = None
    lease: float = 30.0
    grace: float = 30.0
    poll: float = 1.0
    max_payload: int = 256 * 1024
    max_steps: int = 10_000
    max_steps_size: int = 16 * 1024 * 1024
    max_stream_size: int = 16 * 1024 * 1024
    unreadable_for: float = 900.0
    keep_audit: float = 90 * DAY
    imports: tuple[str, ...] = ()
    keys: Keyring | None = None
    unencrypted: tuple[str, ...] = ()
    signing_keys: Keyring | None = None
    eager: bool = False
    worker_prefix: str | None = None
    worker_version: str | None = None
    worker_id: str | None = None

    def __post_init__(self) -> None:
        checks.seconds("lease", self.lease, least=0.3)
        checks.seconds("grace", self.grace)
        checks.seconds("poll", self.poll, least=0.01)
        checks.count("max_payload", self.max_payload, least=LEAST_MAX_PAYLOAD)
        checks.count("max_steps", self.max_steps)
        checks.count("max_steps_size", self.max_steps_size, least=LEAST_MAX_PAYLOAD)
        checks.count("max_stream_size", self.max_stream_size, least=LEAST_MAX_PAYLOAD)
        checks.seconds("unreadable_for", self.unreadable_for)
        checks.seconds("keep_audit", self.keep_audit, zero=False)
        checks.flag("eager", self.eager)

    @property
    def hides_errors(self) -> bool:
        """Whether the texts of errors are encrypted: then nothing else tells them either."""
        return self.keys is not None and "errors" not in self.unencrypted

    @property
    def worker_name(self) -> str | None:
        """`{prefix}-worker-{version}-{id}`, as far as these are set; None if none is."""
        parts = (self.worker_prefix, "worker", self.worker_version, self.worker_id)
        given = [part for part in parts if part]
        return "-".join(given) if len(given) > 1 else None

    @classmethod
    def load(
        cls,
        *,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        **arguments: Any,
    ) -> Settings:
        """Merge the sources; an argument that is None counts as not given."""
        given = {name: value for name, value in arguments.items() if value is not None}
        environ = os.environ if environ is None else environ
        merged = cls.given(environ, folder) | given
        for name in KEYS:
            if name in merged:
                merged[name] = _keyring(name, merged[name], environ)
        return cls(**{name: _typed(name, value) for name, value in merged.items()})

    @staticmethod
    def given(
        environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> dict[str, Any]:
        """What was set outside the program, as it was written; nothing by default."""
        environ = os.environ if environ is None else environ
        return {**_from_files(os.fspath(folder or os.getcwd())), **_from_environment(environ)}


def _types() -> dict[str, type]:
    kinds = {"str": str, "str | None": str, "float": float, "int": int, "bool": bool}
    kinds |= {"tuple[str, ...]": tuple, "Keyring | None": object}
    return {name: kinds[kind] for name, kind in Settings.__annotations__.items()}


def _typed(name: str, value: Any) -> Any:
    """Files and the environment give text for numbers; a number that would lose something on
    the way is left as it is, to be refused."""
    kind = _types()[name]
    if kind is object:
        return value
    if kind is tuple:
        return _choices(name, value) if name == "unencrypted" else _modules(name, value)
    if kind is bool:
        return FLAGS.get(value.lower(), value) if isinstance(value, str) else value
    if kind is str:
        checks.kind(name, value, str, "text")
    if isinstance(value, bool) or (kind is int and isinstance(value, float)):
        return value
    if kind is float:
        return _seconds(name, value)
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        raise BadOption(name, "a whole number", value) from None


def _seconds(name: str, value: Any) -> float:
    """A time as a number, or as options of commands take it: `90s`, `15m`."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        from holdfast.job.duration import EXAMPLES, parse_duration  # most times have no unit

        found = parse_duration(value) if isinstance(value, str) else None
        if found is None:
            raise BadOption(name, EXAMPLES, value) from None
        return found


def _modules(name: str, value: object) -> tuple[str, ...]:
    """Names of modules: a list, or text with commas between them."""
    given = value.split(",") if isinstance(value, str) else value
    found = tuple(map(str.strip, given)) if _are_texts(given) else ()
    named = tuple(filter(None, found))
    if not _are_texts(given) or not all(MODULE.match(module) for module in named):
        raise BadOption(name, "names of modules, such as ['shop.tasks']", value)
    return named


def _choices(name: str, value: object) -> tuple[str, ...]:
    """What stays unencrypted: a list, or text with commas between."""
    given = value.split(",") if isinstance(value, str) else value
    found = tuple(filter(None, map(str.strip, given))) if _are_texts(given) else ("?",)
    if not set(found) <= UNENCRYPTED:
        raise BadOption(name, f"some of {', '.join(sorted(UNENCRYPTED))}", value)
    return found


def _keyring(setting: str, value: object, environ: Mapping[str, str]) -> object:
    """The keys, or those of the variable or the file that the text names. No error shows a key."""
    from holdfast.encryption.keyring import EXPECTED, Keyring  # most programs have no keys

    if isinstance(value, Keyring):
        return value
    if not isinstance(value, str):
        raise BadOption(setting, EXPECTED, f"a {type(value).__name__}")
    where, _, name = value.partition(":")
    if where == "env":
        if not environ.get(name):
            raise BadOption(setting, "the name of a variable that is set", value)
        return Keyring.of_text(environ[name])
    return Keyring.of_text(_read_secret(setting, name) if where == "file" else value)


def _read_secret(setting: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as found:
            return found.read()
    except (OSError, UnicodeError) as error:
        problem = f"a file that can be read ({type(error).__name__})"
        raise BadOption(setting, problem, path) from None


def _are_texts(given: object) -> TypeGuard[Iterable[str]]:
    return isinstance(given, list | tuple | set) and all(isinstance(one, str) for one in given)


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    named = {name: f"{PREFIX}{name.upper()}" for name in _types()}
    return {name: environ[key] for name, key in named.items() if environ.get(key)}


def _from_files(folder: str) -> dict[str, Any]:
    """The nearest folder upward with settings counts; holdfast.toml hides pyproject.toml."""
    place, below = folder, ""
    while place != below:
        own, project = os.path.join(place, "holdfast.toml"), os.path.join(place, "pyproject.toml")
        if os.path.isfile(own):
            return _known(own, _read(own))
        if os.path.isfile(project):
            return _known(project, _read(project).get("tool", {}).get("holdfast", {}))
        place, below = os.path.dirname(place), place
    return {}


def _read(file: str) -> dict[str, Any]:
    import tomllib  # most programs have no such file

    try:
        with open(file, "rb") as found:
            return _parsed(found.read())
    except tomllib.TOMLDecodeError as error:
        raise BadOption(file, f"valid TOML ({error})", "a file that is not") from error


@lru_cache(maxsize=4)
def _parsed(content: bytes) -> dict[str, Any]:
    """Parsed once for all apps of a program, and for a command, which asks twice: the
    `pyproject.toml` of a project takes longer to parse than an app to make."""
    import tomllib

    return tomllib.loads(content.decode())


def _known(file: str, found: dict[str, Any]) -> dict[str, Any]:
    for name in found:
        if name not in _types():
            raise BadOption(
                f"{os.path.basename(file)}: setting", f"one of {', '.join(_types())}", name
            )
    for name in KEYS:
        keys = found.get(name, "env:")
        if not isinstance(keys, str) or keys.partition(":")[0] not in ("env", "file"):
            where = "'env:NAME' or 'file:PATH': a settings file is no place for a key"
            raise BadOption(f"{os.path.basename(file)}: {name}", where, "something else")
    return found
