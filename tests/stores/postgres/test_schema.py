"""The schema: what the migrations build, who may own it, and where it is."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.errors import (
    BadOption,
    SchemaMissing,
    SchemaTooNew,
)
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.postgres.options import Options
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.servers import PostgresServer
from tests.conformance.builders import (
    new_job,
)
from tests.stores.postgres.shared import connected, opened
from tests.support.waiting import wait_until

GOLDEN = Path(__file__).parents[2] / "golden" / "postgres_schema.txt"


async def described(url: str) -> str:
    """Columns, keys, indexes, checks, view, functions, triggers and storage of the schema, in an
    order that stays."""
    async with connected(url) as connection:
        columns = await connection.fetch(
            "select table_name, column_name, data_type, collation_name, is_nullable, column_default"
            " from information_schema.columns where table_schema = 'holdfast'"
            " order by table_name, ordinal_position"
        )
        indexes = await connection.fetch(
            "select indexdef from pg_indexes where schemaname = 'holdfast' order by indexname"
        )
        storage = await connection.fetch(
            "select relname, reloptions from pg_class"
            " where relnamespace = 'holdfast'::regnamespace and reloptions is not null"
            " order by relname"
        )
        checks = await connection.fetch(
            "select conrelid::regclass, pg_get_constraintdef(oid) from pg_constraint"
            " where connamespace = 'holdfast'::regnamespace and contype = 'c' order by 1, 2"
        )
        functions = await connection.fetch(
            "select proname, pg_get_function_identity_arguments(oid), proconfig, md5(prosrc)"
            " from pg_proc where pronamespace = 'holdfast'::regnamespace order by 1, 2"
        )
        triggers = await connection.fetch(
            "select pg_get_triggerdef(oid) from pg_trigger"
            " where not tgisinternal and tgrelid::regclass::text like 'holdfast.%' order by 1"
        )
        view = await connection.fetchval("select pg_get_viewdef('holdfast.place'::regclass)")
    lines = [" ".join(str(value) for value in row if value is not None) for row in columns]
    lines += [row[0] for row in indexes]
    lines += [f"{row[0]} {row[1]}" for row in checks]
    lines += [f"{row[0]} with {', '.join(row[1])}" for row in storage]
    lines += [f"{row[0]}({row[1]}) with {', '.join(row[2] or [])}: {row[3]}" for row in functions]
    lines += [row[0] for row in triggers]
    return "\n".join([*lines, re.sub(r"\s+", " ", view).strip(), ""])


async def test_the_migrations_build_the_golden_schema(url: str) -> None:
    assert await described(url) == GOLDEN.read_text(), (
        "the schema changed: if that is meant, it needs a migration of its own, "
        f"and {GOLDEN} the new description"
    )


async def test_a_function_that_bends_the_planner_is_never_compiled(url: str) -> None:
    async with connected(url) as connection:
        bent = await connection.fetch(
            "select proname from pg_proc where pronamespace = 'holdfast'::regnamespace"
            " and proconfig::text like '%enable_%' and not 'jit=off' = any (proconfig)"
        )
    assert not bent, "a pooled connection would spend seconds on compiling these"


async def test_a_store_of_a_newer_program_is_refused(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    await PostgresStore(url).migrate()
    async with connected(url) as connection:
        await connection.execute("insert into holdfast.migration values (999, '0999_flows', 'x')")
    with pytest.raises(SchemaTooNew, match="999"):
        await PostgresStore(url).open()
    with pytest.raises(SchemaTooNew):
        await PostgresStore(url).migrate()


async def test_an_empty_database_is_migrated_only_when_told(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_database()
    monkeypatch.delenv("HOLDFAST_AUTO_MIGRATE", raising=False)
    with pytest.raises(SchemaMissing):
        await PostgresStore(url).open()
    monkeypatch.setenv("HOLDFAST_AUTO_MIGRATE", "1")
    async with opened(url) as store:
        assert await store.jobs.count(JobFilter()) == {}


async def test_the_printed_migrations_are_as_good_as_migrating(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    async with connected(url) as connection:
        await connection.execute(PostgresStore(url).migration_sql())
    assert await PostgresStore(url).migrate() == []
    assert await described(url) == GOLDEN.read_text()


async def test_a_schema_that_a_dba_made_is_enough_of_a_right(postgres: PostgresServer) -> None:
    url, name = postgres.new_database(), f"tenant_{secrets.token_hex(4)}"
    theirs = urlsplit(url)._replace(netloc=f"{name}:pw@{urlsplit(url).netloc.rpartition('@')[2]}")
    async with connected(url) as dba:
        await dba.execute(f"create role {name} login password 'pw'")
        await dba.execute(f"create schema holdfast authorization {name}")
        assert await PostgresStore(theirs.geturl()).migrate()
        await dba.execute(f"drop owned by {name} cascade; drop role {name}")


async def test_two_schemas_of_one_database_know_nothing_of_each_other(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_database()
    for schema in ("mine", "yours"):
        await PostgresStore(f"{url}?schema={schema}").migrate()
    async with opened(f"{url}?schema=mine") as mine, opened(f"{url}?schema=yours") as yours:
        heard: list[Wakeup] = []
        await yours.wakeups.subscribe(heard.append)
        [job] = await mine.jobs.insert([new_job(unique=Unique("k"))])
        assert await yours.jobs.get([job.id]) == []
        [other] = await yours.jobs.insert([new_job(unique=Unique("k"), queue="q")])
        assert other.how == "created"
        await wait_until(lambda: bool(heard), 5, "the listener heard its own schema")
        assert heard == [Wakeup(Topic.READY, "q", 1)]


@pytest.mark.parametrize("name", ["Mail", "1st", 'a"b', "a;drop", "x" * 64, "a-b"])
def test_a_schema_name_that_would_need_quoting_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match="schema"):
        Options.of(f"postgres://localhost/db?schema={name}")


@pytest.mark.parametrize(
    "option", ["pool_size=0", "pool_size=many", "statement_timeout=-1", "pooler=perhaps"]
)
def test_an_option_outside_its_range_is_refused(option: str) -> None:
    with pytest.raises(BadOption, match=option.partition("=")[0]):
        Options.of(f"postgres://localhost/db?{option}")


def test_the_drivers_own_options_are_passed_on_and_ours_are_not() -> None:
    options = Options.of("postgres://u:secret@h:1/db?sslmode=require&schema=s&pool_size=3")
    assert options.dsn == "postgresql://u:secret@h:1/db?sslmode=require"
    assert (options.schema, options.pool_size) == ("s", 3)


def test_where_a_store_is_can_be_shown_without_its_password() -> None:
    options = Options.of("postgres://u:secret@h:1/db?password=hidden")
    assert options.where == "postgres://u@h:1/db (schema holdfast)"
