"""The group `tidelog configs`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog configs describe topic orders
  tidelog configs describe broker 1 --all
  tidelog configs alter cluster --set log.retention.ms=86400000
  tidelog configs alter group shop --delete consumer.session.timeout.ms
"""


@click.group(
    "configs",
    cls=LazyGroup,
    package=__package__,
    names=["alter", "describe"],
    epilog=_EPILOG,
    short_help="Describe and alter the configuration of topics, brokers and groups.",
)
def configs() -> None:
    """Describe and alter the configuration of topics, brokers and groups of a running cluster.

    Works with tidelog and with Apache Kafka. `tidelog config` is about the configuration file of a broker.
    """
