"""The filter as people write it: read, refused, and written again."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadOption
from holdfast.insights.where import MOST_TERMS, parse_where, where_text
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ID = JobId("01a1e0e6-6bf4-7009-a4b5-b54dec8d97cd")

READ: list[tuple[str, dict[str, Any]]] = [
    ("queue:mail", {"queues": ("mail",)}),
    ("queue:mail queue:media queue:mail", {"queues": ("mail", "media")}),
    ("state:failed state:expired", {"states": frozenset({JobState.FAILED, JobState.EXPIRED})}),
    ("  task:send_*   tag:vip\ttag:eu ", {"tasks": ("send_*",), "tags": ("vip", "eu")}),
    ("tag:tenant:1", {"tags": ("tenant:1",)}),
    ('error:"timed out"', {"error_text": "timed out"}),
    (r'error:"say \"hi\" \\ there"', {"error_text": r'say "hi" \ there'}),
    ("args.customer:42", {"args": {"customer": 42}}),
    ('args.customer:"42"', {"args": {"customer": "42"}}),
    ("args.order.id:a-7 args.n:-1.5", {"args": {"order.id": "a-7", "n": -1.5}}),
    ("args.a:true args.b:null args.c:True", {"args": {"a": True, "b": None, "c": "True"}}),
    ('args."odd: key":1', {"args": {"odd: key": 1}}),
    ("priority:0", {"priority": 0}),
    ("priority:<0", {"priority_under": 0}),
    ("priority:<=0 priority:>=-3", {"priority_under": 1, "priority_over": -4}),
    ("attempts:>3", {"attempts_over": 3}),
    ("attempts:>=3", {"attempts_over": 2}),
    ("since:2h until:30m", {
        "created_after": NOW - timedelta(hours=2),
        "created_before": NOW - timedelta(minutes=30),
    }),
    ("since:2026-02-01T00:00:00+01:00", {"created_after": datetime(2026, 1, 31, 23, tzinfo=UTC)}),
    ("finished_since:1d", {"finished_after": NOW - timedelta(days=1)}),
    (f"id:{ID.upper()} worker:{ID}", {"ids": (ID,), "worker": ID}),
    ("fingerprint:0123456789abcdef", {"fingerprint": "0123456789abcdef"}),
    ("schedule:nightly QUEUE:mail", {"schedule": "nightly", "queues": ("mail",)}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), READ)
def test_a_text_is_read(text: str, fields: dict[str, Any]) -> None:
    assert parse_where(text, NOW) == JobFilter(**fields)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "where must be 1 to 4,096 characters"),
        ("x" * 5_000, "where must be 1 to 4,096 characters"),
        ("mail", "where must be terms such as queue:mail .* got 'mail'"),
        ("queue:mail oops", "where must be terms .* got 'oops'"),
        ("queue:", "where must be terms .* got 'queue:'"),
        ('error:"open', "where must be terms .* got 'error:\"open'"),
        ('error:"a"b', "where must be terms"),
        ("colour:red", "the word of 'colour:red' must be one of id, queue, .* args.PATH"),
        ("args:1", "the word of 'args:1' must be one of .* args.PATH"),
        ("queue.x:1", "the word of 'queue.x:1' must be one of"),
        ("queue:a state:faild", "the value of 'state:faild' must be one of blocked, "),
        ("task:*", "the value of 'task:\\*' must be a name, or the beginning"),
        ("task:a*b", "the value of 'task:a\\*b' must be a name, or the beginning"),
        ("task:.*x*", "the value of 'task:.\\*x\\*' must be a name"),
        ("priority:high", "the value of 'priority:high' must be a whole number behind one of"),
        ("priority:99999999999", "'priority:99999999999' must be a whole number"),
        ("attempts:3", "the value of 'attempts:3' must be a whole number behind one of > >="),
        ("attempts:>-2", "must be 0 or more attempts"),
        ("since:soon", "the value of 'since:soon' must be how long ago, such as 90s"),
        ("since:1h since:2h", "'since' must be given once, got 'since:2h'"),
        ("priority:1 priority:2", "'priority' must be given once"),
        ("args.a:1 args.a:2", "'args.a' must be given once"),
        ("fingerprint:12AB", "the value of 'fingerprint:12AB' must be a fingerprint: 16 hexad"),
        ("worker:ann", "the value of 'worker:ann' must be a UUID"),
        ("since:999999999999w", "must be how long ago"),
        (" ".join(f"tag:{n}" for n in range(MOST_TERMS + 1)), "at most 50 terms"),
    ],
)
def test_a_text_that_makes_no_sense_names_its_term(text: str, named: str) -> None:
    with pytest.raises(BadOption, match=named):
        parse_where(text, NOW)


texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12
)
names = st.from_regex(r"[a-z_.:/-]{1,8}\*?", fullmatch=True)
moments = st.none() | st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001 - the zone comes from `timezones`
    datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
numbers = st.none() | st.integers(-1_000, 1_000)
scalars = texts | st.integers(-(2**60), 2**60) | st.booleans() | st.none() | st.floats(-1e9, 1e9)
filters = st.builds(
    JobFilter,
    ids=st.sampled_from([(), (ID,)]),
    states=st.frozensets(st.sampled_from(JobState)),
    queues=st.lists(names, max_size=2, unique=True).map(tuple),
    tasks=st.lists(names, max_size=2, unique=True).map(tuple),
    tags=st.lists(texts, max_size=3, unique=True).map(tuple),
    args=st.dictionaries(texts, scalars, max_size=3),
    fingerprint=st.none() | st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    schedule=st.none() | texts,
    priority=numbers,
    priority_over=numbers,
    priority_under=numbers,
    attempts_over=st.none() | st.integers(0, 50),
    created_after=moments,
    created_before=moments,
    finished_after=moments,
    finished_before=moments,
    error_text=st.none() | texts,
)


@given(filters.filter(lambda which: which != JobFilter()))
def test_a_filter_is_read_back_from_its_text(which: JobFilter) -> None:
    read = parse_where(where_text(which))
    assert read == which
    assert [type(value) for value in read.args.values()] == [
        type(value) for value in which.args.values()
    ]


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(BadOption):
        parse_where(text, NOW)
