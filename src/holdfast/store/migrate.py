"""Migrations: ordered files with checksums, the same idea on every backend.

A file `0001_engine.sql` is version 1. What was applied is recorded with its
checksum; a program that knows fewer versions than the store refuses to write
to it, because it cannot know what the newer ones mean.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from holdfast.errors import SchemaMissing, SchemaOutdated, SchemaTampered, SchemaTooNew


class Migration(msgspec.Struct, frozen=True):
    version: int
    name: str
    sql: str
    checksum: str

    @classmethod
    def of(cls, file: Path) -> Migration:
        sql = file.read_text("utf-8")
        checksum = hashlib.sha256(sql.encode()).hexdigest()
        return cls(int(file.stem.partition("_")[0]), file.stem, sql, checksum)


@cache
def load_migrations(package: str) -> list[Migration]:
    """The migration files of a backend, by version. They are read once: every connection to a
    SQLite file compares them with what was applied to it."""
    folder = Path(sys.modules[package].__path__[0], "migrations")
    found = map(Migration.of, folder.glob("*.sql"))
    return sorted(found, key=lambda migration: migration.version)


def pending(known: list[Migration], applied: Mapping[int, str], where: str) -> list[Migration]:
    """Which migrations still have to run; raises if the store is not ours to touch.

    `applied` maps each applied version to its checksum.
    """
    newest = known[-1].version
    if applied and max(applied) > newest:
        raise SchemaTooNew(where, max(applied), newest)
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaTampered(migration.name)
    return [migration for migration in known if migration.version not in applied]


def require_current(known: list[Migration], applied: Mapping[int, str], where: str) -> None:
    """Raise unless every migration this program knows, and no other, is applied."""
    if not applied:
        raise SchemaMissing(where)
    if pending(known, applied, where):
        raise SchemaOutdated(where, max(applied), known[-1].version)
