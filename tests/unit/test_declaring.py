"""How a function becomes a task: with and without parentheses, under which name, in which set."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import pytest

from holdfast import (
    App,
    BadOption,
    BadTask,
    Context,
    JobHandle,
    NotIncluded,
    Task,
    Tasks,
    UnknownTask,
)
from holdfast.declaring.names import default_name
from holdfast.job.importable import importable_name

HERE = "tests.unit.test_declaring"


async def send(ctx: Context, to: str, copies: int = 1) -> int:
    return len(to) * copies


def resize(width: int) -> str:
    return str(width // 2)


class Mailer:
    @staticmethod
    def post() -> None: ...


# Bare and with options ----------------------------------------------------------------------


def test_a_task_needs_no_parentheses() -> None:
    app = App("sqlite://")
    bare, full = app.task(send), app.task(name="other")(send)
    assert isinstance(bare, Task)
    assert (bare.name, full.name) == (f"{HERE}.send", "other")
    assert set(app.registry) == {f"{HERE}.send", "other"}


async def test_both_forms_have_the_types_of_the_function() -> None:
    """mypy checks this: the job has the arguments without the context and the awaited result, and
    the plain call has what the function has."""
    app = App("sqlite://")
    bare, full = app.task(send), app.task(name="full")(send)
    plain, plain_full = app.task(resize), app.task(name="plain")(resize)
    fits: Task[[int], str] = plain
    assert fits is plain
    assert_type(plain_full(3), str)
    if app.is_open:  # never: only the types count
        assert_type(await bare.enqueue("ann", copies=2), JobHandle[int])
        assert_type(await full.using(delay=5).enqueue("ann"), JobHandle[int])
        assert_type(plain.enqueue_sync(3), JobHandle[str])
        assert_type(await full(Context.__new__(Context), "ann"), int)
        running: Coroutine[Any, Any, int] = bare(Context.__new__(Context), "ann")
        await running
        assert_type(await app.task_named("x").enqueue(to="ann"), JobHandle[Any])
        await bare.enqueue(5)  # type: ignore[arg-type]
        plain("wide")  # type: ignore[arg-type]
        plain.enqeue(5)  # type: ignore[attr-defined]
    assert plain(8) == "4"


def test_a_task_of_one_app_may_be_declared_in_another() -> None:
    task = App("sqlite://").task(send)
    other = App("sqlite://")
    assert other.task(task).function is send
    assert other.registry[task.name].mode == task.handler.mode


def test_what_is_no_function_is_refused_with_advice() -> None:
    app = App("sqlite://")
    with pytest.raises(BadOption, match="put on a function; give options by name"):
        app.task("mail.send")  # type: ignore[call-overload]
    with pytest.raises(BadOption, match="put on a function"):
        app.task()(5)  # type: ignore[call-overload]


def test_a_schedule_without_a_rule_is_an_error_in_every_form() -> None:
    app = App("sqlite://")
    with pytest.raises(BadOption, match=r"given its rule, either .*in parentheses"):
        app.schedule(resize)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match=r"given its rule, either .*in parentheses"):
        app.schedule(app.task(resize))  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="given its rule, either"):
        app.schedule()
    assert app.schedules == {}


def test_a_schedule_on_a_function_that_is_no_task_is_found_by_the_worker() -> None:
    app, mail = App("sqlite://"), Tasks()
    app.include(mail)

    @mail.schedule("0 9 * * *")
    def digest() -> None: ...

    with pytest.raises(BadTask, match=r"digest': it has a schedule but is no task: put @app.task"):
        app.worker()
    mail.task(digest)
    app.worker()
    assert list(app.schedules) == [f"{HERE}.{digest.__qualname__.replace('.<locals>', '')}"]


# Names --------------------------------------------------------------------------------------


def test_a_task_is_called_by_its_module_and_qualname() -> None:
    def inner() -> None: ...

    own = "test_a_task_is_called_by_its_module_and_qualname"
    assert default_name(send) == f"{HERE}.send"
    assert default_name(Mailer.post) == f"{HERE}.Mailer.post"
    assert default_name(inner) == f"{HERE}.{own}.inner"
    assert importable_name("shop.__main__") == "shop"


def test_an_object_without_a_name_asks_for_one() -> None:
    app = App("sqlite://")
    half = functools.partial(resize, 3)
    with pytest.raises(BadOption, match="task name must be given as name=…"):
        app.task(half)
    with pytest.raises(
        BadOption, match=r"task name \(name=… for .*test_declaring.py:\d+\) must be"
    ):
        app.task(lambda: None)
    assert app.task(name="half")(half).name == "half"


def test_a_name_that_is_taken_says_where() -> None:
    app = App("sqlite://")
    app.task(send)
    place = rf"test_declaring\.py:{send.__code__.co_firstlineno}"
    with pytest.raises(BadTask, match=f"already declared at .*{place}: give one of the two name="):
        app.task(name=f"{HERE}.send")(resize)
    assert app.registry[f"{HERE}.send"].function is send


def test_a_name_that_no_task_has_is_answered_with_those_there_are() -> None:
    app = App("sqlite://")
    app.task(name="mail.send")(print)
    with pytest.raises(UnknownTask, match=r"'mail.sent'; registered here: mail.send$"):
        app.tasks["mail.sent"]
    assert "mail.sent" not in app.tasks
    assert app.tasks.get("mail.sent") is None


def test_old_names_of_a_task_are_names_too() -> None:
    app = App("sqlite://")
    task = app.task(name="mail.send", also=("send", "post.send"))(send)
    assert app.registry["send"] is app.registry["post.send"] is task.handler
    assert list(app.tasks) == ["mail.send"]
    assert [one.name for one in app.registry.handlers] == ["mail.send"]
    assert app.task_named("send") is task


@pytest.mark.parametrize(
    ("name", "also", "says"),
    [
        ("fresh", ("old",), r"also='old' is a name of the task 'mail.send', .* declared at .*:\d+"),
        ("fresh", ("mail.send",), r"also='mail.send' is a name of the task 'mail.send'"),
        ("old", (), r"among the also=… of the task 'mail.send', .* declared at .*:\d+"),
        ("fresh", ("fresh",), "must hold other names, each once"),
        ("fresh", ("a", "a"), "must hold other names, each once"),
    ],
)
def test_an_old_name_belongs_to_one_task(name: str, also: tuple[str, ...], says: str) -> None:
    app = App("sqlite://")
    app.task(name="mail.send", also=("old",))(send)
    with pytest.raises(BadTask, match=says):
        app.task(name=name, also=also)(resize)
    assert set(app.registry) == {"mail.send", "old"}


def test_a_schedule_of_a_renamed_task_says_its_name() -> None:
    """The schedule of the old name is still in the store: a second one would run beside it."""
    app = App("sqlite://")
    task = app.task(name="mail.resize", also=("resize",))(resize)
    with pytest.raises(BadOption, match="name='resize' goes on with its schedule"):
        app.schedule("0 9 * * *", args=(8,))(task)
    app.schedule("0 9 * * *", name="resize", args=(8,))(task)
    assert app.schedules["resize"].task == "mail.resize"


@pytest.mark.parametrize("also", ["old", [5], ["a b"]])
def test_old_names_are_a_list_of_names(also: Any) -> None:
    with pytest.raises(BadOption):
        App("sqlite://").task(also=also)(send)


def test_a_cell_of_a_notebook_may_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter's own module has no file there, and a cell has another place each time."""
    app = App("sqlite://")
    world = {"app": app, "__name__": "__main__"}
    monkeypatch.setattr("sys.modules", {**sys.modules, "__main__": _World(world)})
    for answer, cell in enumerate(("cell-1", "cell-2")):
        source = f"@app.task\ndef answer() -> int:\n    return {answer}\n"
        exec(compile(source, cell, "exec"), world)
    assert app.tasks["answer"]() == 1
    with pytest.raises(BadTask, match="already declared at cell-2:1"):
        exec(
            compile("for _ in range(2):\n    app.task(answer.function)\n", "cell-3", "exec"), world
        )


class _World:
    """Stands for a module, with these names in it."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


# Sets ---------------------------------------------------------------------------------------


def test_a_set_gives_its_tasks_a_prefix_and_options() -> None:
    mail = Tasks(prefix="mail.", queue="mail", timeout=30)
    app = App("sqlite://")
    app.include(mail)
    plain, named = mail.task(send), mail.task(name="again", timeout=5)(send)
    assert (plain.name, plain.options.queue, plain.options.timeout) == ("mail.send", "mail", 30)
    assert (named.name, named.options.queue, named.options.timeout) == ("mail.again", "mail", 5)
    mail.schedule("0 9 * * *", args=("ann",))(plain)
    mail.schedule("0 8 * * *", name="early", args=("ann",))(plain)
    assert list(app.schedules) == ["mail.send", "mail.early"]


@pytest.mark.parametrize("first", ["included", "declared"])
def test_a_set_may_be_included_before_or_after_its_tasks_are_declared(first: str) -> None:
    app, outer, inner = App("sqlite://"), Tasks(), Tasks(prefix="in.")

    def include() -> None:
        outer.include(inner)
        app.include(outer)

    def declare() -> None:
        inner.schedule("0 9 * * *", args=(8,))(inner.task(resize))
        inner.scopes("customers")(lambda: ["acme"])
        inner.planner("never")(lambda scope, after, now: [])

    steps: list[Callable[[], None]] = [include, declare]
    for step in steps if first == "included" else reversed(steps):
        step()
    assert list(app.registry) == list(app.schedules) == ["in.resize"]
    assert list(app.providers.scopes) == ["customers"]
    assert list(app.providers.planners) == ["never"]
    assert inner.tasks["in.resize"].app is app


def test_a_set_reaches_an_app_by_two_ways_once() -> None:
    app, left, right, base = App("sqlite://"), Tasks(), Tasks(), Tasks(prefix="base.")
    task = base.task(resize)
    for side in (left, right):
        side.include(base)
        app.include(side)
    app.include(left, left)
    assert list(app.tasks) == ["base.resize"]
    assert task.app is app


def test_a_conflict_leaves_every_set_as_it_was() -> None:
    app, mail, post = App("sqlite://"), Tasks(prefix="mail."), Tasks()
    app.task(name="post.resize")(resize)
    post.task(name="fine")(send)
    post.task(name="post.resize")(send)
    with pytest.raises(BadTask, match="already declared at"):
        app.include(post)
    assert set(app.registry) == {"post.resize"}
    app.include(mail)
    with pytest.raises(BadTask, match=r"'post\.resize' is a name of the task"):
        mail.task(name="x", also=("post.resize",))(send)
    assert (list(mail.tasks), set(app.registry)) == ([], {"post.resize"})


def test_a_set_includes_neither_itself_nor_an_app() -> None:
    app, outer, inner = App("sqlite://"), Tasks(), Tasks()
    outer.include(inner)
    for whole, part in ((outer, outer), (inner, outer)):
        with pytest.raises(BadOption, match="does not include this one"):
            whole.include(part)
    with pytest.raises(BadOption, match="without an app"):
        outer.include(app)
    with pytest.raises(BadOption, match="given Tasks"):
        app.include("shop.mail")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [{"prefix": "mail"}, {"prefix": "a b."}, {"prefix": 5}, {"id": "x"}, {"delay": 5}]
)
def test_a_set_refuses_what_cannot_hold_for_all_its_tasks(given: Any) -> None:
    with pytest.raises(BadOption):
        Tasks(**given)


async def test_a_task_of_a_set_in_no_app_says_what_to_do() -> None:
    mail = Tasks(prefix="mail.")
    task = mail.task(resize)
    assert task(8) == "4"
    says = (
        r"task 'mail.resize' belongs to no App: call app.include\(…\) .* at .*test_declaring.py:\d+"
    )
    with pytest.raises(NotIncluded, match=says):
        await task.enqueue(8)
    with pytest.raises(NotIncluded, match=says):
        task.enqueue_sync(8)


async def test_a_set_in_several_apps_enqueues_to_the_one_that_is_open() -> None:
    mail = Tasks(prefix="mail.")
    task = mail.task(resize)
    apps = [App("sqlite://"), App("sqlite://")]
    for app in apps:
        app.include(mail)
    with pytest.raises(NotIncluded, match=r"2 Apps, .* use app.tasks\['mail.resize'\]"):
        await task.enqueue(8)
    async with apps[1]:
        await task.enqueue(8)
        assert await apps[1].client.count() == {"ready": 1}
        async with apps[0]:
            with pytest.raises(NotIncluded, match="not exactly one of them is open"):
                await task.enqueue(8)
            await apps[0].tasks["mail.resize"].enqueue(8)
            assert await apps[0].client.count() == {"ready": 1}


# What users of other libraries write --------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("delay", "use 'await task.enqueue"),
        ("send", "use 'await task.enqueue"),
        ("defer", "use 'await task.enqueue"),
        ("apply_async", r"use 'task.using\(delay=60"),
    ],
)
def test_the_word_of_another_library_is_answered_with_ours(word: str, says: str) -> None:
    task = App("sqlite://").task(send)
    with pytest.raises(AttributeError, match=f"task '{HERE}.send' has no '{word}': {says}"):
        getattr(task, word)
    assert not hasattr(task, word)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        task.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_wait_in_words_names_its_option_and_shows_how() -> None:
    task = App("sqlite://").task(send)
    with pytest.raises(BadOption, match=r"delay must be .* such as 300 or timedelta\(minutes=5\)"):
        task.using(delay="5m")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, True, "", [], {}, "two words"])
def test_a_name_that_no_task_can_have_is_refused_where_it_is_given(wrong: Any) -> None:
    app = App("sqlite://")
    with pytest.raises(BadOption, match="task name"):
        app.task(name=wrong)(print)
    with pytest.raises(BadOption, match="task name"):
        app.task_named(wrong)
    with pytest.raises(BadOption, match="schedule name"):
        app.schedule("@daily", name=wrong)


# Routes -------------------------------------------------------------------------------------


def test_a_route_sends_tasks_that_name_no_queue_to_one() -> None:
    app = App("sqlite://")
    app.route("gh.*", queue="github")
    app.route("gh.slow.*", queue="slow")
    tasks = [
        app.task(name="gh.sync")(resize),
        app.task(name="gh.slow.clone")(resize),
        app.task(name="gh.hook", queue="hooks")(resize),
        app.task(name="mail")(resize),
    ]
    assert [task.options.queue for task in tasks] == ["github", "slow", "hooks", "default"]
    assert set(app.own_queues) == {"github", "slow", "hooks", "default"}
    assert app.task_named("gh.elsewhere").options.queue == "github"


def test_a_route_that_comes_after_its_tasks_is_refused() -> None:
    app = App("sqlite://")
    app.task(name="gh.sync")(resize)
    app.task(name="jira.sync", queue="jira")(resize)
    with pytest.raises(BadOption, match=r"before the tasks that it is for, got 'gh\.sync'"):
        app.route("gh.*", queue="github")
    app.route("jira.*", queue="other")  # every task that it fits names a queue
    with pytest.raises(BadOption, match="given once"):
        app.route("jira.*", queue="third")
    with pytest.raises(BadOption, match="pattern of a route"):
        app.route("gh*sync", queue="github")
    with pytest.raises(BadOption, match="queue"):
        app.route("mail.*", queue="no good\n")


def test_a_route_is_for_the_tasks_of_its_own_set() -> None:
    """A task of a set may be enqueued before any app includes the set."""
    app, inner, outer = App("sqlite://"), Tasks(prefix="gh."), Tasks()
    outer.include(inner)
    inner.task(name="sync")(resize)
    app.route("gh.*", queue="github")
    with pytest.raises(BadOption, match=r"give the set a route or a queue, got 'gh\.sync'"):
        app.include(outer)
    other = Tasks(prefix="gh.", queue="github")
    other.task(name="sync")(resize)
    app.include(other)
    late = Tasks(prefix="gh.")
    app.include(late)
    with pytest.raises(BadOption, match="give the set a route or a queue"):
        late.task(name="late")(resize)
    late.route("gh.l*", queue="late")
    assert late.task(name="later")(resize).options.queue == "late"
