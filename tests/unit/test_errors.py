"""The tree of errors at the top of `holdfast.errors` is the tree of its classes."""

from __future__ import annotations

import re

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.job.checks import known_job_id

BRANCH = re.compile(r"^    ((?:│   |    )*)[├└]── (\w+)", re.MULTILINE)


def drawn() -> dict[str, str]:
    """Each error of the drawing with the error that it hangs from."""
    path, found = [HoldfastError.__name__], {}
    for indent, name in BRANCH.findall(errors.__doc__ or ""):
        depth = len(indent) // 4 + 1
        found[name] = path[depth - 1]
        path[depth:] = [name]
    return found


def declared() -> dict[str, str]:
    """Each public error of the module with its nearest public base."""
    public = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, HoldfastError) and not name.startswith("_")
    }
    return {
        name: next(base.__name__ for base in kind.__mro__[1:] if base.__name__ in public)
        for name, kind in public.items()
        if kind is not HoldfastError
    }


def test_the_drawing_shows_every_error_under_its_base() -> None:
    assert declared()
    assert drawn() == declared()


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownOperation("x" * 100_000),
        errors.UnknownFailure("x" * 100_000),
        errors.UnknownSchedule("x" * 100_000),
        errors.UnknownWorker("x" * 100_000, []),
        errors.UnknownTask("x" * 100_000, []),
    ],
)
def test_an_error_repeats_no_more_of_a_name_than_a_person_reads(error: HoldfastError) -> None:
    assert len(str(error)) < 1_000


def test_a_long_text_that_is_no_id_is_cut_in_the_error() -> None:
    with pytest.raises(errors.UnknownJob) as caught:
        known_job_id("x" * 100_000)
    assert len(str(caught.value)) < 1_000
