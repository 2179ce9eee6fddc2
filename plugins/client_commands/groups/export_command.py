"""`tidelog groups export`."""

from __future__ import annotations

import csv
import sys

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.operations.group_offsets import NO_OFFSET, committed_offsets
from tidelog.plugins.client_commands.groups.failures import described
from tidelog.plugins.client_commands.options import with_broker

_EPILOG = """\b
Examples:
  tidelog groups export shop > offsets.csv
  tidelog groups reset shop --from-file offsets.csv
"""


@click.command("export", epilog=_EPILOG, short_help="Print the committed offsets of groups as CSV.")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@with_broker
def command(client: BlockingClient, *, names: tuple[str, ...]) -> None:
    """Print the committed offsets of the groups GROUP... as lines of group, topic, partition and offset.

    `tidelog groups reset --from-file` reads them, and so does Kafka's own kafka-consumer-groups.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for name in dict.fromkeys(names):
        described(client, name)
        for place, found in sorted(client.run(committed_offsets, name).items()):
            if found.offset != NO_OFFSET:
                writer.writerow((name, place.topic, place.partition, found.offset))
