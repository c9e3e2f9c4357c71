"""Options that ride in a store's URL, read with clear words for what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import BadOption

_FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def number(query: Mapping[str, str], name: str, default: float, *, least: float) -> float:
    text = query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise BadOption(name, "a number", text) from None
    if not least <= value < 1e6:
        raise BadOption(name, f"at least {least:g}", text)
    return value


def flag(query: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = query.get(name)
    if text is None:
        return default
    if text.lower() not in _FLAGS:
        raise BadOption(name, "true or false", text)
    return _FLAGS[text.lower()]
