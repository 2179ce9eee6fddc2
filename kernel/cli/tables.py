"""Columns for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence

import click


def print_json(value: object) -> None:
    """`value`, indented."""
    import json

    click.echo(json.dumps(value, indent=2))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows in aligned columns under a header; no wider than their contents."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for index, row in enumerate((header, *rows)):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        click.secho(line, bold=True) if index == 0 else click.echo(line)
