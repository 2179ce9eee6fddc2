"""The group `tidelog users`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog users list
  tidelog users add alice --password-file /run/secrets/alice
  tidelog users change alice --password-env ALICE_PASSWORD --iterations 8192
  tidelog users delete alice
"""


@click.group(
    "users",
    cls=LazyGroup,
    package=__package__,
    names=["add", "change", "delete", "list"],
    epilog=_EPILOG,
    short_help="List, add, change and delete users of SCRAM.",
)
def users() -> None:
    """List, add, change and delete the users of SCRAM of a running cluster.

    Works with tidelog and with Apache Kafka, which get salted hashes and no password.
    """
