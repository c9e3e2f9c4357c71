"""Which app and which store a command is about."""

from __future__ import annotations

import getpass
import importlib
import os
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode

import msgspec

from holdfast.cli.output import answer
from holdfast.config import Settings
from holdfast.errors import BadImport, HoldfastError
from holdfast.store.open import open_store

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.app import App
    from holdfast.client.client import Client
    from holdfast.insights.redaction import Redaction
    from holdfast.store.contract.store import Store


class UsageProblem(HoldfastError):
    """The command was called wrongly: exit code 2."""


class CommandSession(msgspec.Struct, frozen=True):
    """The global options of one command, and the app, store and client that they name."""

    given_url: str | None
    given_app: str | None
    as_json: bool

    def after(self, before: CommandSession) -> CommandSession:
        """This session, where it leaves out what was given before the command."""
        return CommandSession(
            self.given_url or before.given_url,
            self.given_app or before.given_app,
            self.as_json or before.as_json,
        )

    def answer(self, document: object, draw: Callable[[], Iterable[RenderableType]]) -> None:
        answer(self.as_json, document, draw)

    @property
    def by(self) -> str:
        """Who types the command, for the report of what was done."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container may run as a user without a name
            user = f"uid {os.getuid()}"
        return f"{user}@{socket.gethostname()}"

    @property
    def locator(self) -> str | None:
        return self.given_app or Settings.load().app

    @property
    def url(self) -> str:
        """`--url` first, then the app's own store, then the settings."""
        if self.given_url is not None:
            return self.given_url
        locator = self.locator
        return Settings.load().url if locator is None else load_app(locator).settings.url

    @property
    def settings(self) -> Settings:
        """Those of the app, if the command names one or takes its store from one."""
        locator = self.given_app if self.given_url is not None else self.locator
        return Settings.load() if locator is None else load_app(locator).settings

    @property
    def names_store(self) -> bool:
        """Whether somebody chose the store. False if only the default URL is left."""
        chosen = self.given_url is not None or self.locator is not None
        return chosen or "url" in Settings.given()

    @property
    def named_url(self) -> str:
        """The URL, for a command that makes a store or changes its schema. Such a command never
        uses the default URL, which nobody chose."""
        if not self.names_store:
            raise UsageProblem(
                "no store named: give --url or --app, or set HOLDFAST_URL or HOLDFAST_APP"
            )
        return self.url

    def app(self, locator: str | None = None, imports: Iterable[str] = ()) -> App:
        """The app that a command needs: named by its own argument, `--app` or the settings. The
        modules that declare its tasks are imported too."""
        locator = locator or self.locator
        if locator is None:
            raise UsageProblem(
                "no app: say which as module:attribute, such as 'app:app', or set HOLDFAST_APP"
            )
        app = load_app(locator)
        try:
            app.import_tasks(locator.partition(":")[0], *imports)
        except BadImport as error:
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            raise
        return app

    def on_store(self, app: App) -> AbstractContextManager[None]:
        """Use the app with the store of `--url`, if that option was given."""
        return app.using_store(self.given_url) if self.given_url else nullcontext()

    def redaction(self, store: Store, app: App | None = None) -> Redaction:
        """What may be shown of the store. An app that was named, or that was loaded for the URL of
        its store, says what is hidden of its jobs also before a worker has published that."""
        from holdfast.insights.redaction import Redaction  # a worker shows nothing

        locator = self.given_app if self.given_url is not None else self.locator
        known = app or (None if locator is None else load_app(locator))
        return Redaction(store, None if known is None else known.registry)

    @asynccontextmanager
    async def store(self, *, may_create: bool = False) -> AsyncIterator[Store]:
        url, may_create = self.url, may_create and self.names_store
        if not may_create:
            require_store_file(url)
        chosen = self.settings
        store = open_store(
            url, may_create=may_create, keys=chosen.keys, unencrypted=chosen.unencrypted
        )
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def client(
        self, app: App | None = None, *, may_create: bool = False
    ) -> AsyncIterator[Client]:
        """The client of the store. With an `app` it knows the app's tasks."""
        from holdfast.client.client import Client  # a worker has none

        async with self.store(may_create=may_create) as store:
            tasks = None if app is None else app.registry
            limit = None if app is None else app.settings.max_payload
            keys = self.settings.signing_keys
            client = Client(store, tasks=tasks, max_payload=limit, signing_keys=keys)
            client.shown = self.redaction(store, app)
            try:
                yield client
            finally:
                await client.aclose()


def require_store_file(url: str) -> None:
    """Refuse a SQLite file that does not exist. A command that reads must not make a store: its
    empty answer would hide that the path is wrong."""
    scheme, _, rest = url.partition(":///")
    path = Path(unquote(rest.partition("?")[0]))
    if scheme == "sqlite" and rest and not path.exists():
        raise HoldfastError(
            f"no store at {path.absolute()}: give --url or --app, set HOLDFAST_URL or "
            "HOLDFAST_APP, or start a worker there first"
        )


PLACE_OPTIONS = frozenset({"schema", "namespace", "cluster", "sentinel", "host", "port", "dbname"})


def shown_url(url: str) -> str:
    """Where a store is, for people: without a password, and only with the options that say where.
    Everything before the last `@` may belong to a password.

    >>> shown_url("postgres://ann:secret@db/jobs?schema=shop&sslpassword=hidden")
    'postgres://ann@db/jobs?schema=shop'
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        path = unquote(rest.partition("?")[0][1:])
        return f"sqlite:///{Path(path).absolute()}" if path else "sqlite://"
    credentials, _, place = rest.rpartition("@")
    user = credentials.partition(":")[0]
    place, _, query = place.partition("?")
    options = urlencode(
        [(name, value) for name, value in parse_qsl(query) if name in PLACE_OPTIONS]
    )
    return f"{scheme}://{user}{'@' if user else ''}{place}{'?' if options else ''}{options}"


def load_app(locator: str) -> App:
    """The App at `module:attribute`; with the module alone, its only App."""
    module_name, _, attribute = locator.partition(":")
    module = _import(module_name, locator)
    if attribute:
        return _named(module, attribute)
    found = apps_in(module)
    if len(found) == 1:
        return next(iter(found.values()))
    raise UsageProblem(f"module {module_name!r} holds {_listing(found)}: say module:attribute")


def _import(name: str, locator: str) -> ModuleType:
    if not name:
        raise UsageProblem(f"the app must be given as module:attribute, got {locator!r}")
    # The folder stays on the path: the app may import its neighbours later, and child processes
    # inherit the path.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise _broken(name, missing) from missing
        hint = " (leave out the '.py')" if name.endswith(".py") else ""
        raise UsageProblem(
            f"no module {missing.name!r} in {Path.cwd()} or on the Python path{hint}"
        ) from None
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> HoldfastError:
    """The error for a module of the user that cannot be imported. Its own traceback is printed
    first, because the user needs it to mend the module."""
    traceback.print_exception(error)
    return HoldfastError(f"module {name!r} cannot be imported: {type(error).__name__}: {error}")


def _named(module: ModuleType, attribute: str) -> App:
    from holdfast.app import App

    target: object = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise UsageProblem(
                f"module {module.__name__!r} has no {attribute!r}; "
                f"it holds {_listing(apps_in(module))}"
            )
        target = getattr(target, part)
    if not isinstance(target, App):
        raise UsageProblem(
            f"'{module.__name__}:{attribute}' is a {type(target).__name__}, not an App; "
            f"the module holds {_listing(apps_in(module))}"
        )
    return target


def apps_in(module: ModuleType) -> dict[str, App]:
    from holdfast.app import App

    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _listing(found: dict[str, App]) -> str:
    return f"the Apps {', '.join(found)}" if found else "no App"
