"""What opens above the views of `holdfast top`: questions, a job, a worker, the keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from holdfast.cli.output import harmless
from holdfast.cli.top_views import VIEWS
from holdfast.errors import HoldfastError
from holdfast.job.redaction import redact

if TYPE_CHECKING:
    from rich.console import RenderableType

HELP = """\
 1 2 3 4 5 6   overview, queues, jobs, failures, workers, live
 Tab           the next view; Shift+Tab the one before
 ↑ ↓           choose a row; PgUp, PgDn, Home, End
 Enter         open it: a queue's jobs, a job, a failure's job, a worker
 /             list jobs by a filter, as in: holdfast jobs list --where
               queue:mail state:failed task:send_* args.customer:42 since:2h
 n   b         older jobs; back to the newest
 p             pause the chosen queue, or resume it
 r             retry the chosen job; of a failure, all jobs that it killed
 c             cancel the chosen job
 d             drain the chosen worker
 space         hold the picture still, or let it go on
 t             other colours: dark, light, the terminal's own
 Esc           close what is open
 ?             these keys
 q   Ctrl-C    quit

What stops or ends something is asked first. Every act is in the audit:
holdfast audit list
"""


class AskScreen(ModalScreen[bool]):
    """A question that only `y` answers with yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q,enter", "answer(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(Text(self._question), id="question")
            yield Static(Text("y  yes     n  no", "bold"))

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class FilterScreen(ModalScreen[str | None]):
    """Asks for a filter, and does not close before it can be read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]

    def __init__(self, where: str, check: Callable[[str], None]) -> None:
        super().__init__()
        self._where = where
        self._check = check

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(Text("which jobs? for example: queue:mail state:failed since:2h", "dim"))
            yield Input(self._where, id="where", placeholder="all jobs")
            yield Static("", id="wrong")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            self._check(event.value)
        except HoldfastError as error:
            self.query_one("#wrong", Static).update(Text(str(error), "red"))
        else:
            self.dismiss(event.value.strip())

    def action_close(self) -> None:
        self.dismiss(None)


class TextScreen(ModalScreen[None]):
    """A text that can be scrolled, read when it is opened and again after an act. It covers the
    views; a number closes it and opens another view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"leave_for('{view}')", view) for n, view in enumerate(VIEWS, start=1)),
        Binding("escape,backspace,enter", "close", "back"),
        Binding("r", "app.do('retry')", "retry"),
        Binding("c", "app.do('cancel')", "cancel"),
        Binding("d", "app.do('drain')", "drain"),
        Binding("question_mark", "app.help", "help"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(
        self, title: str, keys: str, read: Callable[[], Awaitable[Iterable[RenderableType]]]
    ) -> None:
        super().__init__()
        self._title = title
        self._keys = keys
        self._read = read

    def compose(self) -> ComposeResult:
        yield Static(Text(f" {self._title}", "bold"), id="head")
        with VerticalScroll():
            yield Static("reading …", id="body")
        yield Static(Text(f" {self._keys}", "dim"), id="keys")

    async def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        await self.read()

    async def read(self) -> None:
        try:
            parts = await self._read()
        except HoldfastError as error:
            text = Text(redact(str(error)), "red")
        else:
            text = Text(as_plain(parts, self.app.size.width - 2))
        self.query_one("#body", Static).update(text)

    def action_close(self) -> None:
        self.dismiss()

    async def action_leave_for(self, view: str) -> None:
        self.dismiss()
        await self.app.run_action(f"show('{view}')")


def as_plain(parts: Iterable[RenderableType], width: int) -> str:
    """The parts as text, without what a terminal would obey: errors and arguments of jobs may hold
    anything."""
    console = Console(width=width, color_system=None, markup=False, highlight=False, emoji=False)
    with console.capture() as caught:
        for part in parts:
            console.print(part)
    return harmless(caught.get())


def help_screen() -> TextScreen:
    async def read() -> Iterable[RenderableType]:
        return [HELP]

    return TextScreen("keys", "Esc back", read)
