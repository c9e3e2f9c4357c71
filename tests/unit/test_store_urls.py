"""A URL that leads to no store is answered with what was written and what to write."""

from __future__ import annotations

import pytest

from holdfast.errors import BadOption
from holdfast.store.open import check_url, open_store


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "got ''"),
        ("jobs.db", "write 'sqlite:///jobs.db', got 'jobs.db'"),
        ("data/jobs.db", "write 'sqlite:///data/jobs.db', got 'data/jobs.db'"),
        ("sqlite:/jobs.db", "write 'sqlite:///jobs.db', got 'sqlite:/jobs.db'"),
        ("postgresql+asyncpg://ann:secret@db/shop", "leave out '+asyncpg'"),
        ("sqlite+aiosqlite:///jobs.db", "leave out '+aiosqlite'"),
        ("mysql://ann:secret@db/shop", "got 'mysql://…'"),
        ("postgres:ann:secret@db/shop", "got 'postgres:…'"),
    ],
)
def test_a_url_of_no_store_says_what_to_write(url: str, says: str) -> None:
    with pytest.raises(BadOption) as refused:
        open_store(url)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ann:hunter2@db:port/shop",
        "postgres://ann:hunt#er2@db/shop",
        "postgres://ann:hunt/er2@db/shop",
        "postgres://ann:hunt?er2@db/shop",
        "valkey://ann:hunt/er2@db:6379/0",
        "valkey+sentinel://:hunter2@one:26379,two:x/main",
    ],
)
def test_a_password_that_cuts_a_url_short_is_explained_and_not_shown(url: str) -> None:
    with pytest.raises(BadOption, match="of a password are written %2F %3F %23 %40") as caught:
        check_url(url)
    assert "hunt" not in str(caught.value)
    assert "er2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ann:hunt%23er2@db:5432/shop?application_name=a@b",
        "postgres://one:5432,two:5433/shop",
        "postgres:///shop?host=/run/postgresql",
        "postgres://ann:p:q@[::1]:5432/shop",
        "postgres://[::1]/shop",
        "valkey+sentinel://:hunter2@one:26379,two/main/0",
        "valkey://db:6379/0",
    ],
)
def test_an_address_of_a_server_is_taken(url: str) -> None:
    check_url(url)
