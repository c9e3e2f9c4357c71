"""`python -m bench.charts RESULT.json`: draw a saved run into docs/images."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

from bench.charts import charts

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def main() -> None:
    parser = ArgumentParser(prog="python -m bench.charts", description=__doc__)
    parser.add_argument("result", type=Path, help="a file of bench/results")
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder to write to")
    chosen = parser.parse_args()
    chosen.to.mkdir(parents=True, exist_ok=True)
    for name, drawing in charts(json.loads(chosen.result.read_text())).items():
        (chosen.to / name).write_text(drawing)
        print(chosen.to / name)


if __name__ == "__main__":
    main()
