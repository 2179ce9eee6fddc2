"""`tidelog users delete`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.users.credentials import (
    change,
    credentials_of,
    mechanism_option,
    missing,
    show,
)

_EPILOG = """\b
Examples:
  tidelog users delete alice
  tidelog users delete alice --mechanism SCRAM-SHA-256
"""


@click.command("delete", epilog=_EPILOG, short_help="Delete a user.")
@click.argument("user")
@mechanism_option("Without it: all that the user has.")
@json_option
@with_broker
def command(client: BlockingClient, *, user: str, mechanisms: tuple[str, ...], as_json: bool) -> None:
    """Delete a user, or its credentials of some mechanisms; its access control entries and quotas stay.

    Connections that are open stay until they have to authenticate again (connections.max.reauth.ms).
    """
    there = credentials_of(client, [user]).get(user, {})
    doomed = {name: there[name] for name in there if not mechanisms or name in mechanisms}
    if not doomed:
        raise missing(user)
    change(client, user, doomed, None)
    show({user: doomed}, as_json=as_json)
