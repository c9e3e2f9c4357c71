"""What the documentation shows is what happens: every Python example runs as it stands, passes the
type checker, and every file that a page names is there."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
import holdfast.contrib.otel
import holdfast.testing
from tests.support.forking import forks
from tests.support.source import PACKAGE, ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        ROOT / "tests/fundamentals/README.md",
    ]
)
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
PROJECT = "shop.orders"
"""The program of the example that is a package, as `python -m` starts it."""
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")
ANCHORED = re.compile(r"\]\(([^)#:\s]*)#([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
FILE = re.compile(r"`([\w./<>-]+\.(?:py|sql|lua|toml|txt|yml))(?:: (\w+))?`")
KINDS = ("sqlite", "postgres", "valkey")
YOURS = frozenset(
    {
        "holdfast.toml",
        *("shop.py", "mail.py", "kinds.py", "later.py", "nightly.py", "album.py"),
        *("shop/mail.py", "scripts/mail.py"),
    }
)
"""Files of a reader's own project that pages speak of."""
PRESENT = [page for page in PAGES if page.parent.name != "adr" and page.name != "CHANGELOG.md"]
"""Pages about what is: decisions and the changelog may name files that are gone."""
ENVIRONMENT = {**os.environ, "HOLDFAST_URL": "sqlite://"}
# Pages leave annotations out where they would hide what is shown.
LENIENT = "# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs\n"


def examples() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text()), start=1):
            found.append((f"{page.relative_to(ROOT)}-{number}", match[1]))
    return found


@pytest.mark.parametrize(("name", "source"), examples(), ids=[name for name, _ in examples()])
def test_every_example_runs_as_it_stands(name: str, source: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(source)
    ran = forks().run(script, tmp_path, ENVIRONMENT)
    assert ran.returncode == 0, f"{name}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.name))
def test_every_program_among_the_examples_says_what_it_did(program: Path, tmp_path: Path) -> None:
    ran = forks().run(program, tmp_path, ENVIRONMENT)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert ran.stdout.splitlines() == SAID[program.name]


def test_the_project_among_the_examples_says_what_it_did(tmp_path: Path) -> None:
    """Its own tests run with ours; this is the program itself."""
    shutil.copytree(ROOT / "examples/shop", tmp_path / "shop")
    ran = forks().run(PROJECT, tmp_path, ENVIRONMENT)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert sorted(ran.stdout.splitlines()) == SAID[PROJECT]


SAID = {
    "llm_gateway.py": [
        "HELLO",
        "acme has spent 3,500 tokens",
        "acme/ml has spent 500 tokens",
        "acme/web has spent 3,000 tokens",
        "bits has spent 2,000 tokens",
        "budget-spent: limit 'tokens' for 'acme': 3,500 of 4,000 spent or reserved",
        "ONE MORE",
    ],
    "limits.py": [
        "acme: at most 2 at once",
        "bits: at most 2 at once",
        "coal: at most 2 at once",
        "service: counts 0",
        "tenant:acme counts 0",
        "tenant:bits counts 0",
        "tenant:coal counts 0",
    ],
    "flow.py": [
        "waiting: thumbnail, publish",
        "summer, by ann: summer-1.jpg@200, summer-2.jpg@200, summer-3.jpg@200, summer-4.jpg@200",
        "thorough: cancelled",
        "nodes: 9, flow: succeeded",
    ],
    "schedule.py": [
        "next: 2027-03-01 01:30 UTC",
        "next: 2027-03-02 01:30 UTC",
        "acme: fired, succeeded",
        "globex: fired, succeeded",
    ],
    "saga.py": [
        "reserved: a seat of flight 7",
        "charged: 107",
        "refunded: 107",
        "released: a seat of flight 7",
        "failed: the flight was cancelled, and undone: succeeded",
    ],
    "approval.py": [
        "bob: thank you",
        "bob: this answer does not count: the token is not valid, or what it was for is over",
        "ann: thank you",
        "cyd: thank you",
        "1.4 is released (bob no, ann yes, cyd yes)",
        "cyd: this answer does not count: the token is not valid, or what it was for is over",
    ],
    "steps.py": [
        "order 7 is charged",
        "order 7 is shipped, paid by ch_7",
        "parcel 7",
        "recorded: pay",
        "recorded: cooling off",
        "recorded: ship",
    ],
    "script.py": [
        "contents of rows.csv",
        "checksum 0a8bf4a1",
        "250 rows",
        "attempts of the download: 2",
    ],
    PROJECT: [
        "jobs: 2",
        "out of stock: unicorn",
        "shipped: 2",
        "to ann@example.org: your chair is on its way",
        "to bob@example.org: your lamp is on its way",
    ],
    "stream.py": [
        "About streams: there is ",
        "… somebody closes the page, and opens it again:",
        "much to say, and nobody has said it. ",
        "61 characters in all",
    ],
    "transaction.py": [
        "order 2: out of stock",
        "orders: 1, jobs: 1",
        "order 1 is on its way",
    ],
    "web_async.py": [
        "lifespan.startup.complete",
        "accepted: ['job']",
        "{'state': 'succeeded', 'result': 'thumbnail-64.png'}",
        "{'error': 'no such page'}",
    ],
    "web_sync.py": [
        "202 Accepted 202 Accepted",
        '200 OK {"ready": 2}',
        '404 Not Found {"error": "no such page"}',
        '200 OK {"succeeded": 2}',
        '200 OK {"state": "succeeded", "result": "sent to ann@example.org"}',
        "404 Not Found",
    ],
}


def test_the_type_checker_accepts_every_example(tmp_path: Path) -> None:
    """In one go, with the settings and the cache of `make check`, which make it quick."""
    for name, source in examples():
        module = re.sub(r"\W", "_", name)
        (tmp_path / f"{module}.py").write_text(LENIENT + source)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *map(str, tmp_path.glob("*.py"))],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("page", PRESENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    """A path may be short, such as `worker/fetcher.py`, if a file of the tree ends with it. What a
    page names in it, as in `job/outcome.py: decide`, is there too."""
    gone = [
        f"{path}: {within}" if within else path
        for name, within in FILE.findall(page.read_text())
        for path in ([name] if "<kind>" not in name else [of(name, kind) for kind in KINDS])
        if path not in YOURS and "<" not in path and not is_there(path, within)
    ]
    assert sorted(gone) == []


def of(name: str, kind: str) -> str:
    return name.replace("<kind>", kind)


def is_there(path: str, within: str) -> bool:
    """Whether there is such a file, with a function or class of this name if one is given."""
    defined = re.compile(rf"^ *(?:async )?(?:def|class) {within}\b", re.MULTILINE)
    found = [ROOT / file[1:] for file in TREE if file.endswith(f"/{path}")]
    return any(not within or defined.search(file.read_text("utf-8")) for file in found)


def tree() -> list[str]:
    """Every file of the project, each with a slash before its path."""
    folders = ("src", "tests", "docs", "examples", "bench", ".ci", ".github")
    below = (file for folder in folders for file in (ROOT / folder).rglob("*"))
    return [f"/{file.relative_to(ROOT)}" for file in (*below, *ROOT.glob("*")) if file.is_file()]


TREE = tree()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_page_leads_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_a_page_leads_to_a_heading_or_a_mark(page: Path) -> None:
    links = ANCHORED.findall(CODE.sub("", page.read_text()))
    pages = [(page.parent / target if target else page, anchor) for target, anchor in links]
    assert [link for link in pages if link[1] not in anchors(link[0])] == []


def anchors(page: Path) -> set[str]:
    """What links into a page may name, as GitHub makes it of headings."""
    text = CODE.sub("", page.read_text())
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one) for one in HEADING.findall(text)]
    slugs = [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings]
    return {*slugs, *re.findall(r'<a id="([^"]+)"', text)}


@pytest.mark.parametrize("folder", ["examples", "examples/shop", "tests/fundamentals"])
def test_the_page_of_a_folder_leads_to_each_of_its_programs(folder: str) -> None:
    shown = (ROOT / folder / "README.md").read_text()
    found = [file.name for file in (ROOT / folder).glob("*.py")]
    ours = "test_" if folder.startswith("tests") else ""
    programs = [name for name in found if name.startswith(ours) and name != "__init__.py"]
    assert programs
    assert [name for name in programs if f"]({name})" not in shown] == []


PUBLIC = [
    *(*holdfast.__all__, *holdfast.testing.__all__, *holdfast.contrib.otel.__all__),
    *("postgres_server", "valkey_server"),
]


def test_every_public_name_is_explained_and_used_in_an_example_of_the_reference() -> None:
    page = (ROOT / "docs/reference/api.md").read_text()
    used = {name for source in BLOCK.findall(page) for name in names_used(source)}
    explained = set(re.findall(r"`(\w+)", BLOCK.sub("", page)))
    assert [name for name in PUBLIC if name not in explained] == []
    assert [name for name in PUBLIC if name not in used] == []


def names_used(source: str) -> set[str]:
    """Names that a program reads. To import a name is not to show it."""
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def modules_with_examples() -> list[str]:
    files = [file for file in PACKAGE.rglob("*.py") if ">>>" in file.read_text()]
    names = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files]
    return sorted(name.removesuffix(".__init__") for name in names)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
