"""Spreads tests over processes that are forked when all tests are collected.

    python -m pytest -p tests.support.spreading --processes 6 --beside 'make check'

To collect the tests of this tree takes nine seconds of CPU. Where each process collects for itself,
six processes take a minute of it. Here one process collects, forks the others, and reports what
they tell it as if it had run the tests itself.

Tests with the mark `first` begin before all others: one that began as the last would keep the other
core waiting. Each process has a stretch of the tests to begin with, and keeps their order, so that
neighbours share their fixtures. A process that has nothing left takes the last half of the longest
stretch. A test whose process dies has failed; another process goes on with the stretch.

Another command may run beside: one process that collects leaves a core idle. If that command fails,
no more tests are run.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Literal, NoReturn

import pytest
from _pytest.runner import runtestprotocol

BESIDE = pytest.StashKey[subprocess.Popen[bytes]]()
OWN = "of-process-"
LOOK_SECONDS = 0.2
SHARE = 20
"""Tests that a process is given at a time. Nobody can take them from it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes", type=int, default=0, help="Spread the tests over so many processes."
    )
    parser.addoption("--beside", default="true", help="A command to run while tests are collected.")


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[BESIDE] = subprocess.Popen(shlex.split(session.config.getoption("beside")))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Literal[True] | None:
    processes = session.config.getoption("processes")
    if not processes or session.config.option.collectonly or session.testsfailed:
        return None  # pytest goes on by itself
    Spread(session, processes).run()
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash[BESIDE].wait():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.stash[BESIDE].returncode:
        terminalreporter.write_line(f"failed: {config.getoption('beside')}", red=True)


def folders_of(config: pytest.Config) -> pytest.TempPathFactory:
    folders: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    return folders


def folder_of_run(folders: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run share."""
    own = folders.getbasetemp()
    return own.parent if own.name.startswith(OWN) else own


class Stretches:
    """The numbers of the tests that nobody was given yet, a stretch for each process."""

    def __init__(self, tests: int, processes: int) -> None:
        bounds = [tests * n // processes for n in range(processes + 1)]
        self._left = [deque(range(*pair)) for pair in pairwise(bounds)]

    def take(self, process: int) -> list[int]:
        """The next share of a process: fewer tests towards the end, so that all end together."""
        own = self._left[process]
        if not own:
            longest = max(self._left, key=len)
            own.extendleft([longest.pop() for _ in range((len(longest) + 1) // 2)])
        return [own.popleft() for _ in range(min(SHARE, (len(own) + 1) // 2))]

    def give_back(self, process: int, tests: Iterable[int]) -> None:
        self._left[process].extendleft(reversed([*tests]))


class Forked:
    """A process that runs tests, as the one sees it that collected them."""

    def __init__(self, number: int, pid: int, line: Connection) -> None:
        self.number = number
        self.line = line
        self.given: deque[int] = deque()
        self._pid = pid

    def exit_code(self) -> int:
        """Of one that still runs too: it ends when it notices that nobody listens."""
        self.line.close()
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


class Spread:
    """Hands out the tests, and reports how they went."""

    def __init__(self, session: pytest.Session, processes: int) -> None:
        self._session = session
        self._hook = session.config.hook
        self._processes = processes
        self._stretches = Stretches(len(session.items), processes)
        self._running: dict[Connection, Forked] = {}
        folders_of(session.config).getbasetemp()  # the folder of the run, where each has its own

    def run(self) -> None:
        try:
            for number in range(self._processes):
                self._fork(number)
            while self._running:
                for line in wait(list(self._running), LOOK_SECONDS):
                    assert isinstance(line, Connection)
                    self._hear(self._running[line])
                if self._session.config.stash[BESIDE].poll():
                    raise self._session.Failed("the command beside has failed")
        finally:
            for process in self._running.values():
                process.exit_code()

    def _fork(self, number: int) -> None:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for line in (ours, *self._running):
                line.close()
            Worker(self._session, theirs, number).work()
        theirs.close()
        self._running[ours] = Forked(number, pid, ours)

    def _hear(self, process: Forked) -> None:
        try:
            word, said = process.line.recv()
        except (EOFError, ConnectionResetError):
            self._gone(process)
            return
        match word:
            case "more":
                share = self._stretches.take(process.number)
                process.given.extend(share)
                process.line.send(share)
            case "ran":
                loaded = self._hook.pytest_report_from_serializable
                reports = [loaded(config=self._session.config, data=data) for data in said]
                process.given.popleft()
                self._report(reports)
            case "warned":
                self._hook.pytest_warning_recorded.call_historic(kwargs=said)

    def _report(self, reports: Sequence[pytest.TestReport]) -> None:
        """The process that ran the test says where it is: to look for it here takes as long as all
        else that is done with a report."""
        test, place = reports[0].nodeid, reports[0].location
        self._hook.pytest_runtest_logstart(nodeid=test, location=place)
        for report in reports:
            self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=test, location=place)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _gone(self, process: Forked) -> None:
        """A process that was given all that there is to do has left, or one has died."""
        del self._running[process.line]
        code = process.exit_code()
        if process.given:
            number = process.given.popleft()
            self._stretches.give_back(process.number, process.given)
            self._fork(process.number)
            self._report([died(self._session.items[number], code)])
        elif code:
            raise RuntimeError(f"a process has run its tests and ended with exit code {code}")


def died(item: pytest.Item, code: int) -> pytest.TestReport:
    """A process dies in a test, or when it is told of the next ones; that is the first of them."""
    said = f"its process ended with exit code {code}"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")


class Worker:
    """A process that runs tests, as it sees itself."""

    def __init__(self, session: pytest.Session, line: Connection, number: int) -> None:
        self._session = session
        self._config = session.config
        self._line = line
        self._number = number
        self._is_settled = False

    def work(self) -> NoReturn:
        """Nothing of the process that it was forked from may run on, whatever happens."""
        code = 1
        try:
            self._settle()
            for item, following in pairwise(chain(self._items(), (None,))):
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._config.hook.pytest_unconfigure(config=self._config)
            code = 0
        except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the run was interrupted, or has failed and shall not go on
        except BaseException:  # noqa: BLE001 - it is shown, and the exit code tells of it
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _settle(self) -> None:
        """Have a folder for temporary files and a place for captured output of its own."""
        folders = folders_of(self._config)
        folders._basetemp = folders.mktemp(f"{OWN}{self._number}-")
        capturing = self._config.pluginmanager.getplugin("capturemanager")
        assert capturing is not None
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
        self._config.pluginmanager.register(self)
        self._is_settled = True

    def _items(self) -> Iterator[pytest.Item]:
        while share := self._more():
            for number in share:
                yield self._session.items[number]

    def _more(self) -> list[int]:
        self._line.send(("more", None))
        share: list[int] = self._line.recv()
        return share

    # What pytest calls ------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Literal[True]:
        dumped = self._config.hook.pytest_report_to_serializable
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        said = [dumped(config=self._config, report=report) for report in reports]
        self._line.send(("ran", said))
        return True

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        """Those from before the fork are told again to whoever is registered: not by us."""
        if not self._is_settled:
            return
        one = warning_message
        plain = warnings.WarningMessage(str(one.message), one.category, one.filename, one.lineno)
        said: dict[str, Any] = {"warning_message": plain, "when": when, "nodeid": nodeid}
        self._line.send(("warned", said | {"location": location}))
