"""Strategies for everything that can end an attempt."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    HandedBack,
    PutOff,
    Raised,
    Reclaimed,
    Returned,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.policy import Policy, Retention
from holdfast.job.retry import Retry

seconds = st.floats(min_value=0, max_value=1e6)
any_float = st.floats()
moments = st.datetimes(
    datetime(1970, 1, 1),  # noqa: DTZ001 - hypothesis takes the bounds without a zone
    datetime(9000, 1, 1),  # noqa: DTZ001 - as above
    timezones=st.just(UTC),
)
names = st.sets(st.sampled_from(["builtins.OSError", "ValueError", "shop.Declined"])).map(tuple)
text = st.text(max_size=50)

retries = st.one_of(
    st.builds(
        Retry,
        max_attempts=st.none() | st.integers(1, 50),
        on=names,
        not_on=names,
        curve=st.sampled_from(["exponential", "linear", "constant"]),
        base=st.floats(min_value=0, max_value=1e9),
        cap=seconds,
        jitter=st.floats(0, 1),
    ),
    st.builds(
        Retry,
        max_attempts=st.integers(1, 50),
        curve=st.just("custom"),
        cap=seconds,
        jitter=st.floats(0, 1),
        delays=st.lists(seconds, min_size=1, max_size=5).map(tuple),
    ),
)
policies = st.builds(
    Policy,
    retry=retries,
    timeout=st.none() | st.floats(min_value=0.001, max_value=1e6),
    max_crashes=st.integers(1, 5),
    retention=st.builds(Retention, *[st.none() | seconds] * 3),
    keep_result=st.booleans(),
)

ends_of_running: st.SearchStrategy[End] = st.one_of(
    st.builds(Returned, st.none() | text),
    st.builds(
        Raised,
        text,
        text,
        st.none() | text,
        st.none() | any_float,
        st.booleans(),
        retry_at=st.none() | moments,
        names=names,
    ),
    st.builds(Snoozed, any_float, st.none() | moments),
    st.builds(WasThrottled, any_float, text),
    st.builds(WasSuspended, st.none() | any_float),
    st.builds(HandedBack),
    st.builds(PutOff, any_float, text),
    st.builds(Reclaimed, text, st.booleans()),
    st.builds(WorkerLost),
    st.builds(TimedOut, seconds),
    st.builds(Cancelled, text),
    st.builds(DeadlinePassed),
)
ends_of_waiting: st.SearchStrategy[End] = st.one_of(
    st.builds(Cancelled, text), st.builds(DeadlinePassed)
)
