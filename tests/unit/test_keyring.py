"""Keys are read strictly, and never shown."""

from __future__ import annotations

import pickle
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import App, BadOption, HoldfastError, Keyring
from holdfast.config import Settings
from holdfast.encryption.keyring import generate_key

KEY = b64encode(b"k" * 32).decode()
OTHER = b64encode(b"o" * 32).decode()


def load(folder: Path, environ: dict[str, str] | None = None, **arguments: object) -> Settings:
    return Settings.load(environ=environ or {}, folder=folder, **arguments)


def test_the_first_key_encrypts_and_the_last_hides_unique_keys() -> None:
    ring = Keyring.of_text(f"2026-11:{KEY},2026-05:{OTHER}\n2025:{KEY}\n")
    assert (ring.ids, ring.first, ring.last) == (("2026-11", "2026-05", "2025"), "2026-11", "2025")
    assert ring.bytes_of("2026-05") == b"o" * 32


def test_a_generated_key_is_one_that_a_ring_reads() -> None:
    ring = Keyring.of_text(generate_key("2026-11"))
    assert ring.ids == ("2026-11",)
    assert generate_key("a") != generate_key("a")


@pytest.mark.parametrize("key", ["secret", "c2hvcnQ="])
def test_who_made_a_key_by_hand_is_told_how_to_make_one(key: str) -> None:
    with pytest.raises(BadOption, match=r"key k1 must be .* as 'holdfast keys generate'"):
        Keyring.of_text(f"k1:{key}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        KEY,
        f":{KEY}",
        f"a b:{KEY}",
        f"{'x' * 65}:{KEY}",
        f"env:{KEY[:-4]}:x",
        "2026-11:",
        f"2026-11:{KEY[:-5]}",
        f"2026-11:{KEY}!",
        f"2026-11:{b64encode(b's' * 16).decode()}",
        f"2026-11:{KEY},2026-11:{OTHER}",
    ],
)
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(BadOption) as refused:
        Keyring.of_text(text)
    assert KEY[:8] not in str(refused.value)
    assert KEY[:8] not in repr(refused.value.got)


@pytest.mark.parametrize(
    "keys", [{"a": 7}, {"a": b"short"}, {7: b"k" * 32}, {}, "a", {"file": KEY}]
)
def test_a_ring_takes_bytes_or_base64_by_their_ids(keys: object) -> None:
    with pytest.raises(BadOption):
        Keyring(keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("show", [repr, str, lambda ring: repr(Settings(keys=ring))])
def test_no_repr_shows_more_than_ids(show: Callable[[object], str]) -> None:
    shown = show(Keyring({"2026-11": b"k" * 32}))
    assert "Keyring(2026-11)" in shown
    assert "kkkk" not in shown
    assert KEY[:8] not in shown


def test_a_keyring_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Keyring({"a": b"k" * 32}))


def test_keys_come_from_the_argument_the_environment_or_a_file_they_name(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"of-file:{KEY}\n")
    (tmp_path / "holdfast.toml").write_text('keys = "env:MY_KEYS"\nunencrypted = ["errors"]\n')
    mine, own = {"MY_KEYS": f"of-mine:{KEY}"}, {"HOLDFAST_KEYS": f"of-env:{KEY}"}
    by_file = {"HOLDFAST_KEYS": f"file:{secret}"}
    for settings, kid in (
        (load(tmp_path, mine), "of-mine"),
        (load(tmp_path, mine | own), "of-env"),
        (load(tmp_path, mine | by_file), "of-file"),
        (load(tmp_path, mine | own, keys=f"of-argument:{KEY}"), "of-argument"),
    ):
        assert settings.keys is not None
        assert settings.keys.ids == (kid,)
        assert settings.unencrypted == ("errors",)
        assert not settings.hides_errors


@pytest.mark.parametrize("setting", ["keys", "signing_keys"])
def test_a_settings_file_is_no_place_for_a_key(tmp_path: Path, setting: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f'{setting} = "2026-11:{KEY}"')
    with pytest.raises(BadOption, match="no place for a key") as refused:
        load(tmp_path)
    assert KEY[:8] not in str(refused.value)


@pytest.mark.parametrize("setting", ["keys", "signing_keys"])
@pytest.mark.parametrize("keys", ["env:NOWHERE", "file:/no/such/file"])
def test_a_reference_that_leads_nowhere_is_named(tmp_path: Path, setting: str, keys: str) -> None:
    with pytest.raises(BadOption, match=f"{setting} must be .*{keys.partition(':')[2]}"):
        load(tmp_path, {f"HOLDFAST_{setting.upper()}": keys})


def test_signing_keys_are_keys_of_their_own(tmp_path: Path) -> None:
    settings = load(tmp_path, {"HOLDFAST_SIGNING_KEYS": f"k2:{KEY},k1:{KEY}"})
    assert settings.signing_keys is not None
    assert (settings.signing_keys.ids, settings.keys) == (("k2", "k1"), None)
    assert KEY[:8] not in repr(settings)


@pytest.mark.parametrize("value", ["args", ["errors", "tags"], 7])
def test_only_errors_and_progress_may_stay_plain(tmp_path: Path, value: object) -> None:
    with pytest.raises(BadOption, match="some of errors, progress"):
        load(tmp_path, unencrypted=value)


def test_an_app_with_keys_needs_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "holdfast.encryption.sealing", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(HoldfastError, match=r"pip install 'holdfast\[encryption\]'"):
        App("sqlite://", keys=f"a:{KEY}")
