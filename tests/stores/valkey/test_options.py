"""What a valkey:// URL says."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    BadOption,
)
from holdfast.store.open import open_store
from holdfast.store.valkey.options import Options


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("valkey://h", {"hosts": (("h", 6379),), "database": 0, "tls": False, "cluster": False}),
        ("redis://h:7/3", {"hosts": (("h", 7),), "database": 3}),
        ("rediss://u:p%40w@h", {"tls": True, "username": "u", "password": "p@w"}),
        ("valkeys://h?ssl_cert_reqs=none", {"tls_settings": {"ssl_cert_reqs": "none"}}),
        ("valkey://a,b:7?cluster=true", {"cluster": True, "hosts": (("a", 6379), ("b", 7))}),
        ("valkey+sentinel://a,b/main/2", {"sentinel": "main", "database": 2}),
        ("redis://a?sentinel=main", {"sentinel": "main", "hosts": (("a", 26379),)}),
        ("valkey://h?namespace=x&partitions=16", {"namespace": "x", "partitions": 16}),
    ],
)
def test_a_url_says_where_and_how(url: str, expected: dict[str, object]) -> None:
    options = Options.of(url)
    assert {name: getattr(options, name) for name in expected} == expected
    assert "p@w" not in options.where + repr(options)
    assert "p%40w" not in options.where


@pytest.mark.parametrize(
    "url",
    [
        "valkey://h?partitions=3",
        "valkey://h?partitions=0",
        "valkey://h/mail",
        "valkey://h?namespace=a:b",
        "valkey://h?timeout=soon",
        "valkey://h?cluster=perhaps",
        "valkey://h/1?cluster=true",
        "valkey://h?unheard_of=1",
        "valkey+sentinel://h",
        "valkey://h:port",
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(BadOption):
        open_store(url)
