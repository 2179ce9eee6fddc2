"""The table of docs/testing.md: module, mutants, how many were tried, how many of these were killed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import attrs

_BEGIN = "<!-- mutants: written by `make mutants UPDATE=1` -->\n"
_END = "<!-- end of mutants -->\n"
_HEAD = "| module | mutants | tried | killed | |\n|---|---:|---:|---:|---:|\n"
_ROW = re.compile(
    r"^\| `(?P<module>[^`]+)` \| (?P<mutants>\d+) \| (?P<tried>\d+) \| (?P<killed>\d+) \|", re.MULTILINE
)


@attrs.frozen
class Row:
    module: str
    mutants: int
    tried: int
    killed: int

    def __str__(self) -> str:
        percent = 100 * self.killed // self.tried
        return f"| `{self.module}` | {self.mutants} | {self.tried} | {self.killed} | {percent} % |\n"


def rows_of(page: str) -> list[Row]:
    """Return the table's rows."""
    return [
        Row(row["module"], int(row["mutants"]), int(row["tried"]), int(row["killed"]))
        for row in _ROW.finditer(page)
    ]


def with_rows(page: str, rows: Iterable[Row]) -> str:
    """Return the page with these rows instead of those of the same modules."""
    before, rest = page.split(_BEGIN)
    table, after = rest.split(_END)
    known = {row.module: row for row in rows_of(table)} | {row.module: row for row in rows}
    return before + _BEGIN + _HEAD + "".join(str(known[name]) for name in sorted(known)) + _END + after


def update_page(path: Path, rows: Iterable[Row]) -> None:
    """Write the rows into the page."""
    path.write_text(with_rows(path.read_text(), rows))
