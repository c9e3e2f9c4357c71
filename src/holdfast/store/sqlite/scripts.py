"""SQL lies in files: `sql/<noun>/<verb>.sql`, and `sql/parts/` for what several verbs share.

A file may hold several statements, each after a line `-- name: …`; a file without such lines
is one statement. `{{parts/…}}` stands for the text of that part, `{{place}}` for the table of a
live place (see `places.at`), and the words of `BODY_WORDS` for the columns of a job's body.

A statement takes its values by `?` in their order, as those that every job passes do, or by
`:name`, where a value stands twice or the order would be a riddle. Never by `?1`: to some Pythons
that is a name, and they warn of a sequence of values.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from pathlib import Path

from holdfast.store.body import BODY, SHARED

_FOLDER = Path(__file__).parent / "sql"
_STEP = re.compile(r"^-- name: (.+)$", re.MULTILINE)
BODY_WORDS = {
    "{{body}}": ", ".join(BODY),
    "{{body of j}}": ", ".join(f"j.{name}" for name in BODY),
    "{{body values}}": ", ".join("?" * len(BODY)),
    "{{shared}}": ", ".join(SHARED),
    "{{shared values}}": ", ".join("?" * len(SHARED)),
    "{{shared named}}": ", ".join(f":{name}" for name in SHARED),
}
ROWS_TOGETHER = 20
ROWS_ALIKE = 100
_LISTED = re.compile(r"\(values (\(.+?\))\)")
_PART = re.compile(r"\{\{(parts/\w+)\}\}")


@cache
def script(verb: str) -> str:
    """The file of a verb that is one statement; `verb` is its path, such as `jobs/page`."""
    return _read(verb)


@cache
def steps(verb: str) -> dict[str, str]:
    """The file of a verb that takes several statements, by their names."""
    _, *parts = _STEP.split(_read(verb))
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


@cache
def alone(sql: str) -> str:
    """A statement that names its rows by a list of ids, as one for a single id: SQLite finds a key
    in a third of the time that it takes to make a table of a list of one."""
    return sql.replace("in (select value from json_each(?))", "= ?")


@cache
def together(sql: str) -> str:
    """A statement that inserts one row, as one that inserts several. `or fail` as in
    `flows/settle`: an error rolls the transaction back anyway."""
    head, values = sql.rsplit("values", 1)
    rows = ", ".join([values.strip()] * ROWS_TOGETHER)
    return f"{head.replace('insert', 'insert or fail', 1)}values {rows}"


@cache
def alike(sql: str, rows: int) -> str:
    """A statement that inserts the row of its `(values (?, …))`, as one that inserts so many."""
    return _LISTED.sub(lambda row: f"(values {', '.join([row[1]] * rows)})", sql)


def statements(text: str) -> list[str]:
    """A whole script cut into statements.

    `executescript` would commit the transaction it runs in, so a migration is run one
    statement at a time.
    """
    found, current = [], ""
    for line in text.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    return found


def _read(verb: str) -> str:
    text = (_FOLDER / f"{verb}.sql").read_text("utf-8").strip()
    for word, columns in BODY_WORDS.items():
        text = text.replace(word, columns)
    return _PART.sub(lambda part: _read(part[1]), text)
