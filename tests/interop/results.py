"""Results of all clients and servers, in the file that later runs add to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

PASSES: Final = "passes"
FAILS: Final = "fails"
LACKS: Final = "lacks"


class Cell(NamedTuple):
    """How a scenario went with a client: `outcome` and, unless it passes, why."""

    outcome: str
    reason: str = ""


class Results:
    """Cells by server, client and scenario; a client's new cells replace those of the same name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.servers: dict[str, dict[str, dict[str, Cell]]] = {"tidelog": {}, "kafka": {}}
        if path.exists():
            self._load(json.loads(path.read_text(encoding="utf-8")))

    def _load(self, stored: dict[str, Any]) -> None:
        for server, clients in stored.items():
            self.servers[server] = {
                client: {name: Cell(*cell) for name, cell in cells.items()}
                for client, cells in clients.items()
            }

    def put(self, server: str, client: str, scenario: str, cell: Cell) -> None:
        """Add or replace a cell."""
        self.servers[server].setdefault(client, {})[scenario] = cell

    def save(self) -> None:
        """Write the file, a line for each cell so that changes are easy to read."""
        text = json.dumps(self.servers, indent=0, sort_keys=True, ensure_ascii=False)
        # Cells on one line each.
        for outcome in (PASSES, FAILS, LACKS):
            text = text.replace(f'[\n"{outcome}",\n', f'["{outcome}", ')
        self._path.write_text(text.replace('"\n]', '"]') + "\n", encoding="utf-8")
