"""The group of subcommands: each is imported when it is called, and plugins add theirs."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import click

from tidelog.kernel.errors import PluginError, TidelogError

_OWN_COMMANDS = ("config", "plugins", "serve", "sinks")


class CommandGroup(click.Group):
    """`serve`, `plugins`, `config`, `sinks`, and the commands of plugins.

    The plugins are those of the installed distributions and of the environment (`TIDELOG_CONFIG`,
    `TIDELOG_PLUGINS`, `TIDELOG_PLUGINS_BLOCKED`), since a command's own options are only known with the
    command.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, for the help; a broken plugin is reported on standard error."""
        try:
            added = list(_plugin_commands())
        except TidelogError as error:
            print(f"tidelog: {error}", file=sys.stderr)
            added = []
        return sorted([*_OWN_COMMANDS, *added])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; plugins are loaded only for a name that is not the kernel's."""
        if cmd_name in _OWN_COMMANDS:
            command: click.Command = import_module(f"tidelog.kernel.cli.{cmd_name}").command
            return command
        return _plugin_commands().get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, or fail with a suggestion."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from tidelog.kernel.config.types import nearest_name

            near = nearest_name(args[0], self.list_commands(ctx))
            ctx.fail(f"There is no command {args[0]!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)


@cache
def _plugin_commands() -> dict[str, click.Command]:
    from tidelog.kernel.cli.options import CONFIG_VARIABLE, sources_of
    from tidelog.kernel.plugins.load import load_wanted_plugins

    named = os.environ.get(CONFIG_VARIABLE)
    file = Path(named) if named else None
    commands = {
        command.name or "": command for command in load_wanted_plugins(sources_of(file, ())).commands()
    }
    for name in _OWN_COMMANDS:
        if name in commands:
            raise PluginError(f"A plugin offers a command {name}, which is one of tidelog's own.")
    return commands
