"""The group `tidelog topics`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog topics create orders --partitions 3
  tidelog topics list
  tidelog topics describe orders --bootstrap-server broker-1:9092,broker-2:9092
  tidelog topics alter orders --config max.message.bytes=2000000
  tidelog topics delete orders
"""


@click.group(
    "topics",
    cls=LazyGroup,
    package=__package__,
    names=["alter", "create", "delete", "describe", "list"],
    epilog=_EPILOG,
    short_help="List, create, describe, alter, delete topics.",
)
def topics() -> None:
    """List, create, describe, alter and delete the topics of a running broker.

    Works with tidelog and with Apache Kafka.
    """
