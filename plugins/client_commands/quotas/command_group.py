"""The group `tidelog quotas`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog quotas list
  tidelog quotas set --user alice producer_byte_rate=1048576
  tidelog quotas describe --user alice
  tidelog quotas delete --user alice producer_byte_rate
"""


@click.group(
    "quotas",
    cls=LazyGroup,
    package=__package__,
    names=["delete", "describe", "list", "set"],
    epilog=_EPILOG,
    short_help="List, set and delete quotas.",
)
def quotas() -> None:
    """List, set and delete quotas of users, client ids and addresses of a running cluster.

    Works with tidelog and with Apache Kafka.
    """
