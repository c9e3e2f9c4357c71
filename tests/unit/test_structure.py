"""The tree shows the architecture: what has one name is found under that name everywhere.

A part of the contract (`store/contract/claiming.py`) has a file of the same name in each backend. A
verb has a script of its name and a conformance file of its name. Exceptions stand in the short
tables here, each with its reason; an entry that is no longer needed fails too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast
from holdfast.background.reconciler import Reconciler
from holdfast.reconcile.standard import STANDARD
from tests.support.source import PACKAGE, ROOT, classes, methods, modules

BACKENDS = {"sqlite": "sql", "postgres": "sql", "valkey": "lua"}
JOBS = (
    *("inserting", "claiming", "finishing", "handing_over", "progressing", "sweeping"),
    *("operating", "reading", "joining"),
)
CONFORMANCE = ROOT / "tests" / "conformance"

TOP_LEVEL = {
    *(
        "__init__",
        "app",
        "task",
        "handle",
        "context",
        "config",
        "clock",
        "errors",
        "events",
        "services",
    ),
    *("hooks", "resources", "logs", "opened_worker", "fencing"),
    *("job", "codec", "enqueue", "client", "insights", "background", "reconcile", "schedule"),
    "operations",
    *("__main__", "handlers", "worker", "store", "cli", "testing", "declaring", "encryption"),
    *("telemetry", "contrib", "flow", "steps", "limits", "fleet", "server"),
}
"""What a user meets, and folders named by nouns; the last three are still to come."""

NO_SCRIPT = {
    "jobs.within": "runs the scripts of other verbs on the caller's connection",
    "jobs.within_sync": "as within",
    "flows.start_within": "start, on the caller's connection",
    "flows.start_within_sync": "as start_within",
    "store.open": "connects",
    "store.close": "disconnects",
    "store.sibling": "makes an object",
    "store.migration_sql": "shows the migrations",
    "wakeups.subscribe": "listens with a command of the driver",
    "wakeups.doze": "changes what is listened to",
    "wakeups.tell": "stays inside the program",
}
"""Verbs that no store has a script for."""

SCRIPT_ELSEWHERE = {
    ("postgres", "jobs.hand_over"): "it cannot: see Capability",
    ("valkey", "jobs.hand_over"): "it cannot: see Capability",
    ("postgres", "jobs.reclaim"): "finish, with a condition that is a parameter",
    ("postgres", "health.check"): "check_bloat and its siblings: one script for each question",
    ("postgres", "health.repair"): "nothing to repair: the row of a job is its only place",
    ("sqlite", "health.repair"): "nothing to repair: the row of a job is its only place",
    ("valkey", "health.repair"): "check and surplus, which repair what they find",
    ("sqlite", "telemetry.correct"): "the step of fold that adds to a tally",
    ("postgres", "store.migrate"): "migrations/: locks, reads and records",
    ("sqlite", "store.now"): "a clock of the program: the file has none",
    ("valkey", "jobs.reclaim"): "finish, with a condition that is an argument",
    ("valkey", "jobs.live"): "commands of the server, in one round trip",
    ("valkey", "jobs.outcomes"): "commands of the server, in one round trip",
    ("valkey", "jobs.page"): "newest, erring and commands of the server",
    ("valkey", "jobs.count"): "commands of the server, in one round trip",
    ("valkey", "jobs.lapsed_leases"): "lapsed_holders and commands of the server",
    ("valkey", "jobs.overdue_attempts"): "late, which both sweeps by time share",
    ("valkey", "jobs.past_deadline"): "late, and drop_deadlines for jobs that have ended",
    ("valkey", "jobs.next_deadline_in"): "soonest, which reads the first due time of any kind",
    ("valkey", "jobs.due"): "soonest and commands of the server",
    ("valkey", "jobs.promote"): "promote_due, for jobs by name",
    ("valkey", "queues.waiting"): "commands of the server, in one round trip",
    ("valkey", "queues.paused"): "one command of the server",
    ("valkey", "queues.find"): "oldest_ready and commands of the server",
    ("valkey", "workers.find"): "commands of the server, in one round trip",
    ("valkey", "operations.kept"): "one command of the server",
    ("valkey", "flows.get"): "one command of the server",
    ("valkey", "flows.children"): "one command of the server for each job",
    ("valkey", "flows.graph"): "one command of the server",
    ("valkey", "flows.count"): "commands of the server, in one round trip",
    ("valkey", "flows.page"): "newest, as for jobs, and one command of the server",
    ("valkey", "flows.errands"): "one command of the server",
    ("valkey", "flows.done"): "one command of the server",
    ("valkey", "flows.let_go"): "one command of the server",
    ("valkey", "failures.find"): "commands of the server: each partition has its own part",
    ("valkey", "telemetry.tallies"): "the counts, one command of the server",
    ("valkey", "schedules.cursors"): "one command of the server",
    ("valkey", "schedules.find"): "one command of the server",
    ("valkey", "steps.load"): "one command of the server for each job",
    ("valkey", "steps.recall"): "two commands of the server for each job",
    ("valkey", "signals.of"): "one command of the server for each job",
    **{
        ("sqlite", f"limits.{verb}"): "load and save of parts/buckets: the rules are pure code"
        for verb in ("take", "give", "adjust", "reset")
    },
    **{
        ("postgres", f"limits.{verb}"): "lock and save: the rules are pure code"
        for verb in ("give", "adjust", "reset")
    },
    ("valkey", "limits.put"): "declare, said by an operator",
    ("valkey", "limits.find"): "commands of the server, in one round trip",
    ("valkey", "limits.of"): "one command of the server for each job",
    ("valkey", "limits.buckets"): "one command of the server, and get",
}
"""What a store runs for a verb instead of a script of its name."""

TESTED_IN = {
    "jobs.within_sync": "test_within",
    "jobs.next_deadline_in": "test_past_deadline",
    "jobs.due": "test_promote",
    "health.check": "test_health",
    "health.repair": "test_health",
    "store.open": "test_migrate",
    "store.close": "test_migrate",
    "store.sibling": "test_now",
    "store.migration_sql": "test_migrate",
    "workers.register": "test_workers",
    "workers.heartbeat": "test_workers",
    "workers.deregister": "test_poll",
    "workers.find": "test_workers",
    "workers.sweep": "test_workers",
    "workers.stop_leading": "test_lead",
    "workers.counts": "test_worker_facts",
    "queues.ensure": "test_queues",
    "queues.pause": "test_queues",
    "queues.resume": "test_queues",
    "queues.paused": "test_queues",
    "queues.tune": "test_queues",
    "queues.find": "test_queues",
    "telemetry.tallies": "test_telemetry",
    "telemetry.totals": "test_telemetry",
    "telemetry.traffic": "test_telemetry",
    "telemetry.recount": "test_telemetry",
    "telemetry.correct": "test_telemetry",
    "telemetry.fold": "test_telemetry",
    "telemetry.record": "test_measures",
    "telemetry.roll_up": "test_measures",
    "telemetry.series": "test_measures",
    "telemetry.times": "test_measures",
    "telemetry.prune_measures": "test_measures",
    "schedules.resume": "test_schedules_pause",
    "schedules.cursors": "test_schedules_record",
    "schedules.advance": "test_schedules_record",
    "schedules.failed_plans": "test_schedules_history",
    "schedules.complain": "test_schedules_find",
    "audit.begin": "test_audit",
    "audit.close": "test_audit",
    "audit.page": "test_audit",
    "audit.prune": "test_audit",
    "operations.begin": "test_operations",
    "operations.advance": "test_operations",
    "operations.stop": "test_operations",
    "operations.go_on": "test_operations",
    "operations.find": "test_operations",
    "operations.kept": "test_operations",
    "operations.prune": "test_operations",
    "failures.find": "test_failures",
    "failures.mute": "test_failures",
    "failures.note": "test_failures",
    "failures.prune": "test_failures",
    "shelf.put": "test_shelf",
    "shelf.get": "test_shelf",
    "shelf.find": "test_shelf",
    "shelf.delete": "test_shelf",
    "shelf.prune": "test_shelf",
    "flows.start_within": "test_flows_start",
    "flows.start_within_sync": "test_flows_start",
    "flows.settle": "test_flows_reopen",
    "flows.mend": "test_flows_reopen",
    "flows.pause": "test_flows_operating",
    "flows.resume": "test_flows_operating",
    "flows.close": "test_flows_operating",
    "flows.errands": "test_flows_operating",
    "flows.done": "test_flows_operating",
    "flows.let_go": "test_flows_one_answer",
    "flows.inputs": "test_flows_reading",
    "flows.get": "test_flows_reading",
    "flows.page": "test_flows_reading",
    "flows.count": "test_flows_reading",
    "flows.nodes": "test_flows_reading",
    "flows.graph": "test_flows_reading",
    "flows.prune": "test_flows_release",
    "steps.load": "test_steps_record",
    "steps.recall": "test_steps_record",
    "signals.of": "test_signals_send",
    "limits.declare": "test_limits",
    "limits.put": "test_limits",
    "limits.override": "test_limits",
    "limits.retire": "test_limits",
    "limits.drain": "test_limits",
    "limits.find": "test_limits",
    "limits.get": "test_limits",
    "limits.buckets": "test_limits",
    "limits.holders": "test_limits",
    "limits.waiters": "test_limits_aside",
    "limits.before": "test_limits_aside",
    "limits.recount": "test_limits",
    "limits.opens_in": "test_limits",
    "limits.take": "test_limits_verbs",
    "limits.give": "test_limits_verbs",
    "limits.adjust": "test_limits_verbs",
    "limits.reset": "test_limits_verbs",
    "limits.alarms": "test_limits_budget",
    "limits.weigh": "test_limits_fair",
    "jobs.report_spend": "test_limits_budget",
    "limits.of": "test_limits_claim",
    "limits.held_up": "test_limits_claim",
    "signals.waits": "test_signals_send",
    "signals.wake": "test_signals_send",
    "streams.of": "test_streams_read",
    "streams.trim": "test_streams_read",
    "wakeups.subscribe": "test_wakeups",
    "wakeups.doze": "test_wakeups",
    "wakeups.tell": "test_wakeups",
}
"""The conformance file of a verb that shares one with another."""

SAME_NAME = {
    "Options": "of an enqueue; of each server's URL: never imported together",
    "Connections": "of each server; backends know nothing of each other",
    "Schema": "of each server",
    "Step": "a recorded call of a job; the distance of the points of a series",
    "LostClaims": "a worker's search for them; the script and memory of Postgres's part in it",
    "Watchdog": "over a worker's loop; over a test's server",
    "Operation": "an act on many jobs; the `operation` of a span, a word of OpenTelemetry",
}
"""Public classes that may share a name."""


class Verb(NamedTuple):
    """One method of the contract: the noun is the property of `Store`, the part is its file."""

    noun: str
    part: str
    name: str

    def __str__(self) -> str:
        return f"{self.noun}.{self.name}"


def contract() -> Iterator[Verb]:
    for path, tree in modules().items():
        if path.startswith("store/contract/"):
            part = Path(path).stem
            for protocol in classes(tree):
                if any(
                    isinstance(base, ast.Name) and base.id == "Protocol" for base in protocol.bases
                ):
                    yield from (
                        Verb("jobs" if part in JOBS else part, part, name)
                        for name in sorted(methods(protocol) - attributes(protocol))
                    )


def attributes(owner: ast.ClassDef) -> set[str]:
    return {
        node.name
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
        and any(
            isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list
        )
    }


VERBS = list(contract())
EACH = [(backend, verb) for backend in BACKENDS for verb in VERBS]


def test_the_contract_is_read_at_all() -> None:
    assert {verb.noun for verb in VERBS} == {
        "audit",
        "failures",
        "flows",
        "health",
        "jobs",
        "limits",
        "operations",
        "queues",
        "schedules",
        "shelf",
        "signals",
        "steps",
        "store",
        "streams",
        "telemetry",
        "wakeups",
        "workers",
    }
    assert len(VERBS) > 60


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_verb_has_its_method_in_the_file_of_its_part(backend: str) -> None:
    missing = [
        f"{backend}/{verb.part}.py: {verb.name}"
        for verb in VERBS
        if verb.name not in offered(backend, verb.part)
    ]
    assert not missing, "\n".join(missing)


def offered(backend: str, part: str) -> set[str]:
    """What the classes have that this module of a backend defines."""
    name = f"holdfast.store.{backend}.{part}"
    if not (PACKAGE / "store" / backend / f"{part}.py").exists():
        return set()
    module = importlib.import_module(name)
    own = [
        kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == name
    ]
    return {attribute for kind in own for attribute in dir(kind)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_verb_has_its_script_under_its_noun(backend: str) -> None:
    language = BACKENDS[backend]
    missing = [
        f"{backend}/{language}/{verb.noun}/{verb.name}.{language}"
        for verb in VERBS
        if str(verb) not in NO_SCRIPT
        and (backend, str(verb)) not in SCRIPT_ELSEWHERE
        and not script(backend, verb).exists()
    ]
    assert not missing, "\n".join(missing)


def script(backend: str, verb: Verb) -> Path:
    language = BACKENDS[backend]
    return PACKAGE / "store" / backend / language / verb.noun / f"{verb.name}.{language}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_scripts_lie_under_a_noun(backend: str) -> None:
    language = BACKENDS[backend]
    flat = (PACKAGE / "store" / backend / language).glob(f"*.{language}")
    assert not (found := sorted(file.name for file in flat)), "\n".join(found)


def test_no_statement_for_sqlite_binds_by_number() -> None:
    """`sqlite3` of Python 3.12.0 to 3.12.3 takes `?1` for a name. It then warns that the values
    come as a sequence, and a program that makes errors of warnings cannot use the store."""
    folders = (PACKAGE / "store" / "sqlite", ROOT / "bench", ROOT / "tests")
    scripts = [file for folder in folders for file in folder.rglob("*.sql")]
    assert [str(file) for file in scripts if re.search(r"\?[0-9]", file.read_text("utf-8"))] == []
    assert len(scripts) > 60


def test_the_tables_of_reasons_have_no_entry_that_is_not_needed() -> None:
    known = {str(verb): verb for verb in VERBS}
    assert {name for name in NO_SCRIPT if name not in known} == set()
    assert {name for _, name in SCRIPT_ELSEWHERE if name not in known} == set()
    needless = [
        (backend, name)
        for backend, name in SCRIPT_ELSEWHERE
        if name in NO_SCRIPT or script(backend, known[name]).exists()
    ]
    assert needless == []
    assert {name for name in TESTED_IN if name not in known} == set()
    assert {name for name in TESTED_IN if own_test(known[name])} == set()


def test_every_verb_has_its_conformance_file() -> None:
    missing = [str(verb) for verb in VERBS if not (own_test(verb) or shared_test(verb))]
    assert not missing, "\n".join(missing)


def own_test(verb: Verb) -> Path | None:
    names = [f"test_{verb.noun}_{verb.name}.py"]
    if verb.noun in ("jobs", "store", "workers"):
        names.append(f"test_{verb.name}.py")
    return next((file for name in names for file in CONFORMANCE.rglob(name)), None)


def shared_test(verb: Verb) -> bool:
    """The file that the table names calls the verb, or a helper that takes it in the plural."""
    named = TESTED_IN.get(str(verb))
    files = list(CONFORMANCE.rglob(f"{named}.py")) if named else []
    return any(re.search(rf"\b{verb.name}s?\(", file.read_text()) for file in files)


def test_the_top_level_holds_what_a_user_meets_and_folders_named_by_nouns() -> None:
    found = {
        entry.name.removesuffix(".py")
        for entry in PACKAGE.iterdir()
        if entry.suffix == ".py" or (entry.is_dir() and entry.name != "__pycache__")
    }
    assert sorted(found - TOP_LEVEL) == []


def test_no_two_public_classes_share_a_name() -> None:
    defined: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for found in classes(tree):
            if not found.name.startswith("_"):
                defined[found.name].append(path)
    shared = {name: paths for name, paths in defined.items() if len(paths) > 1}
    assert {name: paths for name, paths in shared.items() if name not in SAME_NAME} == {}
    assert set(SAME_NAME) - set(shared) == set(), "these names are unique by now"


def test_every_reconciler_is_started() -> None:
    for path in modules():
        if path.startswith("reconcile/"):
            importlib.import_module(f"holdfast.{path.removesuffix('.py').replace('/', '.')}")
    concrete = {
        kind
        for kind in subclasses(Reconciler)
        if kind.__module__.startswith("holdfast.reconcile.") and not inspect.isabstract(kind)
    }
    assert concrete == set(STANDARD)


def subclasses(kind: type) -> set[type]:
    own: set[type] = set(kind.__subclasses__())
    return own.union(*(subclasses(each) for each in own))


def test_the_version_is_said_in_one_place() -> None:
    """`tests/unit/test_events.py` and `test_glossary.py` hold events and words to their pages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert version("holdfast") == holdfast.__version__, "install the new version: make -B venv"


def test_the_pythons_that_are_promised_are_those_that_are_tested() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    promised = set(re.findall(r"Python :: (3\.\d+)", " ".join(classifiers)))
    tested = (ROOT / ".github/workflows/test.yml").read_text()
    assert promised == set(re.findall(r"\{python: \"(3\.\d+)\"", tested)) != set()
