"""The SQL of each verb, read from its own file.

The one thing put into a script is the schema's name: an identifier that
`options` has checked against a pattern, quoted. Values only ever travel as
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

PACKAGE = "holdfast.store.postgres"


def in_schema(text: str, schema: str) -> str:
    return text.replace("{{schema}}", f'"{schema}"')


@lru_cache(maxsize=16)
def load_scripts(schema: str) -> Mapping[str, str]:
    """Every script of the backend by its noun and verb, for tables in `schema`."""
    folder = files(PACKAGE).joinpath("sql")
    return {
        f"{noun.name}/{file.name.removesuffix('.sql')}": in_schema(file.read_text("utf-8"), schema)
        for noun in folder.iterdir()
        if noun.is_dir()
        for file in noun.iterdir()
        if file.name.endswith(".sql")
    }
