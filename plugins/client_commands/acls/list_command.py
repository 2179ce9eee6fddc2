"""`tidelog acls list`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.acls import AclBindingFilter, describe_acls
from tidelog.plugins.client_commands.acls.entries import refused, show_entries
from tidelog.plugins.client_commands.options import json_option, with_broker

_EPILOG = """\b
Examples:
  tidelog acls list
  tidelog acls list --principal User:alice
  tidelog acls list --topic orders-eu --json
"""


@click.command("list", epilog=_EPILOG, short_help="List access control entries.")
@click.option("--principal", metavar="TYPE:NAME", help="Only those of this principal.")
@click.option("--topic", metavar="NAME", help="Only those about a topic of this name, patterns included.")
@click.option("--group", metavar="NAME", help="Only those about a group of this name, patterns included.")
@json_option
@with_broker
def command(
    client: BlockingClient, *, principal: str | None, topic: str | None, group: str | None, as_json: bool
) -> None:
    """List the entries, or those about a principal, a topic or a group."""
    if topic is not None and group is not None:
        raise click.UsageError("Say --topic or --group, not both.")
    name = group if topic is None else topic
    kind = None if name is None else "group" if topic is None else "topic"
    wanted = AclBindingFilter(
        principal=principal, resource=kind, name=name, pattern=None if name is None else "match"
    )
    try:
        found = client.run(describe_acls, wanted)
    except ErrorResponse as error:
        raise refused(error) from error
    show_entries(found, as_json=as_json, nothing="There are no such entries.")
