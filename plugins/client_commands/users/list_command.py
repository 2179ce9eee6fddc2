"""`tidelog users list`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.users.credentials import credentials_of, show

_EPILOG = """\b
Examples:
  tidelog users list
  tidelog users list alice bob --json
"""


@click.command("list", epilog=_EPILOG, short_help="List users.")
@click.argument("names", nargs=-1, metavar="[USER]...")
@json_option
@with_broker
def command(client: BlockingClient, *, names: tuple[str, ...], as_json: bool) -> None:
    """List the users, or those that are named, with their mechanisms; no password can be shown."""
    show(credentials_of(client, list(dict.fromkeys(names))), as_json=as_json)
