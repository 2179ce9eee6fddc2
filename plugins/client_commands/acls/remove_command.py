"""`tidelog acls remove`."""

from __future__ import annotations

from itertools import product

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.acls import AclBinding, AclBindingFilter, delete_acls
from tidelog.plugins.client_commands.acls.entries import (
    entry_options,
    named_resources,
    refused,
    show_entries,
)
from tidelog.plugins.client_commands.options import json_option, with_broker

_EPILOG = """\b
Examples:
  tidelog acls remove --principal User:alice
  tidelog acls remove --principal User:bob --operation write --topic orders- --prefix
  tidelog acls remove --topic orders --json
"""


@click.command("remove", epilog=_EPILOG, short_help="Remove entries.")
@entry_options
@click.option("--deny", "permission", flag_value="deny", help="Only those that deny.")
@click.option("--allow", "permission", flag_value="allow", help="Only those that allow.")
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
    permission: str | None,
    as_json: bool,
    **names: tuple[str, ...],
) -> None:
    """Remove the entries that have all that is said, whatever else they have.

    A name is that of an entry: patterns that are about a resource of that name stay.
    """
    resources = named_resources(cluster=cluster, **names)
    if not (principals or resources):
        raise click.UsageError("Say whose entries (--principal), or about what, such as --topic.")
    filters = [
        AclBindingFilter(
            principal,
            operation,
            None if resource is None else resource.kind,
            None if resource is None else resource.name,
            ("prefixed" if prefix else "literal") if resource is not None else None,
            host,
            permission,
        )
        for principal, operation, resource in product(
            principals or (None,), operations or (None,), resources or (None,)
        )
    ]
    removed = set[AclBinding]()
    for outcome in client.run(delete_acls, filters).values():
        if isinstance(outcome, ClientError):
            raise refused(outcome) from outcome
        removed.update(outcome)
    show_entries(removed, as_json=as_json, nothing="There were no such entries.")
