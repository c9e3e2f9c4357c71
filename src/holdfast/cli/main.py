"""The `holdfast` command: the entry point of the shell.

`--version` is answered here and imports nothing else. All commands are put together in
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
