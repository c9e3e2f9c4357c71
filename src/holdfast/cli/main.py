"""The `holdfast` command: the entry point of the shell.

`--version` is answered here and imports nothing else. All commands are put together in
`holdfast.cli.program`.
"""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from holdfast import __version__

        print(f"holdfast {__version__}")
        return
    try:
        from holdfast.cli.program import program

        program(prog_name="holdfast")
    except KeyboardInterrupt:  # while modules are still imported: later, the command tells of it
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
