"""The group `tidelog groups`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog groups list
  tidelog groups describe shop
  tidelog groups reset shop --topic orders --to-datetime 2026-11-01T00:00:00Z --dry-run
  tidelog groups export shop > offsets.csv
  tidelog groups delete shop
"""


@click.group(
    "groups",
    cls=LazyGroup,
    package=__package__,
    names=["delete", "delete-offsets", "describe", "export", "list", "reset"],
    epilog=_EPILOG,
    short_help="List and describe groups with their lag, reset and delete offsets.",
)
def groups() -> None:
    """List and describe the consumer groups of a running broker, reset, export and delete their offsets.

    Works with tidelog and with Apache Kafka.
    """
