"""The `holdfast` command: from here to the program that answers.

Asking for the version imports nothing else; everything else is put together in
`holdfast.cli.program`.
"""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from importlib.metadata import version

        print(f"holdfast {version('holdfast')}")
        return
    from holdfast.cli.program import program

    program(prog_name="holdfast")


if __name__ == "__main__":
    main()
