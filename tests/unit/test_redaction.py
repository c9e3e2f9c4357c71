"""What is hidden: by its name, by a path, inside a text, and where a text repeats it."""

from __future__ import annotations

import json
import math
import time

import msgspec
import pytest

from holdfast.clock import utcnow
from holdfast.insights.redaction import shown_job
from holdfast.job.ids import new_job_id
from holdfast.job.record import Claimed, ErrorEntry, Job, NewJob, Progress
from holdfast.job.redacted_json import Path
from holdfast.job.redaction import BY_NAME, UNKNOWN, Redactor, Rules, redact, redact_value
from holdfast.job.secret import SECRET_WORDS, is_secret_name, may_have_secret_name, may_name_secret
from holdfast.job.state import JobState

SECRET = (
    *sorted(SECRET_WORDS),
    *(
        "password",
        "Password",
        "PASSWORD",
        "user_password",
        "passwd",
        "db_passwd",
        "pwd",
        "passWord",
    ),
    *("secret", "stripe_secret", "clientSecret", "SECRET_KEY", "secrets"),
    *(
        "token",
        "accessToken",
        "access-token",
        "csrf_token",
        "x-csrf-token",
        "tokens",
        "oauth2Token",
    ),
    *("key", "apiKey", "api_key", "api-key", "x-api-key", "APIKey", "ApiKey", "apikey", "keys"),
    *("private_key", "privateKey", "key1", "sshKey2", "aws.key", "headers[key]"),
    *("authorization", "Proxy-Authorization", "auth", "basicAuth", "bearer", "credentials"),
    *("cookie", "Set-Cookie", "cookies", "card", "cardNumber", "card_number", "cvc", "cvv"),
    *("limit_key", "count-token", "sizedPassword", "token_counter"),
    *("iban", "ssn", "dsn", "sentry_dsn", "pin", "otp", "jwt", "passphrase", "sessionId"),
)
PLAIN = (
    *("monkey", "keyboard", "turkey", "donkeys", "hockey", "keynote", "tokenizer", "tokenized"),
    *("secretary", "passenger", "compass", "discard", "cardinal", "postcard"),
    *(
        "cookiecutter",
        "author",
        "authors",
        "pinned",
        "spin",
        "to",
        "name",
        "id",
        "",
        "_",
        "ß",
        "42",
    ),
    *("passage", "bypassed", "sender", "amount", "queue", "статус"),
)


@pytest.mark.parametrize("name", ["token_count", "maxTokenLimit", "KEY_SIZE", "password-length"])
def test_a_number_of_secrets_is_none(name: str) -> None:
    assert not is_secret_name(name)
    assert redact(f"{name}=42") == f"{name}=42"


@pytest.mark.parametrize("name", SECRET)
def test_a_name_with_a_secret_word_is_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", SECRET)
def test_a_text_with_a_secret_name_is_looked_at(name: str) -> None:
    assert may_name_secret(f'{{"{name}":1}}')
    assert may_have_secret_name(f'{{"a":"b", "{name}" : 1}}')
    assert may_have_secret_name(f'{{"quo\\"te":"\\"","{name}\\"":1}}')
    assert may_have_secret_name(f"{{{name}")


def test_values_of_json_are_not_looked_at_for_names() -> None:
    """They are most of its text, and a failed attempt once paid for every letter of it."""
    text = '{"text":"a token: a key","list":["password",1,"card"],"in":{"a":"secret"}}'
    assert may_name_secret(text)
    assert not may_have_secret_name(text)


@pytest.mark.parametrize("name", PLAIN)
def test_a_word_that_only_contains_a_secret_word_is_not(name: str) -> None:
    assert not is_secret_name(name)


# Texts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at postgres://ann:hunter2@db/jobs", "at postgres://ann:***@db/jobs"),
        ("redis://:hunter2@cache, next", "redis://:***@cache, next"),
        ("postgres://u:p/a@s@host/db?x=1", "postgres://u:***@host/db?x=1"),
        ("ann:hunter2@host/db", "ann:***@host/db"),
        ("(amqp://u:p@h)", "(amqp://u:***@h)"),
        ("http://h:8080/x?mail=a@b.c", "http://h:8080/x?mail=a@b.c"),
        ("GET https://x/y?token=abc&z=1#t", "GET https://x/y?token=***&z=1#t"),
        ("https://x/y?api-key=a%20b", "https://x/y?api-key=***"),
        ("{'password': 'hunter2', 'to': 'x'}", "{'password': '***', 'to': 'x'}"),
        ('{"apiKey": "a\\"b", "n": 1}', '{"apiKey": "***", "n": 1}'),
        ("Login(user='ann', password='hunter2')", "Login(user='ann', password='***')"),
        ('body "{\\"token\\": \\"abc\\"}"', 'body "{\\"token\\": \\"***\\"}"'),
        ("host=db password=hunter2 user=ann", "host=db password=*** user=ann"),
        ("Authorization: Basic aGk6aG8=\nHost: x", "Authorization: ***\nHost: x"),
        ("set-cookie: a=b; Path=/", "set-cookie: ***"),
        ("curl -H 'Bearer eyJhbGciOi.J9'", "curl -H 'Bearer ***'"),
        ("KeyError: 'token'", "KeyError: 'token'"),
        ("sorted(found, key=len)", "sorted(found, key=len)"),
        ("no secret here: 10:30, a@b.c", "no secret here: 10:30, a@b.c"),
        ("", ""),
    ],
)
def test_a_text_is_shown_without_its_secrets(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("a-" * 20_000, "a:" * 20_000, ":" * 40_000, "://" * 15_000, "@" * 40_000),
        *("'" * 40_000, "\\'" * 20_000, "x='" * 15_000, '"a":"' * 10_000, "?a=" * 15_000),
        *("bearer " * 6_000, "a=b " * 10_000, "password='" + "x\\" * 20_000),
    ],
    ids=lambda text: text[:8],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    redact(text)
    assert time.process_time() - began < 1.0


# JSON --------------------------------------------------------------------------------------


def shown(text: str, *paths: str, rules: Rules | None = None) -> str:
    chosen = Rules(tuple(tuple(path.split(".")) for path in paths))
    return Redactor(rules or chosen, text).args()


@pytest.mark.parametrize(
    ("paths", "text", "hidden"),
    [
        ([], '{"b":1,"password":"x","a":2}', '{"b":1,"password":"***","a":2}'),
        ([], '{"a":[{"b":{"apiKey":[1,{"c":2}]}}]}', '{"a":[{"b":{"apiKey":"***"}}]}'),
        ([], '{"token":null,"n":1}', '{"token":"***","n":1}'),
        ([], '{"u":"x://a:b@c"}', '{"u":"x://a:***@c"}'),
        (["a.b"], '{"a":{"b":1,"c":2},"b":3}', '{"a":{"b":"***","c":2},"b":3}'),
        (["a.*"], '{"a":{"b":1,"c":[2]},"b":3}', '{"a":{"b":"***","c":"***"},"b":3}'),
        (["a.*"], '{"a":[1,[2],{"b":3}]}', '{"a":["***","***","***"]}'),
        (["a.*.n"], '{"a":{"x":{"n":1,"m":2}}}', '{"a":{"x":{"n":"***","m":2}}}'),
        (["a.n"], '{"a":[{"n":1},[{"n":2,"m":3}]]}', '{"a":[{"n":"***"},[{"n":"***","m":3}]]}'),
        (["**.n"], '{"a":{"b":[{"n":1}]},"n":2}', '{"a":{"b":[{"n":"***"}]},"n":"***"}'),
        (["a.**.n"], '{"n":1,"a":{"n":2,"b":{"n":3}}}', '{"n":1,"a":{"n":"***","b":{"n":"***"}}}'),
        (["return.x"], '{"return":{"x":1}}', '{"return":{"x":1}}'),
        (["a"], "[]", "[]"),
    ],
)
def test_values_are_hidden_by_name_and_by_path(paths: list[str], text: str, hidden: str) -> None:
    assert shown(text, *paths) == hidden
    assert shown(hidden, *paths) == hidden


@pytest.mark.parametrize(
    "text",
    [
        '{"n":123456789012345678901234567890123456789012345678901}',
        '{"n":-0.10,"m":1e400,"k2":12345678901234567.10}',
        '{"z":1,"a":2,"m":3}',
        '{"a":1,"a":2}',
        '{"a":"\\u00e4\\/\\n","ä":"ß"}',
        *("{}", "[]", '""', "null", "true", "-1", '{"a":[[],{}]}'),
    ],
)
def test_what_is_shown_stands_there_as_it_is_stored(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "{", '{"a"', '{"a":', '{"a":1', '{"a":1,}', "[1,]", "[1 2]", "{1:2}", "nul"),
        *('{"a":NaN}', '{"a":Infinity}', "01", "1.", '{"a":1}}', "]", '"a', '"\x01"', '"\\x"'),
        *('{"password":,}', '{"password":[}]}', '{"a":1} x', "'a'", '"\\ud800"', "CANARY", "{,}"),
    ],
)
def test_a_text_that_is_no_json_is_not_shown(text: str) -> None:
    assert shown(text) == f'"<no JSON: {len(text)} characters>"'


def test_a_text_that_is_no_json_is_a_secret_as_a_whole() -> None:
    assert Redactor(BY_NAME, "a token {").text("cannot read a token {") == "cannot read ***"


def test_ten_thousand_levels_are_cut_and_cost_little() -> None:
    text = '{"a":' * 10_000 + '{"password":"CANARY"}' + "}" * 10_000
    began = time.process_time()
    cut = shown(text)
    assert time.process_time() - began < 1.0
    assert "CANARY" not in cut
    assert cut.count("{") == 50
    msgspec.json.decode(cut)
    assert shown("[" * 10_000 + "]" * 10_000).count("[") == 50


def test_an_encrypted_value_is_shown_by_the_name_of_its_key() -> None:
    sealed = '{"$enc":1,"kid":"2026-11","n":"","c":"Q0FOQVJZ"}'
    assert shown(sealed) == '"encrypted (key 2026-11)"'
    assert shown(f'{{"to":{sealed},"n":1}}') == '{"to":"encrypted (key 2026-11)","n":1}'
    assert shown(sealed, rules=UNKNOWN) == '"encrypted (key 2026-11)"'


def test_of_an_unknown_task_only_types_are_shown() -> None:
    text = '{"to":"a@b.c","n":1.5,"on":true,"off":null,"list":[1],"object":{"x":1}}'
    types = (
        '{"to":"<text>","n":"<number>","on":"<boolean>","off":null,'
        '"list":"<list>","object":"<object>"}'
    )
    assert shown(text, rules=UNKNOWN) == types
    assert shown(types, rules=UNKNOWN) == types
    assert Redactor(UNKNOWN, text).result('"CANARY"') == '"<text>"'
    assert Redactor(UNKNOWN, text).text("no mail for a@b.c") == "no mail for ***"


# Texts of a job ----------------------------------------------------------------------------

TWO_LINES = 'it\'s "CAN"\nCANARY\\'
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\n-----END KEY-----"


def texts_of(value: object, *paths: str) -> Redactor:
    chosen: tuple[Path, ...] = tuple(tuple(path.split(".")) for path in paths)
    return Redactor(Rules(chosen), msgspec.json.encode({"token": value, "to": "ann"}).decode())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("CANARY", "refused CANARY for ann"),
        (TWO_LINES, f"ValueError({TWO_LINES!r})"),
        (TWO_LINES, f"KeyError: {f'said {TWO_LINES!r}'!r}"),
        (TWO_LINES, f"in JSON {msgspec.json.encode(f'said {TWO_LINES!r}').decode()}"),
        ("CANARY-ß-💥", f"{'CANARY-ß-💥'!a} {json.dumps('CANARY-ß-💥')}"),
        (TWO_LINES, f"body {msgspec.json.encode([TWO_LINES]).decode()}"),
        ("CANARY/+= ß", "GET /x?q=CANARY%2F%2B%3D%20%C3%9F"),
        (4111111111111111, "card 4111111111111111 is not valid"),
        ([{"x": ["CANARY"]}], "refused CANARY"),
        (PEM, f"  | {PEM}".replace("\n", "\n  | ")),
        ("CANARY" * 100, "message cut: " + ("CANARY" * 100)[:77] + "…"),
        ("CANARY" * 100, "…" + ("CANARY" * 100)[-77:] + " was refused"),
    ],
)
def test_a_hidden_argument_is_removed_from_every_text_of_its_job(value: object, text: str) -> None:
    told = texts_of(value).text(text)
    assert not any(part in told for part in ("CANARY", "4111", "MIIE"))
    assert texts_of(value).text(told) == told


def test_a_short_secret_is_removed_only_where_it_stands_alone() -> None:
    hides = texts_of("123")
    assert hides.text("cvc 123 of 1234567") == "cvc *** of 1234567"
    assert texts_of("12").text("12 apples") == "12 apples"
    assert texts_of("Ada").text("Ada") == "Ada"


@pytest.mark.parametrize("value", ["a b\n" * 200_000, "x" * 1_000_000, ["a-b"] * 100_000], ids=len)
def test_a_long_secret_costs_little(value: object) -> None:
    began = time.process_time()
    hides = texts_of(value)
    for text in ("refused a b " * 1_000, "x" * 16_000 + "…", "…" + "b\n" * 8_000):
        hides.text(text)
    assert time.process_time() - began < 3.0


def test_words_of_json_are_no_secrets() -> None:
    assert texts_of(True).text("true or false, null") == "true or false, null"
    assert texts_of("****").text("***** is no secret") == "***** is no secret"


def test_a_header_that_is_secret_is_removed_too() -> None:
    hides = Redactor(BY_NAME, "{}", '{"x-api-key":"CANARY","tenant":"acme"}')
    assert hides.headers() == '{"x-api-key":"***","tenant":"acme"}'
    assert hides.text("acme sent CANARY") == "acme sent ***"
    assert hides.json('{"seen":"CANARY of acme"}') == '{"seen":"*** of acme"}'


def test_a_text_of_a_job_that_is_gone_is_shown_only_if_its_task_hides_nothing() -> None:
    assert Redactor(BY_NAME, None).text("no route to x://a:b@c") == "no route to x://a:***@c"
    assert Redactor(Rules((("card",),)), None).text("card CANARY") == "***"
    assert Redactor(UNKNOWN, None).text("CANARY") == "***"


def test_a_path_of_the_result_is_no_path_of_arguments() -> None:
    hides = Redactor(Rules((("return", "x"), ("y",))), '{"x":"plain","y":"CANARY"}')
    assert hides.args() == '{"x":"plain","y":"***"}'
    assert hides.result('{"x":"CANARY2","y":"seen CANARY"}') == '{"x":"***","y":"seen ***"}'
    assert Redactor(Rules((("return",),)), "{}").result('"CANARY"') == '"***"'


# Values of Python --------------------------------------------------------------------------


def test_values_of_python_are_hidden_by_name() -> None:
    given = {"a": [{"token": 1}], "t": ("x://a:b@c", 2), 3: None, "set": {1}, "n": math.nan}
    told = redact_value(given)
    assert told["a"] == [{"token": "***"}]
    assert told["t"] == ("x://a:***@c", 2)
    assert (told[3], told["set"]) == (None, {1})


def test_a_value_that_contains_itself_is_cut() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert str(redact_value(loop)).count("[") == 51


# Jobs --------------------------------------------------------------------------------------

CANARY = "CANARY-7f3a"


def a_job(**facts: object) -> Job:
    given = {
        "id": new_job_id(),
        "task": "pay",
        "queue": "default",
        "state": JobState.FAILED,
        "priority": 0,
        "args_json": msgspec.json.encode({"token": CANARY, "n": 2**70}).decode(),
        "policy": "{}",
        "created_at": utcnow(),
        "attempts": 1,
        "crashes": 0,
        "fence": 1,
        "tags": ("red", f"of {CANARY}"),
        "headers_json": f'{{"cookie":"{CANARY}"}}',
        "unique_key": f'task:pay:{{"token":"{CANARY}"}}',
        "result_json": f'["{CANARY}"]',
        "reason": f"refused {CANARY}",
        "progress": Progress(0.5, f"sent {CANARY}", f'{{"at":"{CANARY}"}}'),
        "errors": (ErrorEntry(1, "ValueError", f"bad {CANARY}", f"Traceback\n  {CANARY}"),),
    }
    return Job(**(given | facts))  # type: ignore[arg-type]


def test_nothing_of_a_shown_job_repeats_a_secret() -> None:
    job = a_job()
    told = shown_job(job, BY_NAME)
    assert CANARY not in msgspec.json.encode(told).decode()
    assert told.args_json == f'{{"token":"***","n":{2**70}}}'
    assert told.tags == ("red", "of ***")
    assert CANARY in job.args_json, "the job itself stays as it is"


def test_a_record_does_not_say_its_arguments_in_its_repr() -> None:
    job = a_job()
    new = NewJob(id=job.id, task="pay", queue="q", args=job.args_json, policy="{}")
    for record in (job, new, {"jobs": [job]}):
        assert CANARY not in repr(record)
        assert CANARY not in f"{record}"
    assert repr(job) == f"<job {job.id} of pay in default, failed>"
    assert Claimed.__repr__ is not msgspec.Struct.__repr__
