"""The body of a job: one list of its fields for all stores."""

from __future__ import annotations

import pytest

from holdfast.job.record import Claimed, NewJob
from holdfast.store.body import BODY, LISTS, NARROW, SHOWN, Texts, _lists, body_of, body_reader
from holdfast.store.postgres.body import body_arrays, body_values, body_words
from tests.conformance.builders import new_job


def test_what_a_job_brings_and_shows_is_its_body_or_lies_on_its_narrow_row() -> None:
    shared = set(NewJob.__struct_fields__) & set(SHOWN)
    assert shared == set(BODY) | NARROW
    assert {"args", "policy", "tags", "headers"} <= set(BODY) & set(Claimed.__struct_fields__)


def test_a_field_that_no_column_can_keep_is_an_error() -> None:
    assert _lists({"a": str, "b": str | None, "c": Texts}) == {"c"}
    with pytest.raises(TypeError, match=r"NewJob\.weight"):
        _lists({"weight": float})


def test_a_list_becomes_one_value_in_its_own_place() -> None:
    job = new_job(tags=("a", "b"))
    flat = body_reader(flat="+".join, empty=None)
    whole = dict(zip(BODY, body_of(job), strict=True))
    assert dict(zip(BODY, flat(job), strict=True)) == whole | {"tags": "a+b"}
    assert set(LISTS) == {"tags"}
    assert flat(new_job())[BODY.index("tags")] is None


def test_the_parameters_of_a_body_follow_those_of_the_script() -> None:
    words = body_words("-- $1 now   $7 timeout\nselect $3, {{body_values}}")
    numbers = range(8, 8 + len(BODY))
    casts = ["::text::text[]" if name in LISTS else "::text" for name in BODY]
    assert words["body_values"] == ", ".join(map("${}{}".format, numbers, casts))
    assert words["body_arrays"] == ", ".join(f"${number}::text[]" for number in numbers)


def test_an_array_of_each_column_says_what_the_single_values_say() -> None:
    jobs = [new_job(tags=("a", 'b"')), new_job(headers="{}")]
    assert list(zip(*body_arrays(jobs), strict=True)) == list(map(body_values, jobs))
