"""The reader of pages does what a page says, and notices what is not so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.pasting import Reader, blocks_of, check

PAGE = """
Save this as `say.py`:

```python
import sys

print("said", *sys.argv[1:])
```

```sh
export NAME=Ann
python3 say.py hello
```

```text
said …
```

```sh
python3 say.py $NAME
```

```text
said Ann
```

```sh
export HOLDFAST_URL=postgres://localhost/shop
echo chosen > postgres
```

```sh
export HOLDFAST_URL=valkey://localhost
echo chosen > valkey
```
"""


def reader(folder: Path, url: str | None = None) -> Reader:
    return Reader(folder, os.environ, url)


def test_a_page_is_pasted_in_its_order(tmp_path: Path) -> None:
    reader(tmp_path).paste(PAGE)
    assert [file.name for file in tmp_path.iterdir()] == ["say.py"]


def test_the_block_of_the_own_store_comes_first(tmp_path: Path) -> None:
    shows = PAGE + "\n```sh\necho $HOLDFAST_URL\n```\n\n```text\nvalkey://elsewhere/7\n```\n"
    reader(tmp_path, "valkey://elsewhere/7").paste(shows)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["say.py", "valkey"]


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"say\.py"):
        reader(tmp_path).paste(PAGE.replace("`say.py`", "`other.py`"))


def test_an_answer_that_is_not_what_the_page_shows_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="'said Bob' is not in"):
        reader(tmp_path).paste(PAGE.replace("said Ann", "said Bob"))


def test_lines_are_found_in_order_whatever_their_columns() -> None:
    check("id   task\n\n1    add   2 s ago\n2    sub\n", "1 add …\n2 sub\n")
    with pytest.raises(AssertionError):
        check("2 sub\n1 add\n", "1 add\n2 sub\n")
    with pytest.raises(AssertionError):
        check("1 add\n", "1 add\n1 add\n")


def test_only_the_sentence_right_before_a_program_names_it() -> None:
    named, unnamed = blocks_of(
        "Save this as `a.py`:\n\n```python\n1\n```\n\nThen:\n\n```python\n2\n```\n"
    )
    assert (named.saved_as, unnamed.saved_as) == ("a.py", None)
