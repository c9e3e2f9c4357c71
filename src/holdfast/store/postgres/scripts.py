"""The SQL of each verb, read from its own file: `sql/<noun>/<verb>.sql`.

What several scripts share is a part, a file in `sql/parts`. A script names its parts in its header
and says where each of them goes:

    -- $1 now   $2 channel   $3 ids
    -- uses: woken
    with ... now_ready as (...), {{woken}} select ...

A part that differs from script to script by a word takes that word from the script's header
(`-- let ids: $3::uuid[]` stands for `{{ids}}` in the part). A name in braces that nothing explains
is an error when the scripts are loaded, and so is a part or word that is announced and not placed.

What is the same for several places is written once, between `{{each …}}` and `{{end}}`, where
`{{place}}` stands for the name of each place in turn (`PLACES`).
The columns of a job's body are words too (`body.py`): no script spells them out.

Everything that is put into a script is text of this program, and the schema's name: an identifier
that `options` has checked against a pattern, quoted. Values only ever travel as parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from holdfast.job.happening import FIRST_KEPT, NEWEST_KEPT
from holdfast.job.record import ERRORS_KEPT
from holdfast.job.state import TRANSITIONS, UNTIMED, WAITING, JobState
from holdfast.store.contract.queues import RETAINED_BY
from holdfast.store.postgres.body import body_words

PACKAGE = "holdfast.store.postgres"

_SETTINGS = " ".join(f"when '{state}' then '{name}'" for state, name in RETAINED_BY.items())

WORDS = {
    # The setting of a queue that says how long a job is kept which ended in `state`.
    "retained_by": f"case state {_SETTINGS} end",
    "cancelled_retained_by": f"'{RETAINED_BY[JobState.CANCELLED]}'",
    # The time to believe: what a test's clock says, or the beginning of this very call. Not of the
    # transaction, which may be a caller's and may have lasted a while.
    "now": "coalesce($1::timestamptz, statement_timestamp())",
    # The last moment that the driver can tell: it knows no infinity and no year of five digits.
    "calendar_end": "'9999-12-31 23:59:59.999999Z'::timestamptz",
    # How much of its life a job keeps.
    "first_kept": str(FIRST_KEPT),
    "newest_kept": str(NEWEST_KEPT),
    "errors_kept": str(ERRORS_KEPT),
    "life_kept": str(FIRST_KEPT + NEWEST_KEPT + ERRORS_KEPT),
}

PLACES: Mapping[str, list[str]] = {
    # Where a job waits; all but ready without a line.
    "waiting": sorted(WAITING),
    "unlined": sorted(WAITING - {JobState.READY}),
    # No clock moves a job out of these.
    "untimed": sorted(UNTIMED),
    # Those of them that an attempt can end in.
    "untimed_end": sorted(UNTIMED & TRANSITIONS[JobState.RUNNING]),
    # What attempts of a job with steps have recorded.
    "recorded": ["step", "signal", "frames", "live_frames"],
}

_EACH = re.compile(r"\{\{each ([a-z_]+)\}\}\n?(.*?)\{\{end\}\}\n?", re.DOTALL)
_NAMED = re.compile(r"\{\{([a-z_]+)\}\}")
_USES = re.compile(r"^-- uses: (.+)$", re.MULTILINE)
_LET = re.compile(r"^-- let ([a-z_]+): (.+)$", re.MULTILINE)
_HEADER = re.compile(r"\A(?:--.*\n)+")


def in_schema(text: str, schema: str) -> str:
    return text.replace("{{schema}}", f'"{schema}"')


@lru_cache(maxsize=16)
def load_scripts(schema: str) -> Mapping[str, str]:
    """Every script of the backend by its noun and verb, for tables in `schema`."""
    folder = files(PACKAGE).joinpath("sql")
    parts = {name: _HEADER.sub("", text).rstrip() for name, text in _texts(folder / "parts")}
    return {
        f"{noun.name}/{verb}": in_schema(_assembled(f"{noun.name}/{verb}", text, parts), schema)
        for noun in folder.iterdir()
        if noun.is_dir() and noun.name != "parts"
        for verb, text in _texts(noun)
    }


def _texts(folder: Traversable) -> list[tuple[str, str]]:
    return [
        (file.name.removesuffix(".sql"), _for_each_place(file.read_text("utf-8")))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]


def _for_each_place(text: str) -> str:
    def repeated(found: re.Match[str]) -> str:
        return "".join(found[2].replace("{{place}}", place) for place in PLACES[found[1]])

    return _EACH.sub(repeated, text)


def _assembled(verb: str, text: str, parts: Mapping[str, str]) -> str:
    uses = " ".join(_USES.findall(text)).split()
    words = dict(_LET.findall(text))
    known = {**WORDS, **body_words(text), **words, **{name: parts[name] for name in uses}}
    placed = {"schema"}

    def put(found: re.Match[str]) -> str:
        name = found.group(1)
        placed.add(name)
        if name == "schema":
            return found.group()
        if name not in known:
            raise ValueError(f"{verb}.sql: {{{{{name}}}}} is no part that it uses, and no word")
        return _NAMED.sub(put, known[name])

    whole = _NAMED.sub(put, text)
    if idle := {*uses, *words} - placed:
        raise ValueError(f"{verb}.sql announces {', '.join(sorted(idle))} and places it nowhere")
    return whole
