"""A group of commands, each of which is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Group whose command NAME is `command` in the module `NAME_command` of a package."""

    def __init__(self, *args: Any, package: str, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._package = package
        self._names = list(names)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return self._names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name."""
        if cmd_name not in self._names:
            return None
        module = f"{self._package}.{cmd_name.replace('-', '_')}_command"
        command: click.Command = import_module(module).command
        return command
