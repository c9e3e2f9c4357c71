"""The piece of text by which a store leaves out bodies before their JSON is read."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.contract.filters import Scalar
from holdfast.store.contract.matching import Piece, has_values
from holdfast.store.postgres.filtering import PATTERNS

SCALARS = (
    st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
)


@given(value=SCALARS | st.none(), is_ascii=st.booleans())
def test_a_json_text_with_a_value_has_its_piece_or_is_unusual(
    value: Scalar, is_ascii: bool
) -> None:
    text = json.dumps({"x": [value]}, ensure_ascii=is_ascii)
    piece = Piece.of(value)
    assert piece.text in text or re.search(PATTERNS[piece.unless], text)


@given(value=st.text(alphabet="abc/", min_size=1), other=st.text(alphabet="abc/"))
def test_a_text_is_found_as_a_whole_word_unless_json_may_write_it_otherwise(
    value: str, other: str
) -> None:
    """A slash may be written with a backslash before it."""
    text = json.dumps({"x": other})
    piece = Piece.of(value)
    assert piece.text in text or not has_values(text, {"x": value})
    if "/" not in value:
        assert (piece.text in text) == (value == other)
