"""A URL that leads to no store is answered with what was written and what to write."""

from __future__ import annotations

import pytest

from holdfast.errors import BadOption
from holdfast.store.open import open_store


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
