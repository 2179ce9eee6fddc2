"""The group `tidelog partitions`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog partitions describe orders
  tidelog partitions describe orders:0,3 --at 2026-11-01T12:00:00Z
  tidelog partitions add orders 6
  tidelog partitions delete-records orders:0 --before-offset 1000
"""


@click.group(
    "partitions",
    cls=LazyGroup,
    package=__package__,
    names=["add", "delete-records", "describe"],
    epilog=_EPILOG,
    short_help="Describe partitions and their offsets, add partitions, delete records.",
)
def partitions() -> None:
    """Describe partitions with leaders and offsets, add some to a topic, delete records from their beginning.

    Works with tidelog and with Apache Kafka.
    """
