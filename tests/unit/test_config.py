"""Settings: argument > environment > holdfast.toml > pyproject.toml > default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.config import Settings
from holdfast.errors import BadOption


def test_without_sources_the_defaults_hold(tmp_path: Path) -> None:
    assert Settings.load(environ={}, folder=tmp_path) == Settings()


def test_each_source_hides_the_one_below_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.holdfast]\nlease = 10\n")
    assert Settings.load(environ={}, folder=tmp_path).lease == 10
    (tmp_path / "holdfast.toml").write_text("lease = 20\n")
    assert Settings.load(environ={}, folder=tmp_path).lease == 20
    environ = {"HOLDFAST_LEASE": "40"}
    assert Settings.load(environ=environ, folder=tmp_path).lease == 40
    assert Settings.load(environ=environ, folder=tmp_path, lease=50).lease == 50


def test_a_file_that_has_changed_counts_at_once(tmp_path: Path) -> None:
    """Also if its size and time are those that it had."""
    file = tmp_path / "pyproject.toml"
    for lease in (10, 20, 10):
        file.write_text(f"[tool.holdfast]\nlease = {lease}\n")
        os.utime(file, (1, 1))
        assert Settings.load(environ={}, folder=tmp_path).lease == lease


def test_a_folder_below_the_project_finds_its_settings(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('url = "sqlite:///x.db"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert Settings.load(environ={}, folder=below).url == "sqlite:///x.db"


def test_an_unknown_setting_names_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("leese = 20\n")
    with pytest.raises(BadOption, match=r"holdfast\.toml: setting must be one of .*lease"):
        Settings.load(environ={}, folder=tmp_path)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("lease = \n")
    with pytest.raises(BadOption, match=r"holdfast\.toml must be valid TOML"):
        Settings.load(environ={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "seconds"), [("20s", 20.0), ("15m", 900.0), ("1.5h", 5_400.0), ("90", 90.0), ("5", 5)]
)
def test_times_take_units_as_options_of_commands_do(
    text: str, seconds: float, tmp_path: Path
) -> None:
    environ = {"HOLDFAST_UNREADABLE_FOR": text}
    assert Settings.load(environ=environ, folder=tmp_path).unreadable_for == seconds
    (tmp_path / "holdfast.toml").write_text(f'lease = "{text}"\n')
    assert Settings.load(environ={}, folder=tmp_path).lease == seconds


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        (
            {"HOLDFAST_LEASE": "soon"},
            "lease must be seconds or such as 90s, 15m, 2h, 3d, got 'soon'",
        ),
        (
            {"HOLDFAST_UNREADABLE_FOR": "20 bananas"},
            "unreadable_for must be seconds or such as 90s, 15m, 2h, 3d, got '20 bananas'",
        ),
        ({"HOLDFAST_MAX_STEPS": "20s"}, "max_steps must be a whole number, got '20s'"),
        ({"HOLDFAST_LEASE": "200ms"}, "lease must be at least 0.3"),
        ({"HOLDFAST_LEASE": "0"}, "lease must be at least 0.3"),
        ({"HOLDFAST_KEEP_AUDIT": "0"}, "keep_audit must be more than 0 seconds"),
        ({"HOLDFAST_MAX_PAYLOAD": "1"}, "max_payload must be a whole number, at least 1024"),
    ],
)
def test_a_bad_value_is_refused(environ: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=says):
        Settings.load(environ=environ, folder=tmp_path)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, None),
        ({"PREFIX": "shop", "VERSION": "1.4", "ID": "pod-7"}, "shop-worker-1.4-pod-7"),
        ({"ID": "pod-7"}, "worker-pod-7"),
    ],
)
def test_variables_name_the_worker(tmp_path: Path, given: dict[str, str], name: str | None) -> None:
    """`{prefix}-worker-{version}-{id}`, so that a person finds the pod and its release."""
    environ = {f"HOLDFAST_WORKER_{part}": value for part, value in given.items()}
    assert Settings.load(environ=environ, folder=tmp_path).worker_name == name
