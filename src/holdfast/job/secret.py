"""What is secret by its name, and the mark for what is secret by its type.

A name is cut into words, whatever the style it is written in, and compared word by word: `apiKey`,
`x-api-key` and `stripe_secret` are secret, `monkey` and `keyboard` are not. `token_count` is not
either: it says how many there are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import Final

SECRET_WORDS: Final = frozenset(
    {
        *("password", "passwd", "pwd", "passphrase", "passcode", "pass", "pin", "otp"),
        *("secret", "token", "jwt", "key", "apikey", "privatekey", "credential", "dsn"),
        *("authorization", "auth", "bearer", "cookie", "sessionid", "csrf", "xsrf"),
        *("card", "cvv", "cvc", "iban", "ssn"),
    }
)
"""A value is hidden if its name has one of these words."""

COMPOUND_WORDS: Final = SECRET_WORDS & {
    *("password", "passphrase", "passcode", "apikey", "privatekey", "sessionid"),
}
"""Words that a name may also write as two."""

_PARTS: Final = (
    *("pass", "pwd", "pin", "otp", "secret", "token", "jwt", "key", "credential", "dsn", "auth"),
    *("bearer", "cookie", "session", "csrf", "xsrf", "card", "cvv", "cvc", "iban", "ssn"),
)

PLAIN_SECRET_WORDS: Final = SECRET_WORDS & {
    *("password", "passwd", "pwd", "passphrase", "secret", "token", "apikey"),
}
"""Words that name a secret even in the middle of a text, where `key=len` is most often code."""

HARMLESS_ENDS: Final = frozenset({"count", "length", "limit", "size"})
"""A name that ends in one of these words names a number, whatever it is a number of."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
NAMES_KEPT = 4096


class Secret:
    """Marks what is never shown: `Annotated[str, Secret]`, as a parameter of a task, or as a field
    of a dataclass or model that a parameter takes."""


@lru_cache(maxsize=NAMES_KEPT)
def is_secret_name(name: str, among: frozenset[str] = SECRET_WORDS) -> bool:
    """Whether the value of this name is hidden.

    >>> [is_secret_name(name) for name in ("apiKey", "tokens", "monkey", "token_count")]
    [True, True, False, False]
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if words and words[-1] in HARMLESS_ENDS:
        return False
    pairs = [first + second for first, second in pairwise(words)]
    found = {one for word in words for one in (word, word.removesuffix("s"))}
    found |= COMPOUND_WORDS.intersection(one.removesuffix("s") for one in pairs)
    return not among.isdisjoint(found)


def may_name_secret(text: str) -> bool:
    """Whether a text may have a secret name in it. To look closer takes much longer, and most texts
    have none."""
    lowered = text.lower()
    for part in _PARTS:  # a generator would take half as long again
        if part in lowered:
            return True
    return "\\u" in text  # an escaped letter of a name


def may_have_secret_name(json: str) -> bool:
    """The same of JSON, whose values are left out: they are most of its text. What ends in a
    backslash stays, because it may be the beginning of a name with a quote in it."""
    parts = json.split('"')
    outside, inside = parts[::2], parts[1::2]
    names = [
        text
        for text, behind in zip_longest(inside, outside[1:], fillvalue=":")
        if behind.lstrip()[:1] == ":" or text[-1:] == "\\"
    ]
    return may_name_secret("\n".join(outside + names))
