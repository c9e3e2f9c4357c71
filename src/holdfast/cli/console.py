"""The console of every command. It is imported only when something is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from holdfast.cli.output import harmless


class HarmlessConsole(Console):
    """Prints no character of a text that a terminal would obey. Colours are added after this."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Before the width of the text is measured."""
        return super().render_str(harmless(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Whatever a text came in: nothing is printed that does not go through here."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)
