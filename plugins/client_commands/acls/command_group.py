"""The group `tidelog acls`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog acls list --topic orders
  tidelog acls add --principal User:alice --operation read --topic orders --group billing
  tidelog acls add --principal User:bob --operation write --topic orders- --prefix
  tidelog acls remove --principal User:alice
"""


@click.group(
    "acls",
    cls=LazyGroup,
    package=__package__,
    names=["add", "list", "remove"],
    epilog=_EPILOG,
    short_help="List, add and remove access control entries.",
)
def acls() -> None:
    """List, add and remove access control entries of a running cluster.

    Works with tidelog and with Apache Kafka, if the broker has an authorizer that goes by such entries.
    """
