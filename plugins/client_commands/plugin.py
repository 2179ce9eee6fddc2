"""Hook of the commands for clusters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the commands, and groups of them."""
    from tidelog.plugins.client_commands.acls.command_group import acls
    from tidelog.plugins.client_commands.configs.command_group import configs
    from tidelog.plugins.client_commands.consume.consume_command import command as consume
    from tidelog.plugins.client_commands.groups.command_group import groups
    from tidelog.plugins.client_commands.partitions.command_group import partitions
    from tidelog.plugins.client_commands.produce.produce_command import command as produce
    from tidelog.plugins.client_commands.quotas.command_group import quotas
    from tidelog.plugins.client_commands.tokens.command_group import tokens
    from tidelog.plugins.client_commands.topics.command_group import topics
    from tidelog.plugins.client_commands.users.command_group import users

    return [acls, configs, consume, groups, partitions, produce, quotas, tokens, topics, users]
