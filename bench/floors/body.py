"""What a job of a floor carries."""

from __future__ import annotations


def body(number: int, document: str = "") -> str:
    return (
        f'{{"number":{number},"document":"{document}"}}' if document else f'{{"number":{number}}}'
    )


RESULT = '{"id":"ch_1234567890","amount":4200,"currency":"EUR"}'
"""What a step returns."""
