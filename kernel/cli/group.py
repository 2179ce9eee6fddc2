"""The group of subcommands: each is imported when it is called, and plugins add theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
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
            added, refused = _plugin_commands()
        except TidelogError as error:
            added, refused = dict[str, click.Command](), (error,)
        for each in refused:
            print(f"tidelog: {each}", file=sys.stderr)
        return sorted([*_OWN_COMMANDS, *added])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; plugins are loaded only for a name that is not the kernel's."""
        if cmd_name in _OWN_COMMANDS:
            command: click.Command = import_module(f"tidelog.kernel.cli.{cmd_name}").command
            return command
        added, refused = _plugin_commands()
        if cmd_name not in added and refused:
            # It may be a command of that plugin.
            raise refused[0]
        return added.get(cmd_name)

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
def _plugin_commands() -> tuple[Mapping[str, click.Command], Sequence[TidelogError]]:
    """Return the commands of plugins by name, and the errors of plugins that cannot be used."""
    from tidelog.kernel.cli.options import CONFIG_VARIABLE, sources_of
    from tidelog.kernel.plugins.load import load_usable_plugins, load_wanted_plugins

    named = os.environ.get(CONFIG_VARIABLE)
    sources = sources_of(Path(named) if named else None, ())
    refused: Sequence[TidelogError] = ()
    try:
        found = load_wanted_plugins(sources).commands()
    except PluginError:
        # Not at once: it checks all that plugins offer, which takes longer.
        plugins, errors = load_usable_plugins(sources)
        found, refused = plugins.commands(), tuple(errors.values())
    commands = {command.name or "": command for command in found}
    for name in _OWN_COMMANDS:
        if name in commands:
            raise PluginError(f"A plugin offers a command {name}, which is one of tidelog's own.")
    return commands, refused
