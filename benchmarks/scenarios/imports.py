"""What importing takes of tidelog's start."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG, TidelogKind
from benchmarks.rows import Better, Row, Sample, value_at_most

from .launch import timed_start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind

    from .context import Bench

IMPORTS = Row("imports", "of which imports", "s", Better.LOWER, (value_at_most(0.2),))
# What the interpreter prints of each imported module: own time in µs | with what it imports | name.
_LINE = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \| +(\S+)$", re.MULTILINE)
# The last module that every interpreter imports by itself.
_LAST_OF_INTERPRETER = "site"


def imported_seconds(output: str) -> float:
    """The time that a program spent on imports, from what `python -X importtime` printed.

    Modules that the interpreter imports before any program do not count.
    """
    modules = [(int(own_us), name) for own_us, name in _LINE.findall(output)]
    names = [name for _, name in modules]
    first = names.index(_LAST_OF_INTERPRETER) + 1 if _LAST_OF_INTERPRETER in names else 0
    return sum(own_us for own_us, _ in modules[first:]) / 1e6


@attrs.frozen
class ImportTime:
    """The interpreter's own account of a real start, up to the first answer."""

    name: str = attrs.field(default="imports", init=False)
    rows: Sequence[Row] = attrs.field(default=(IMPORTS,), init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        server = TidelogKind((sys.executable, "-P", "-X", "importtime", "-m", "tidelog.kernel")).server(
            work_dir
        )
        try:
            timed_start(server)
            output = server.process.log_path.read_text(encoding="utf-8", errors="replace")
        finally:
            server.stop()
        return [Sample(IMPORTS.name, imported_seconds(output))]
