"""Declaring as a project does it: several modules, scripts beside their workers, tasks by name."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, BadArguments, JobFailed, JobState, PayloadTooLarge, Retry, UniqueBy
from holdfast.store.contract.filters import JobFilter
from tests.support.backends import opened
from tests.support.forking import forks

SCRIPT = """
import sys

from holdfast import App

app = App({url!r})


@app.task
def greet(name: str) -> str:
    return f"Hello {{name}}"


if __name__ == "__main__":
    greet.enqueue_sync(sys.argv[1])
    app.close_sync()
"""

PROJECT = {
    "shop/__init__.py": "",
    "shop/app.py": """
        from holdfast import App
        from shop.mail import mail

        app = App({url!r}, imports=["shop.billing"])
        app.include(mail)
        """,
    "shop/mail.py": """
        from holdfast import Tasks

        mail = Tasks(prefix="mail.", queue="mail")

        @mail.task(also=("send_mail",))
        async def send(to: str) -> str:
            return f"to {{to}}"
        """,
    "shop/billing.py": """
        from shop.app import app
        from shop.mail import send

        @app.task
        async def charge(customer: str) -> None:
            await send.enqueue("cid")
        """,
    "shop/extra/__init__.py": "",
    "shop/extra/tasks.py": """
        from shop.app import app

        @app.task
        def count(n: int) -> int:
            return n + 1
        """,
    "web.py": """
        import sys

        from shop.app import app
        from shop.mail import send

        assert "shop.billing" not in sys.modules  # a client imports what it uses, and no more
        send.enqueue_sync("ann")
        app.task_named("send_mail").using(queue="mail").enqueue_sync(to="bob")
        app.task_named("shop.billing.charge").enqueue_sync(customer="a customer")
        app.task_named("shop.extra.tasks.count").enqueue_sync(n=4)
        app.close_sync()
        """,
}


class Folder:
    """A project in a folder, and the programs that are run there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path / 'jobs.db'}"
        self._env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = [line.removeprefix(" " * 8) for line in text.strip("\n").splitlines()]
            file.write_text("\n".join(lines).format(url=self.url) + "\n")

    def python(self, *arguments: str) -> None:
        command = [sys.executable, *arguments]
        ran = subprocess.run(
            command, cwd=self.path, env=self._env, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def worker(self, *arguments: str, code: int = 0, **env: str) -> str:
        env = self._env | env
        ran = forks().run("holdfast.cli.main", self.path, env, "worker", *arguments)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stderr

    def jobs(self) -> dict[str, tuple[JobState, object]]:
        """State and result of each job, by the only value among its arguments."""

        async def look() -> dict[str, tuple[JobState, object]]:
            async with opened(self.url) as store:
                page = await store.jobs.page(JobFilter(), 100)
                ends = {job.id: (job.state, job.result) for job in page.jobs}
                return {str(*job.args.values()): ends[job.id] for job in page.jobs}

        return asyncio.run(look())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_script_enqueues_what_its_worker_runs(folder: Folder) -> None:
    """However it is started, its tasks have the names that an import gives them."""
    folder.write({"shop.py": SCRIPT, "pack/__init__.py": "", "pack/tasks.py": SCRIPT})
    folder.python("shop.py", "file")
    folder.python("-m", "shop", "module")
    folder.python(str(folder.path / "pack" / "tasks.py"), "in a package")
    folder.worker("shop:app", "--burst")
    folder.worker("pack.tasks:app", "--burst")
    done = JobState.SUCCEEDED
    assert folder.jobs() == {
        "file": (done, "Hello file"),
        "module": (done, "Hello module"),
        "in a package": (done, "Hello in a package"),
    }


def test_a_script_may_be_worker_and_module_at_once(folder: Folder) -> None:
    """The script's own module is not loaded twice, though the app names it among its imports."""
    main = """
        import asyncio

        from base import app

        @app.task
        def greet(name: str) -> str:
            return f"Hello {{name}}"

        async def main() -> None:
            async with app:
                job = await greet.enqueue("ann")
                async with app.worker() as worker:
                    await worker.drain()
                assert await job.result() == "Hello ann"
            import shop  # somebody does
            assert shop.greet.name == greet.name == "shop.greet"

        if __name__ == "__main__":
            asyncio.run(main())
        """
    base = "from holdfast import App\napp = App({url!r}, imports=['shop'])\n"
    folder.write({"shop.py": main, "base.py": base})
    folder.python("shop.py")


def test_a_package_that_is_run_has_tasks_for_child_processes(folder: Folder) -> None:
    main = """
        import os

        from holdfast import App

        app = App({url!r})

        @app.in_thread
        def told(ctx, run):
            return f"told: {{run()}}"

        @app.task(process=True)
        def where() -> str:
            return str(os.getpid())

        if __name__ == "__main__":
            job = where.enqueue_sync()
            app.run_worker(burst=True)
            told, number = job.result_sync(5).split()
            assert told == "told:" and int(number) != os.getpid()
        """
    folder.write({"shop/__init__.py": "", "shop/__main__.py": main})
    folder.python("-m", "shop")


def test_a_project_of_several_modules_needs_no_circular_import(folder: Folder) -> None:
    folder.write(PROJECT)
    folder.python("web.py")
    folder.worker("shop.app:app", "--queues", "mail,default", "--burst", "-I", "shop.extra.tasks")
    done = JobState.SUCCEEDED
    assert folder.jobs() == {
        "ann": (done, "to ann"),
        "bob": (done, "to bob"),
        "cid": (done, "to cid"),
        "a customer": (done, None),
        "4": (done, 5),
    }


def test_a_worker_without_tasks_says_how_to_name_them(folder: Folder) -> None:
    folder.write({"bare.py": "from holdfast import App\napp = App({url!r})\n"})
    said = folder.worker("bare:app", "--burst")
    assert 'the app has no tasks: name their modules: App(imports=["shop.tasks"])' in said
    assert "--import shop.tasks" in said


def test_an_import_that_fails_ends_the_worker_with_its_traceback(folder: Folder) -> None:
    bare = "from holdfast import App\napp = App({url!r})\n"
    folder.write({"bare.py": bare, "broken.py": "1 / 0"})
    said = folder.worker("bare:app", "--burst", code=1, HOLDFAST_IMPORTS="broken")
    assert "broken.py" in said
    assert said.strip().splitlines()[-1] == (
        "error: module 'broken' cannot be imported: ZeroDivisionError: division by zero"
    )


# Child processes ---------------------------------------------------------------------------


LIBRARY = """
        import sys

        if "prepared" not in sys.modules:
            raise RuntimeError("apps are not loaded yet")

        from holdfast import Retry, Tasks

        library = Tasks(retry=Retry.never())

        @library.task(process=True)
        def square(n: int) -> int:
            return n * n
        """
PREPARES = """
        import prepared
        from holdfast import App
        from library import library

        app = App({url!r})
        app.include(library)
        """


def test_a_child_process_first_imports_what_its_worker_imported(folder: Folder) -> None:
    folder.write({"prepared.py": "", "library.py": LIBRARY, "project.py": PREPARES})
    enqueue = "import project; project.app.task_named('library.square').enqueue_sync(n=7)"
    folder.python("-c", enqueue)
    folder.worker("project:app", "--burst")
    assert folder.jobs() == {"7": (JobState.SUCCEEDED, 49)}


async def test_a_module_that_breaks_in_a_child_is_the_error_of_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "breaks_in_children.py"
    module.write_text(
        "import multiprocessing\n"
        "if multiprocessing.parent_process() is not None:\n"
        "    raise RuntimeError('apps are not loaded yet')\n"
        "def square(n: int) -> int:\n"
        "    return n * n\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import breaks_in_children  # type: ignore[import-not-found]

    app = App("sqlite://")
    task: Any = app.task(process=True, retry=Retry.never())(breaks_in_children.square)
    async with app:
        job = await task.enqueue(7)
        async with app.worker() as worker:
            await worker.drain()
        with pytest.raises(JobFailed, match="apps are not loaded yet"):
            await job.result()
        [error] = (await job.get()).errors
        assert error.kind == "RuntimeError"
        assert "breaks_in_children.py" in (error.traceback or "")


# By name ------------------------------------------------------------------------------------


@pytest.fixture
def apps(tmp_path: Path) -> tuple[App, App]:
    """A program that has the code, and one that has not, on one store."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    return App(url), App(url)


async def test_a_program_without_the_code_enqueues_by_name(apps: tuple[App, App]) -> None:
    here, there = apps

    @here.task(name="mail.send", queue="mail", retry=Retry.never())
    async def send(to: str, copies: int = 1) -> int:
        return len(to) * copies

    by_name = there.task_named("mail.send").using(queue="mail", tags=["bulk"], priority=2)
    async with here, there:
        one = await by_name.enqueue(to="ann")
        many = await by_name.enqueue_many([{"to": "bob", "copies": 2}, {"to": "cid"}])
        unique = by_name.using(unique=UniqueBy(args=("to",)))
        first, second = await unique.enqueue(to="dan"), await unique.enqueue(to="dan")
        assert (second.created, second.id) == (False, first.id)
        wrong = await by_name.enqueue(whom="ann")
        async with here.worker({"mail": 5}, unreadable_for=0) as worker:
            await worker.drain()
        assert [await job.result() for job in (one, *many)] == [3, 6, 3]
        assert (await one.get()).tags == ("bulk",)
        with pytest.raises(JobFailed, match="it takes no 'whom'"):
            await wrong.result()


def test_by_name_without_a_loop_and_in_a_transaction(apps: tuple[App, App], tmp_path: Path) -> None:
    there = apps[1]
    task = there.task_named("mail.send")
    task.enqueue_sync(to="ann")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        for word, end in (("kept", connection.commit), ("dropped", connection.rollback)):
            connection.execute("BEGIN")
            task.using(connection=connection).enqueue_sync(to=word)
            end()
    found = there.run_sync(lambda client: client.page(limit=10))
    there.close_sync()
    assert sorted(job.args["to"] for job in found.jobs) == ["ann", "kept"]


async def test_a_call_by_name_is_checked_as_far_as_it_can_be(apps: tuple[App, App]) -> None:
    task = apps[1].task_named("mail.send")
    async with apps[1]:
        with pytest.raises(BadArguments, match="give arguments by name"):
            await task.enqueue("ann")
        with pytest.raises(BadArguments, match="no NaN"):
            await task.enqueue(x=[float("nan")])
        with pytest.raises(BadArguments, match="has no JSON form"):
            await task.enqueue(x=object())
        with pytest.raises(PayloadTooLarge):
            await task.enqueue(x="x" * 300_000)
        assert await apps[1].client.count() == {}


async def test_a_renamed_task_runs_the_jobs_of_its_old_name(apps: tuple[App, App]) -> None:
    here, there = apps

    @here.task(name="mail.send", also=("send",))
    async def send(to: str) -> str:
        return to

    async with here, there:
        old = await there.task_named("send").enqueue(to="ann")
        assert (await old.get()).task == "send"
        assert (await (await here.task_named("send").enqueue("bob")).get()).task == "mail.send"
        async with here.worker() as worker:
            await worker.drain()
        assert await old.result() == "ann"
