"""`tidelog topics describe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient, ConfigValue, FoundOffset, TopicPartition
from tidelog.plugins.client.cluster import PartitionMetadata, TopicMetadata
from tidelog.plugins.client.errors import ClientError, UnsupportedByBroker
from tidelog.plugins.client_commands.options import json_option, raise_all, with_broker
from tidelog.plugins.client_commands.output import kafka_uuid, show_table
from tidelog.plugins.client_commands.topics.failures import not_found
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

_EPILOG = """\b
Examples:
  tidelog topics describe orders
  tidelog topics describe orders payments --json
"""
_NUMBERS = ("PARTITION", "LEADER", "EARLIEST", "LATEST", "SPAN")


Configs: TypeAlias = Mapping[str, Sequence[ConfigValue]]


@attrs.frozen
class _Details:
    """Offsets and configuration of topics; an offset is None when the broker answers with an error.

    `configs` lacks topics whose configuration the broker does not return.
    """

    earliest: Mapping[TopicPartition, int | None]
    latest: Mapping[TopicPartition, int | None]
    configs: Configs


@click.command("describe", epilog=_EPILOG, short_help="Describe topics and their partitions.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@with_broker
def command(client: BlockingClient, *, names: tuple[str, ...], as_json: bool) -> None:
    """Describe the topics NAME...: partitions with leader, replicas and offsets.

    LATEST is the offset that the next record gets. SPAN is LATEST minus EARLIEST; there are at most so many
    records, and fewer where compaction or transactions leave gaps.
    """
    metadata = client.metadata(list(dict.fromkeys(names)))
    details = _details_of(client, metadata.topics)
    if as_json:
        print_json([_as_json(topic, details) for topic in metadata.topics.values()])
    else:
        for index, topic in enumerate(metadata.topics.values()):
            _show(topic, details, first=index == 0)
    if metadata.errors:
        existing = client.metadata().topics
        raise_all([not_found(name, code, existing) for name, code in metadata.errors.items()], "topics")


def _details_of(client: BlockingClient, topics: Mapping[str, TopicMetadata]) -> _Details:
    """Request the offsets of partitions that have a leader, and the configuration of topics."""
    led = [
        TopicPartition(topic.name, part.index)
        for topic in topics.values()
        for part in topic.partitions
        if part.leader >= 0
    ]
    return _Details(
        {key: _offset(found) for key, found in client.list_offsets(led, EARLIEST_TIMESTAMP).items()},
        {key: _offset(found) for key, found in client.list_offsets(led, LATEST_TIMESTAMP).items()},
        _configs(client, list(topics)),
    )


def _configs(client: BlockingClient, names: Sequence[str]) -> Configs:
    if not names:
        return {}
    try:
        outcomes = client.describe_configs(names)
    except UnsupportedByBroker:
        return {}
    return {name: configs for name, configs in outcomes.items() if not isinstance(configs, ClientError)}


def _offset(found: FoundOffset | ClientError) -> int | None:
    return found.offset if isinstance(found, FoundOffset) else None


@attrs.frozen
class _Row:
    partition: PartitionMetadata
    earliest: int | None
    latest: int | None

    @property
    def span(self) -> int | None:
        return None if self.earliest is None or self.latest is None else self.latest - self.earliest


def _rows(topic: TopicMetadata, details: _Details) -> list[_Row]:
    keys = [TopicPartition(topic.name, part.index) for part in topic.partitions]
    return [
        _Row(part, details.earliest.get(key), details.latest.get(key))
        for part, key in zip(topic.partitions, keys, strict=True)
    ]


def _as_json(topic: TopicMetadata, details: _Details) -> dict[str, object]:
    configs = details.configs.get(topic.name)
    return {
        "name": topic.name,
        "id": kafka_uuid(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "partitions": [
            {
                "partition": row.partition.index,
                "leader": row.partition.leader if row.partition.leader >= 0 else None,
                "leader_epoch": row.partition.leader_epoch if row.partition.leader_epoch >= 0 else None,
                "replicas": row.partition.replicas,
                "isr": row.partition.isr,
                "earliest_offset": row.earliest,
                "latest_offset": row.latest,
                "span": row.span,
            }
            for row in _rows(topic, details)
        ],
        "config": None if configs is None else {config.name: config.value for config in configs},
        "own_config": None if configs is None else [config.name for config in configs if config.is_own],
    }


def _show(topic: TopicMetadata, details: _Details, *, first: bool) -> None:
    if not first:
        click.echo()
    internal = ", internal" if topic.is_internal else ""
    click.secho(f"{topic.name}", bold=True, nl=False)
    click.echo(f"  id {kafka_uuid(topic.topic_id)}, replication factor {topic.replication_factor}{internal}")
    header = ("PARTITION", "LEADER", "REPLICAS", "ISR", "EARLIEST", "LATEST", "SPAN")
    show_table(header, [_as_row(row) for row in _rows(topic, details)], numbers=_NUMBERS)
    click.echo(_configuration(details.configs.get(topic.name)))


def _configuration(configs: Sequence[ConfigValue] | None) -> str:
    """Return the keys that the topic itself sets, as one line."""
    if configs is None:
        return "configuration: not reported by this broker"
    own = [f"{config.name}={config.value}" for config in configs if config.is_own]
    return f"configuration: {', '.join(own) or 'none of its own'}"


def _as_row(row: _Row) -> tuple[str, ...]:
    part = row.partition
    return (
        str(part.index),
        str(part.leader) if part.leader >= 0 else "none",
        ",".join(map(str, part.replicas)),
        ",".join(map(str, part.isr)),
        *(_number(value) for value in (row.earliest, row.latest, row.span)),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
