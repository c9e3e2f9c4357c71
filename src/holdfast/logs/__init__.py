"""What a program's logs say about jobs: for `logging.config`, in a worker and anywhere else.

`JobFields` is a filter for handlers, `TextLines` and `JsonLines` are formatters. Nothing here
changes the logging of a program that does not ask for it.
"""

from holdfast.logs.formats import JobFields, JsonLines, TextLines

__all__ = ["JobFields", "JsonLines", "TextLines"]
