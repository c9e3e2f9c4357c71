"""A child of a pool that does as it is told: each call says how it is answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    for line in sys.stdin:
        call = json.loads(line)
        print(json.dumps(answer(call["id"], call["args"])), flush=True)


def answer(number: int, args: dict[str, Any]) -> Any:
    match args["how"]:
        case "die":
            print("these were its last words", file=sys.stderr, flush=True)
            os._exit(7)
        case "garbage":
            return "what is this"
        case "wrong id":
            return {"id": number + 1, "result": None}
        case "error":
            return {"id": number, "error": {"kind": "BadImage", "message": "it is no image"}}
        case "plain error":
            return {"id": number, "error": "it is no image"}
        case "nothing":
            return {"id": number}
        case "null":
            return {"id": number, "result": {"found": None}}
        case "hang":
            started = subprocess.Popen(["sleep", "1000"])
            Path(args["note"]).write_text(f"{os.getpid()} {started.pid}")
            time.sleep(1000)
    return {"id": number, "result": {"pid": os.getpid(), "args": args}}


if __name__ == "__main__":
    main()
