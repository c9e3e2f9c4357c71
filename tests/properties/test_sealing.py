"""What is encrypted comes back to the letter, and opens nowhere but where it belongs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.encryption.keyring import Keyring
from holdfast.encryption.sealing import Owner, Sealing
from holdfast.errors import NoKey, Undecipherable, Unreadable
from holdfast.job.sealed import (
    Envelope,
    is_sealed,
    read_envelope,
    require_open,
    shown,
    shown_json,
    write_envelope,
)

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
SEALING = Sealing(Keyring({"new": NEW, "old": OLD}))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def owner(name: str = "job 1", sealing: Sealing = SEALING) -> Owner:
    return sealing.of(name)


@given(TEXTS, TEXTS, TEXTS, st.booleans())
def test_a_text_comes_back_to_the_letter(text: str, task: str, field: str, steady: bool) -> None:
    sealed = owner().seal(field, text, task, steady=steady)
    assert is_sealed(sealed)
    assert owner().open(field, sealed, task) == text
    assert msgspec.json.decode(sealed)["kid"] == "new"
    assert shown(sealed) == "encrypted (key new)"
    assert msgspec.json.decode(shown_json(sealed) or "") == "encrypted (key new)"


@given(TEXTS)
def test_every_key_of_the_ring_opens_what_it_encrypted(text: str) -> None:
    for ring in ({"old": OLD}, {"old": OLD, "new": NEW}):
        sealed = owner(sealing=Sealing(Keyring(ring))).seal("args", text)
        assert owner().open("args", sealed) == text


@given(st.data(), st.text("abc", min_size=1, max_size=40))
def test_no_changed_byte_goes_unnoticed(data: st.DataObject, text: str) -> None:
    envelope = read_envelope(owner().seal("args", text, "t"))
    which = data.draw(st.sampled_from(["nonce", "text"]))
    part = bytearray(getattr(envelope, which))
    at = data.draw(st.integers(0, len(part) - 1))
    part[at] ^= 1 << data.draw(st.integers(0, 7))
    harmed = msgspec.structs.replace(envelope, **{which: bytes(part)})
    with pytest.raises(Undecipherable):
        owner().open("args", write_envelope(harmed), "t")


@given(st.text("abc", min_size=1, max_size=40), st.integers(0, 200))
def test_no_part_of_a_text_opens(text: str, length: int) -> None:
    sealed = owner().seal("args", text, "t")
    with pytest.raises(Undecipherable):
        owner().open("args", sealed[: min(length, len(sealed) - 1)], "t")


@pytest.mark.parametrize(
    ("name", "field", "task"),
    [("job 2", "args", "t"), ("job 1", "result", "t"), ("job 1", "args", "other")],
)
def test_nothing_opens_elsewhere(name: str, field: str, task: str) -> None:
    sealed = owner("job 1").seal("args", "text", "t")
    assert owner("job 1").open("args", sealed, "t") == "text"
    with pytest.raises(Undecipherable, match="key new"):
        owner(name).open(field, sealed, task)


def test_an_error_of_an_earlier_attempt_is_not_that_of_a_later_one() -> None:
    sealed = owner().seal("error 1", "first")
    with pytest.raises(Undecipherable):
        owner().open("error 2", sealed)


def test_a_key_that_is_missing_is_named() -> None:
    sealed = owner().seal("args", "text")
    with pytest.raises(NoKey, match="key new") as missing:
        owner(sealing=Sealing(Keyring({"old": OLD}))).open("args", sealed)
    assert missing.value.kid == "new"
    with pytest.raises(NoKey, match="key new"):
        require_open(sealed)


def test_another_key_of_the_same_id_is_noticed() -> None:
    sealed = owner().seal("args", "text")
    with pytest.raises(Undecipherable, match="another key under the id"):
        owner(sealing=Sealing(Keyring({"new": OLD}))).open("args", sealed)


def test_a_form_of_a_later_release_is_left_to_it() -> None:
    later = write_envelope(Envelope(2, "new", b"n", b"c"))
    with pytest.raises(Unreadable):
        owner().open("args", later)
    with pytest.raises(Unreadable):
        require_open(later)


def test_two_encryptions_of_a_text_differ_unless_they_are_steady() -> None:
    assert owner().seal("args", "text") != owner().seal("args", "text")
    steady = owner().seal("args", "text", steady=True)
    assert steady == owner().seal("args", "text", steady=True)
    nonces = {
        read_envelope(sealed).nonce
        for sealed in (
            steady,
            owner().seal("args", "other", steady=True),
            owner().seal("headers", "text", steady=True),
            owner("job 2").seal("args", "text", steady=True),
        )
    }
    assert len(nonces) == 4


@given(TEXTS, TEXTS)
def test_a_unique_key_is_hidden_and_stays_the_same_in_a_rotation(one: str, other: str) -> None:
    before, after = Sealing(Keyring({"old": OLD})), SEALING
    assert before.unique_key(one) == after.unique_key(one)
    assert (after.unique_key(one) == after.unique_key(other)) == (one == other)
    assert after.unique_key(one).startswith("hmac:old:")


@pytest.mark.parametrize(
    "text", ["plain", "", '{"a":1}', 'said {"$enc": whatever', 'ValueError: {"$enc":']
)
def test_what_is_not_encrypted_is_shown_as_it_is(text: str) -> None:
    assert shown(text) == text


def test_words_before_an_encrypted_text_are_shown() -> None:
    assert shown(f"Yellow: {owner().seal('error 1', 'x')}") == "Yellow: encrypted (key new)"
    assert shown('{"$enc":1,"kid":') == "encrypted (key ?, altered)"
