"""Output of the commands: tables on a terminal, plain columns otherwise."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from uuid import UUID

from tidelog.kernel.cli.tables import print_table


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Print a table: with lines and colours on a terminal, as plain columns otherwise.

    Columns whose header is in `numbers` are aligned to the right on a terminal.
    """
    if sys.stdout.isatty():
        _show_rich(header, rows, numbers)
    else:
        print_table(header, rows)


def kafka_uuid(value: UUID) -> str:
    """Format an id as Kafka's own tools print it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _show_rich(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in header:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)
