"""What only a release knows: where the repository is.

`HOLDFAST_REPOSITORY=https://… python -m build` fills in the package's addresses, and makes the
README's links absolute, because an index page shows the README without the files around it. Without
the variable the links become plain text: no address is better than a dead one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")


class AddressHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        address = os.environ.get("HOLDFAST_REPOSITORY", "").rstrip("/")
        blob = f"{address}/blob/v{metadata['version']}"
        text = LINK.sub(
            rf"[\1]({blob}/\2)" if address else r"\1", Path(self.root, "README.md").read_text()
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = addresses(address, blob) if address else {}


def addresses(address: str, blob: str) -> dict[str, str]:
    return {
        "Source": address,
        "Documentation": f"{blob}/docs/index.md",
        "Changes": f"{blob}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
