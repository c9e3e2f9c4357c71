"""The headers of a job: text that travels with it, such as a tenant or the context of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks

HEADERS_BYTES = 8 * 1024
"""What all headers of a job may take as JSON."""


def encode_headers(headers: Mapping[str, str]) -> str | None:
    """The headers as JSON text; None for no headers. Raises `BadOption` if a job cannot carry
    them."""
    if not headers:
        return None
    texts = [text for pair in headers.items() for text in pair]
    if not all(isinstance(text, str) for text in texts):
        raise BadOption("headers", "a mapping of text to text", headers)
    if not all(map(checks.is_encodable, texts)):
        raise BadOption("headers", "text that UTF-8 can carry", headers)
    text = msgspec.json.encode(dict(headers)).decode()
    if len(text) > HEADERS_BYTES:
        raise BadOption("headers", f"at most {HEADERS_BYTES} bytes as JSON", len(text))
    return text


def decode_headers(text: str | None) -> dict[str, Any]:
    """The headers of a job as its store keeps them."""
    if text is None:
        return {}
    found: dict[str, Any] = msgspec.json.decode(text)
    return found
