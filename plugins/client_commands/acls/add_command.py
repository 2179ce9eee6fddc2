"""`tidelog acls add`."""

from __future__ import annotations

from itertools import product

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.acls import AclBinding, create_acls
from tidelog.plugins.client_commands.acls.entries import (
    entry_options,
    named_resources,
    refused,
    show_entries,
)
from tidelog.plugins.client_commands.options import json_option, with_broker

_EPILOG = """\b
Examples:
  tidelog acls add --principal User:alice --operation read --topic orders --group billing
  tidelog acls add --principal User:bob --operation write --topic orders- --prefix
  tidelog acls add --principal 'User:*' --operation all --topic secrets --host 192.0.2.7 --deny
"""


@click.command("add", epilog=_EPILOG, short_help="Allow or deny operations.")
@entry_options
@click.option("--deny", is_flag=True, help="Deny, which counts more than whatever allows.")
@json_option
@with_broker
def command(
    client: BlockingClient,
    /,
    *,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    prefix: bool,
    cluster: bool,
    deny: bool,
    as_json: bool,
    **names: tuple[str, ...],
) -> None:
    """Add an entry for each principal, operation and resource; one that is there already stays."""
    resources = named_resources(cluster=cluster, **names)
    if not (principals and operations and resources):
        raise click.UsageError("Say whom (--principal), what (--operation) and on what, such as --topic.")
    entries = [
        AclBinding(
            principal,
            operation,
            resource.kind,
            resource.name,
            "prefixed" if prefix and resource.kind != "cluster" else "literal",
            host or "*",
            "deny" if deny else "allow",
        )
        for principal, operation, resource in product(principals, operations, resources)
    ]
    for outcome in client.run(create_acls, entries).values():
        if isinstance(outcome, ClientError):
            raise refused(outcome) from outcome
    show_entries(entries, as_json=as_json, nothing="")
