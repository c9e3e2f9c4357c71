"""The screen of `holdfast top`.

The app reads the store again and again, and draws what it read in one of six views. No key waits
for the store. A reading that fails shows a banner and leaves the last picture; the next one that
succeeds takes the banner away.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.widgets import DataTable, Static

from holdfast.cli.jobs import draw_explanation
from holdfast.cli.jobs_view import draw_job
from holdfast.cli.life_view import draw_life
from holdfast.cli.output import duration_text
from holdfast.cli.sheet import one_line
from holdfast.cli.top_acts import FOR, Deed, TopActs
from holdfast.cli.top_reading import TopReader, Wanted
from holdfast.cli.top_screens import AskScreen, FilterScreen, TextScreen, help_screen
from holdfast.cli.top_views import KEYS, KEYS_EVERYWHERE, VIEWS, Picture, TopView
from holdfast.cli.workers import draw_worker
from holdfast.client.client import Client
from holdfast.errors import HoldfastError, StoreError
from holdfast.insights.where import where_text
from holdfast.job.redaction import redact
from holdfast.job.text import describe
from holdfast.store.contract.filters import JobFilter

if TYPE_CHECKING:
    from rich.console import RenderableType

THEMES = ("textual-dark", "textual-light", "ansi-dark", "ansi-light")
RUNNING = Wanted("state:running")
LINES_AROUND = 4
"""Lines of the screen that are not the view's own."""


class TopApp(App[None]):
    """One viewer of one store. `every`: seconds between two readings."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #tabs, #head, #keys, #note, #banner { height: 1; }
    #banner { background: $error; color: $text; text-style: bold; display: none; }
    #text { height: auto; }
    #columns { height: 1; }
    #table { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    .wide #text { height: 1fr; }
    .wide #table, .wide #columns { display: none; }
    TextScreen { background: $background; }
    AskScreen, FilterScreen { align: center middle; }
    .box { width: 76; height: auto; border: round $primary; padding: 1 2; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"show('{view}')", view) for n, view in enumerate(VIEWS, start=1)),
        Binding("tab", "turn(1)", "next view", priority=True),
        Binding("shift+tab", "turn(-1)", "view before", priority=True),
        Binding("slash", "filter", "filter"),
        Binding("n", "older", "older"),
        Binding("b", "newest", "newest"),
        Binding("p", "do('pause')", "pause"),
        Binding("r", "do('retry')", "retry"),
        Binding("c", "do('cancel')", "cancel"),
        Binding("d", "do('drain')", "drain"),
        Binding("space", "hold", "hold"),
        Binding("t", "colours", "colours"),
        Binding("question_mark", "help", "help"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True),
    ]

    def __init__(self, client: Client, *, by: str, every: float) -> None:
        super().__init__()
        self._client = client
        self._acts = TopActs(client, by)
        self._every = every
        self._turn = asyncio.Lock()
        self._failing_since: float | None = None
        self._opened: str | None = None
        self._lines: dict[str, Text] = {}
        self._texts: dict[str, Text] = {}
        self._room = self._height = 0
        self.picture = Picture()
        self.reader = TopReader(client, self.picture.pace)

    # Drawing ------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static("", id="tabs")
        yield Static("", id="banner")
        yield Static("reading …", id="text")
        yield Static("", id="columns")
        table: DataTable[Text] = DataTable(
            id="table", show_header=False, cursor_type="row", cell_padding=0
        )
        yield table
        yield Static("", id="note")
        yield Static("", id="keys")

    def on_mount(self) -> None:
        self._fit(self.size)
        self._turn_to(TopView.OVERVIEW)
        self.set_interval(self._every, self._tick)
        with suppress(NotImplementedError, RuntimeError, ValueError):
            # Where signals cannot be heard, the keys remain.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)

    def on_resize(self, event: Resize) -> None:
        """Also when the screen opens."""
        self._fit(event.size)
        self.draw()

    def _fit(self, size: Size) -> None:
        """A column is left for the bar that shows where a table is scrolled to."""
        self._room, self._height = size.width - 1, size.height - LINES_AROUND
        self._table.clear(columns=True)
        self._table.add_column("line", key="line", width=self._room)
        self._lines = {}

    def draw(self) -> None:
        """Draw what was read last in the view that is open now."""
        picture, room = self.picture, self._room
        self._put("#tabs", picture.tabs())
        self._put("#keys", Text(f" {KEYS[picture.view]}{KEYS_EVERYWHERE}", "dim", no_wrap=True))
        if picture.seen is None:
            return
        text, sheet = picture.contents(picture.seen, room, self._height)
        self._put("#text", Text("\n").join(text))
        self._put("#note", Text("" if sheet is None else f" {sheet.note}", "dim", no_wrap=True))
        self.screen_stack[0].set_class(sheet is None, "wide")
        if sheet is not None:
            self._put("#columns", sheet.head(room))
            self._fill(sheet.lines(room))

    def _put(self, where: str, text: Text) -> None:
        """Change only what differs, and lay the screen out anew only if the text may be of another
        height: that takes longer than all the rest of a drawing."""
        before = self._texts.get(where)
        if text != before:
            self._texts[where] = text
            layout = before is None or not self._is_as_high(before, text)
            self.screen_stack[0].query_one(where, Static).update(text, layout=layout)

    def _is_as_high(self, before: Text, after: Text) -> bool:
        """Whether two texts surely take the same number of lines: no line of them is broken."""
        lines = [text.plain.split("\n") for text in (before, after)]
        fits = all(cell_len(line) <= self._room for some in lines for line in some)
        return fits and len(lines[0]) == len(lines[1])

    @property
    def _table(self) -> DataTable[Text]:
        """Of the views, also while something else is open above them."""
        table: DataTable[Text] = self.screen_stack[0].query_one(DataTable)
        return table

    def _fill(self, lines: dict[str, Text]) -> None:
        """Change only what differs. The chosen row stays chosen while rows come and go."""
        table, chosen = self._table, self.chosen
        if list(lines) == list(self._lines):
            for key, line in lines.items():
                if line != self._lines[key]:
                    table.update_cell(key, "line", line)
        else:
            table.clear()
            for key, line in lines.items():
                table.add_row(line, key=key)
            if chosen in lines:
                table.move_cursor(row=list(lines).index(chosen), animate=False)
        self._lines = lines

    @property
    def chosen(self) -> str | None:
        """What the chosen row is about."""
        keys, at = list(self._lines), self._table.cursor_row
        return keys[at] if 0 <= at < len(keys) else None

    # Reading ------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if not self.picture.is_held and not self._turn.locked():
            self.run_worker(self.read(), group="reading")

    async def read(self) -> None:
        """Read what the open view needs, and draw it. An outage is told, never raised."""
        async with self._turn:
            try:
                await self._read_view(self.picture.view)
            except StoreError as error:
                self._tell_outage(error)
                return
            self._end_outage()
            self.draw()

    async def _read_view(self, view: TopView) -> None:
        """What comes after another view was opened is not shown there."""
        picture, reader = self.picture, self.reader
        picture.seen = await reader.overview()
        match view:
            case TopView.JOBS | TopView.LIVE:
                wanted = picture.wanted if view is TopView.JOBS else RUNNING
                page = await reader.jobs(wanted)
                if picture.view is view:
                    picture.page = page
            case TopView.FAILURES:
                picture.failures = await reader.failures()
            case TopView.OVERVIEW | TopView.QUEUES | TopView.WORKERS:
                pass

    def _tell_outage(self, error: Exception) -> None:
        now = time.monotonic()
        since = self._failing_since = self._failing_since or now
        why = one_line(redact(describe(error)))
        self._put("#banner", Text(f" no answer for {duration_text(now - since)}: {why}"))
        self.screen_stack[0].query_one("#banner").display = True

    def _end_outage(self) -> None:
        self._failing_since = None
        self.screen_stack[0].query_one("#banner").display = False

    # Views --------------------------------------------------------------------------------------

    def _turn_to(self, view: TopView) -> None:
        self.picture.turn_to(view)
        self._lines = {}
        self._table.clear()
        self._table.focus()
        self.draw()
        self.run_worker(self.read(), group="reading")

    def action_show(self, view: str) -> None:
        self._turn_to(TopView(view))

    def action_turn(self, step: int) -> None:
        if len(self.screen_stack) == 1:
            self._turn_to(VIEWS[(VIEWS.index(self.picture.view) + step) % len(VIEWS)])

    def action_hold(self) -> None:
        self.picture.is_held = not self.picture.is_held
        self.draw()

    def action_colours(self) -> None:
        self.theme = THEMES[(THEMES.index(self.theme) + 1) % len(THEMES)]

    def action_help(self) -> None:
        self.push_screen(help_screen())

    def action_filter(self) -> None:
        where = self.picture.wanted.where
        self.push_screen(FilterScreen(where, Wanted.check_text), self._use_filter)

    def _use_filter(self, where: str | None) -> None:
        if where is not None:
            self._list_jobs(where)

    def _list_jobs(self, where: str) -> None:
        self.picture.wanted = Wanted(where)
        self._turn_to(TopView.JOBS)

    def action_older(self) -> None:
        picture = self.picture
        if picture.view is TopView.JOBS and picture.page is not None and picture.page.next_cursor:
            picture.wanted.cursors.append(picture.page.next_cursor)
            self._turn_to(TopView.JOBS)

    def action_newest(self) -> None:
        if self.picture.view is TopView.JOBS and self.picture.wanted.cursors:
            self._list_jobs(self.picture.wanted.where)

    def on_data_table_row_selected(self) -> None:
        chosen = self.chosen
        if chosen is None:
            return
        match self.picture.view:
            case TopView.QUEUES:
                self._list_jobs(where_text(JobFilter(queues=(chosen,))))
            case TopView.JOBS | TopView.LIVE:
                self._open_job(chosen)
            case TopView.FAILURES:
                failures = self.picture.failures
                self._open_job(next(one.job_id for one in failures if one.fingerprint == chosen))
            case TopView.WORKERS:
                self._open_worker(chosen)
            case TopView.OVERVIEW:
                pass

    def _open_job(self, job_id: str) -> None:
        async def read() -> Iterable[RenderableType]:
            explanation, life = await self.reader.job(job_id)
            _, *moments = draw_life(life)  # its first line says what the explanation has said
            return [*draw_explanation(explanation), "", *moments, "", *draw_job(explanation.job)]

        self._open(job_id, TextScreen(f"job {job_id}", "r retry  c cancel  Esc back", read))

    def _open_worker(self, worker_id: str) -> None:
        async def read() -> Iterable[RenderableType]:
            [worker] = await self._client.workers.named(worker_id)
            return draw_worker(worker)

        self._open(worker_id, TextScreen(f"worker {worker_id}", "d drain  Esc back", read))

    def _open(self, target: str, screen: TextScreen) -> None:
        self._opened = target
        self.push_screen(screen, self._forget_opened)

    def _forget_opened(self, _: None) -> None:
        self._opened = None

    # Acts ---------------------------------------------------------------------------------------

    def action_do(self, act: str) -> None:
        """Do it to what is open, or to the chosen row."""
        views, seen = FOR[act], self.picture.seen
        target = self._opened or self.chosen
        if self.picture.view not in views:
            self.notify(f"{act} is for {' and '.join(views)}", severity="warning")
        elif target is not None and seen is not None:
            self._begin(self._acts.deed(act, target, seen))

    def _begin(self, deed: Deed) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._carry_out(deed), group="acts")

        if deed.question:
            self.push_screen(AskScreen(one_line(deed.question)), answered)
        else:
            answered(True)

    async def _carry_out(self, deed: Deed) -> None:
        try:
            await deed.call()
        except HoldfastError as error:
            self.notify(one_line(redact(describe(error))), severity="error", markup=False)
        else:
            self.notify(one_line(deed.done), markup=False)
        await self.read()
        if isinstance(self.screen, TextScreen):
            await self.screen.read()
