"""The command `tidelog topics`: list, create, describe, alter and delete topics, over the client core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the command group `topics`."""
    from tidelog.plugins.topic_commands.group import topics

    return [topics]
