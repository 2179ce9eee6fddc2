"""`tidelog groups list`."""

from __future__ import annotations

import attrs
import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.operations.groups import list_groups
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.output import show_table

_EPILOG = """\b
Examples:
  tidelog groups list
  tidelog groups list --state Empty --state Dead
  tidelog groups list --type consumer --json
"""


@click.command("list", epilog=_EPILOG, short_help="List the groups.")
@click.option(
    "--state", "states", multiple=True, help="Only those in this state, such as Stable; repeatable."
)
@click.option(
    "--type", "types", multiple=True, help="Only groups of this type: classic, consumer, ...; repeatable."
)
@json_option
@with_broker
def command(
    client: BlockingClient, *, states: tuple[str, ...], types: tuple[str, ...], as_json: bool
) -> None:
    """List the groups of all brokers by name, with their type and state."""
    found = client.run(list_groups, states=states, types=types)
    if as_json:
        print_json([attrs.asdict(group) for group in found])
    elif found:
        rows = [(each.group_id, each.type or "-", each.state or "-", each.protocol_type) for each in found]
        show_table(("GROUP", "TYPE", "STATE", "PROTOCOL"), rows)
    else:
        click.echo("There are no such groups." if states or types else "There are no groups.", err=True)
