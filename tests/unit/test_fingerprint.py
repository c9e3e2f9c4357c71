"""`fingerprint` on a corpus, at its edges, and on any text at all."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.handlers.exceptions import raised
from holdfast.job.checks import is_fingerprint
from holdfast.job.fingerprint import MOST_SHAPE, fingerprint, shape
from tests.support.causes import CAUSES, errors

FRAME = '  File "{}", line {}, in {}\n    do()\n'
HEAD = "Traceback (most recent call last):\n"


def at(*frames: tuple[str, int, str], last: str = "ValueError: no") -> str:
    return HEAD + "".join(FRAME.format(*frame) for frame in frames) + f"{last}\n"


def of(traceback: str, message: str = "no", kind: str = "ValueError") -> str:
    return fingerprint("task", kind, message, traceback)


def test_a_thousand_errors_of_forty_causes_make_forty_groups() -> None:
    causes_of, groups_of = defaultdict(set), defaultdict(set)
    found = list(errors(seed=1, times=25))
    for cause, task, error in found:
        name = fingerprint(task, error.kind, error.message, error.traceback)
        causes_of[name].add(cause)
        groups_of[cause].add(name)
    assert (len(found), len(CAUSES)) == (1_000, 40)
    assert {CAUSES[cause]: len(names) for cause, names in groups_of.items() if len(names) > 1} == {}
    assert [[CAUSES[n] for n in causes] for causes in causes_of.values() if len(causes) > 1] == []
    assert len(causes_of) == 40


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 1 missing", "order 4711 missing"),
        ("took 0.5s", "took 1e-7s"),
        ("job 3f9c2a1b0d gone", "job deadbeefcafe gone"),
        ("at 0x7f00", "at 0xffffffff"),
        (
            "id 7d0d1f9e-2d1c-7c63-9d0f-0f8a2f1b6c11 unknown",
            "id 00000000-0000-0000-0000-000000000000 unknown",
        ),
        ("no 'a' here", "no 'b c d' here"),
        ('no "a" here', 'no "b \\" c" here'),
        ("no `a` here", "no `b` here"),
        ("no «a» here", "no «б» here"),
        ("no /srv/a/b.txt", "no /home/ann/x"),
        ("no ./a.txt", "no C:\\a\\b.txt"),
        ("no src/a/b", "no docs/x.md"),
        ("peer 10.0.0.1:80 left", "peer [::1]:8080 left"),
        ("peer http://a/b left", "peer https://example.org:1/c?d=e#f left"),
        ("to a@example.org", "to b.c+d@mail.example.org"),
        ("since 2026-11-16T10:00:00Z", "since 2025-01-02 03:04:05.6+02:00"),
        ("since Mon, 16 Nov 2026 10:00:00 GMT", "since Tue, 1 Dec 2026 1:00:00 GMT"),
        ("user cus_N3fQ8x gone", "user cus_7YzP gone"),
        ("ids [1, 2, 3] left", "ids [4] left"),
        ("got {'a': 1}", "got {'b': [2, 3], 'c': {'d': 4}}"),
        ("1 error in group", "12 errors in group"),
        ("id:1 gone", "id:22 gone"),
        ("заказ 1 не найден", "заказ ٤٢ не найден"),
        ("用户1不存在", "用户22不存在"),
        ("a  b\n c", "a b c"),
    ],
)
def test_what_differs_from_job_to_job_does_not_count(one: str, other: str) -> None:
    assert shape(one) == shape(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 1 missing", "order 1 paid"),
        ("order:1 failed", "user:1 failed"),
        ("I/O error", "no error"),
        ("can't read", "can't write"),
        ("用户1不存在", "订单1已取消"),
        ("заказ 1 не найден", "счёт 1 не найден"),
        ("", "no"),
    ],
)
def test_other_words_are_another_cause(one: str, other: str) -> None:
    assert shape(one) != shape(other)


def test_a_message_cut_within_a_quoted_text_has_the_shape_of_a_short_one() -> None:
    assert shape("bad 'x'") == shape("bad '" + "y " * 5_000 + "'")


def test_a_message_of_any_length_leaves_the_places_visible() -> None:
    places = at(("/srv/app/mail.py", 7, "send"), last="")
    short, long = "bad 'x'", "bad '" + "y " * 700_000 + "'"
    cut = fingerprint("task", "E", long[:1_000_000] + "…", f"{places}E: {long}"[:1_000_000] + "…")
    assert fingerprint("task", "E", short, f"{places}E: {short}") == cut
    assert fingerprint("task", "E", long, f"{places}E: {long}") == cut
    assert cut != fingerprint("task", "E", long, f"E: {long}")


def test_folders_and_lines_do_not_count() -> None:
    here = at(("/srv/r1/app/mail.py", 7, "send"))
    there = at(("/opt/r2/mail.py", 99, "send"))
    windows = at(("C:\\app\\mail.py", 1, "send"))
    assert of(here) == of(there) == of(windows)
    assert of(here) != of(at(("/srv/r1/app/mail.py", 7, "receive")))
    assert of(here) != of(at(("/srv/r1/app/post.py", 7, "send")))


def test_a_file_whose_name_says_nothing_goes_by_its_folder() -> None:
    assert of(at(("/srv/mail/__init__.py", 1, "f"))) != of(at(("/srv/post/__init__.py", 1, "f")))


def test_frames_of_libraries_do_not_count() -> None:
    own = ("/srv/app/mail.py", 7, "send")
    alone = of(at(own))
    for library in (
        "/venv/lib/python3.12/site-packages/httpx/client.py",
        "/usr/lib/python3/dist-packages/yaml/parser.py",
        "/usr/lib/python3.11/json/decoder.py",
        "C:\\Python312\\Lib\\json\\decoder.py",
        "<frozen importlib._bootstrap>",
    ):
        assert of(at(own, (library, 3, "inner"))) == alone
    assert of(at(own, ("/srv/app/mail.py", 8, "<listcomp>"))) == alone


def test_an_installed_program_is_known_by_the_package_of_its_outermost_frame() -> None:
    app = ("/venv/lib/python3.12/site-packages/shop/mail.py", 7, "send")
    library = ("/venv/lib/python3.12/site-packages/httpx/client.py", 3, "get")
    other = ("/venv/lib/python3.12/site-packages/shop/mail.py", 9, "receive")
    assert of(at(app, library)) == of(at(app))
    assert of(at(app, library)) != of(at(other, library))


def test_the_chance_end_of_a_recursion_does_not_count() -> None:
    a, b, g = ("/a.py", 1, "ping"), ("/a.py", 2, "pong"), ("/a.py", 3, "helper")
    one = of(at(*[a, b] * 400), "maximum recursion depth exceeded", "RecursionError")
    other = of(at(*[a, b] * 300, a, g), "… in comparison", "RecursionError")
    assert one == other != of(at(*[a, g] * 400), "…", "RecursionError")


def test_an_error_without_a_traceback_is_known_by_its_words() -> None:
    lost = fingerprint("task", "WorkerLost", "worker lost")
    assert lost == fingerprint("task", "WorkerLost", "worker lost", None)
    late = {fingerprint("task", "TimedOut", f"timed out after {n} s") for n in (1, 0.5, 30)}
    assert len({lost, *late}) == 2


def test_a_reraised_error_is_known_by_what_caused_it() -> None:
    def wrapped(cause: Exception) -> str:
        try:
            try:
                raise cause
            except Exception as error:
                raise RuntimeError("failed") from error
        except RuntimeError as error:
            end = raised(error)
            return fingerprint("task", end.kind, end.message, end.traceback)

    assert wrapped(ValueError("row 1")) == wrapped(ValueError("row 2"))
    assert wrapped(ValueError("row 1")) != wrapped(KeyError("row 1"))
    assert wrapped(ValueError("row 1")) != wrapped(ValueError("column 1"))


def test_the_number_of_members_of_a_group_does_not_count() -> None:
    def group(*members: Exception) -> str:
        try:
            raise ExceptionGroup("calls failed", members)
        except ExceptionGroup as error:
            end = raised(error)
            return fingerprint("task", end.kind, end.message, end.traceback)

    assert group(ValueError("row 1")) == group(*(ValueError(f"row {n}") for n in range(40)))
    assert group(ValueError("row 1")) != group(KeyError("row 1"))
    nested = ExceptionGroup("inner", [ValueError("row 3")])
    assert group(nested) != group(ValueError("row 3"))


def test_it_is_eight_bytes_in_hexadecimal() -> None:
    name = fingerprint("task", "ValueError", "no")
    assert is_fingerprint(name)
    assert not is_fingerprint(name + "0")
    assert not is_fingerprint(name.upper().replace("0", "G"))


ANYTHING = st.text(st.characters(codec=None), max_size=400)
PIECES = st.lists(
    st.sampled_from(
        [
            HEAD,
            FRAME.format("/a.py", 1, "f"),
            "  + Exception Group Traceback (most recent call last):\n",
            "  +-+---------------- 1 ----------------\n",
            "    | ",
            "\nThe above exception was the direct cause of the following exception:\n\n",
            "ValueError: 'a\n",
            "\x00\ud800",
            '"\\',
        ]
    ),
    max_size=40,
).map("".join)


@given(ANYTHING, ANYTHING, ANYTHING | PIECES, ANYTHING | PIECES | st.none())
def test_any_text_has_a_fingerprint(
    task: str, kind: str, message: str, traceback: str | None
) -> None:
    name = fingerprint(task, kind, message, traceback)
    assert is_fingerprint(name)
    assert name == fingerprint(task, kind, message, traceback)
    assert len(shape(message)) <= MOST_SHAPE


@given(st.text(st.sampled_from("aF1'\"`\\/.:@*-+ |\n,(«"), min_size=1, max_size=12))
def test_long_texts_take_no_longer_than_their_length_warrants(piece: str) -> None:
    """64 KiB of anything; the bound is wide for a busy machine, and a pattern that goes back and
    forth would take minutes."""
    text = piece * (65_536 // len(piece))
    traceback = HEAD + "  + Exception Group Traceback (most recent call last):\n" + text
    began = time.process_time()
    fingerprint("task", "ValueError", text, text)
    fingerprint("task", "ValueError", "no", traceback)
    assert time.process_time() - began < 2
