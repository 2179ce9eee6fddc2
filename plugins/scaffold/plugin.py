"""Hook by which `tidelog` has the command `plugin`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the command `plugin`."""
    from tidelog.plugins.scaffold.command import plugin

    return [plugin]
