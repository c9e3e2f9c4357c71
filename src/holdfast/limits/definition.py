"""A limit as a program declares it, or as an operator changes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.line_rule import Passing, check_template
from holdfast.job.passing import MOST_UNITS, require_own_name
from holdfast.limits.model import Budget, Concurrency, Rate, Settings


class Limit(Passing, frozen=True, kw_only=True):
    """A limit as `app.limit` declares it. By itself, all jobs that name it share one bucket."""

    settings: Settings

    def by(self, key: str | None = None, *, cost: int | str = 1) -> Passing:
        """One bucket for each value of an argument, or of a template of arguments such as
        `"{org}/{team}"`. A job costs 1, or as much as the argument named `cost` says. The key of a
        budget may be a path: `acme/ml` is spent by `acme` too. A cost that the limit never lets
        pass is refused."""
        if key is not None:
            check_template(f"key of limit {self.limit!r}", key)
        what = f"cost of limit {self.limit!r}"
        if not isinstance(cost, str):
            self.require_passable(what, checks.count(what, cost, most=MOST_UNITS))
        elif not cost.isidentifier():
            raise BadOption(what, "a number or an argument's name", cost)
        is_path = key is not None and isinstance(self.settings, Budget)
        return Passing(self.limit, key, cost, is_path, self.settings.largest)


def declared(name: str, settings: object) -> Limit:
    require_own_name(name)
    if not isinstance(settings, Settings):
        raise BadOption(f"limit {name!r}", "a Concurrency, a Rate or a Budget", settings)
    return Limit(name, largest=settings.largest, settings=settings)


def changed(name: str, before: Settings | None, changes: Mapping[str, Any]) -> Settings:
    """The settings of a limit with some of them changed; those of a new limit, if there is none."""
    kind = type(before) if before is not None else _kind_with(changes)
    known = kind.__struct_fields__
    for option in changes:
        if option not in known:
            expected = f"settings of a {kind.__name__}: {', '.join(known)}"
            raise BadOption(f"limit {name!r}", expected, option)
    if not changes:
        raise BadOption(f"limit {name!r}", f"some of its settings: {', '.join(known)}", "none")
    values = {} if before is None else msgspec.structs.asdict(before)
    if isinstance(before, Budget) and isinstance(hard := changes.get("hard"), int):
        values["soft"] = _same_part(before, hard)
    values |= changes
    needed = [field.name for field in msgspec.structs.fields(kind) if field.required]
    if missing := [option for option in needed if option not in values]:
        expected = f"one that is defined, or a new {kind.__name__} with its {' and '.join(needed)}"
        raise BadOption(f"limit {name!r}", expected, f"no {' and no '.join(missing)}")
    return kind(**values)


def _same_part(before: Budget, hard: int) -> int | None:
    """The soft amount that is the same part of another hard one. A hard amount of 0 has none: a
    soft amount of 0, which would stay when the budget is opened again, tells of every key."""
    if before.soft is None or not (hard and before.hard):
        return None
    return before.soft * hard // before.hard


def _kind_with(changes: Mapping[str, Any]) -> type[Settings]:
    """Of which kind a limit is that is set for the first time."""
    if "hard" in changes:
        return Budget
    return Rate if "per" in changes else Concurrency
