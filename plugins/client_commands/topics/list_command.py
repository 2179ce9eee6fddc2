"""`tidelog topics list`."""

from __future__ import annotations

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.cluster import TopicMetadata
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.output import kafka_uuid, show_table

_EPILOG = """\b
Examples:
  tidelog topics list
  tidelog topics list --all --json
  tidelog topics list --bootstrap-server broker-1:9092,broker-2:9092
"""


@click.command("list", epilog=_EPILOG, short_help="List the topics.")
@click.option("--all", "show_internal", is_flag=True, help="Also internal topics.")
@json_option
@with_broker
def command(client: BlockingClient, *, show_internal: bool, as_json: bool) -> None:
    """List the topics by name, with their number of partitions."""
    known = sorted(client.metadata().topics.values(), key=lambda topic: topic.name)
    shown = [topic for topic in known if show_internal or not topic.is_internal]
    if as_json:
        print_json([_as_json(topic) for topic in shown])
    elif shown:
        header = ("TOPIC", "PARTITIONS", *(("INTERNAL",) if show_internal else ()))
        show_table(header, [_as_row(topic, show_internal) for topic in shown], numbers=("PARTITIONS",))
    else:
        click.echo("There are no topics.", err=True)


def _as_row(topic: TopicMetadata, show_internal: bool) -> tuple[str, ...]:
    internal = ("yes" if topic.is_internal else "no",) if show_internal else ()
    return (topic.name, str(len(topic.partitions)), *internal)


def _as_json(topic: TopicMetadata) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": kafka_uuid(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "internal": topic.is_internal,
    }
