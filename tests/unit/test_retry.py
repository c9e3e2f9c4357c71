"""retry.py: curves of waiting, as data."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from holdfast.errors import BadOption
from holdfast.job.checks import LONGEST_WAIT
from holdfast.job.retry import Retry, exception_names


def waits(retry: Retry, count: int = 5) -> list[float]:
    return [retry.delay(failures) for failures in range(1, count + 1)]


def test_an_exponential_curve_doubles_up_to_its_cap() -> None:
    assert waits(Retry(base=3, cap=20, jitter=0)) == [3, 6, 12, 20, 20]


def test_a_linear_curve_adds_up_to_its_cap() -> None:
    assert waits(Retry.linear(base=3, cap=10, jitter=0)) == [3, 6, 9, 10, 10]


def test_a_constant_curve_stays() -> None:
    assert waits(Retry.constant(base=3, jitter=0)) == [3, 3, 3, 3, 3]


def test_a_custom_curve_is_followed_and_its_last_wait_repeats() -> None:
    assert waits(Retry.custom([1, 5, 2], jitter=0)) == [1, 5, 2, 2, 2]


def test_a_custom_curve_has_one_attempt_more_than_waits() -> None:
    assert Retry.custom([1, 5, 2]).max_attempts == 4
    assert Retry.custom([1, 5, 2], max_attempts=9).max_attempts == 9


def test_never_means_one_attempt() -> None:
    assert Retry.never().max_attempts == 1


def test_a_retry_without_a_number_of_attempts_goes_on_for_ever_with_bounded_waits() -> None:
    for_ever = Retry(max_attempts=None, cap=60, jitter=0)
    assert for_ever.allows(2**40)
    assert for_ever.delay(2**40) == 60
    assert Retry.custom([1, 5], max_attempts=None).max_attempts is None
    assert [Retry(max_attempts=2).allows(spent) for spent in (1, 2)] == [True, False]


class Declined(ConnectionError):
    pass


def covers(retry: Retry, raised: type[BaseException]) -> bool:
    return retry.covers(exception_names(raised))


@pytest.mark.parametrize(
    "on",
    [
        (Declined,),
        [ConnectionError],
        (OSError,),
        {f"{__name__}.Declined"},
        ("Declined",),
        ("ConnectionError", "nowhere.Unknown"),
        (KeyError, Declined),
    ],
)
def test_only_the_exceptions_named_and_their_subclasses_are_tried_again(on: Any) -> None:
    assert covers(Retry(on=on), Declined)
    assert not covers(Retry(on=on), ValueError)
    assert not covers(Retry(not_on=on), Declined)
    assert covers(Retry(not_on=on), ValueError)


def test_not_on_wins() -> None:
    retry = Retry(on=(OSError,), not_on=(Declined,))
    assert [covers(retry, each) for each in (OSError, ConnectionError, Declined)] == [
        True,
        True,
        False,
    ]


def test_another_module_s_exception_of_the_same_name_is_another() -> None:
    class Local(Exception):
        pass

    Local.__module__, Local.__qualname__ = "driver.errors", "ConnectionError"
    assert not covers(Retry(on=(ConnectionError,)), Local)
    assert covers(Retry(on=("ConnectionError",)), Local)


@pytest.mark.parametrize(("declared_in", "raised_in"), [("__main__", "shop"), ("shop", "__main__")])
def test_an_exception_of_a_script_is_the_same_where_its_file_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, declared_in: str, raised_in: str
) -> None:
    """`python shop.py` enqueues for a worker that imports `shop`, or is the worker itself."""
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "shop.py")
    monkeypatch.setitem(sys.modules, "__main__", script)

    class Boom(Exception):
        pass

    class Louder(Boom):
        pass

    for raised, name in ((Boom, "Boom"), (Louder, "Louder")):
        raised.__module__, raised.__qualname__ = declared_in, name
    retry = Retry(not_on=(Boom,))
    assert retry.not_on == ("shop.Boom",)
    Boom.__module__ = Louder.__module__ = raised_in
    assert not covers(retry, Boom)
    assert not covers(retry, Louder)


def test_an_exception_of_a_shell_goes_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))

    class Boom(Exception):
        pass

    Boom.__module__, Boom.__qualname__ = "__main__", "Boom"
    assert Retry(on=(Boom,)).on == ("Boom",)


def test_there_is_jitter_unless_it_is_turned_off() -> None:
    herd = {Retry(base=10).delay(1) for _ in range(50)}
    assert len(herd) > 1


def test_jitter_only_ever_adds() -> None:
    retry = Retry.constant(base=10, jitter=0.5)
    assert retry.delay(1, lambda: 0.0) == 10
    assert retry.delay(1, lambda: 1.0) == 15


def test_a_thousand_failures_do_not_overflow() -> None:
    assert Retry(max_attempts=10_000, base=1, cap=60, jitter=0).delay(5_000) == 60


def test_no_failures_wait_like_one() -> None:
    assert Retry(base=7, jitter=0).delay(0) == 7


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"base": -1}, "retry.base"),
        ({"base": math.inf}, "retry.base"),
        ({"base": math.nan}, "retry.base"),
        ({"cap": -1}, "retry.cap"),
        ({"cap": math.nan}, "retry.cap"),
        ({"cap": 2 * LONGEST_WAIT}, "retry.cap"),
        ({"jitter": -0.1}, "retry.jitter"),
        ({"jitter": 1.1}, "retry.jitter"),
        ({"jitter": math.nan}, "retry.jitter"),
        ({"curve": "custom"}, "retry.delays"),
        ({"delays": (1.0,)}, "retry.delays"),
        ({"curve": "custom", "delays": (-1.0,)}, "retry.delays"),
    ],
)
def test_an_option_out_of_range_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        Retry(**options)


def test_it_survives_json() -> None:
    retry = Retry.custom([1, 2.5], max_attempts=7, jitter=0.1, on=[OSError], not_on=[Declined])
    assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry
    for_ever = Retry.linear(max_attempts=None)
    assert msgspec.json.decode(msgspec.json.encode(for_ever), type=Retry) == for_ever
