"""`tidelog partitions describe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient, FoundOffset, TopicPartition
from tidelog.plugins.client.cluster import PartitionMetadata
from tidelog.plugins.client_commands.chosen_topics import ChosenTopic, chosen_topics, selected
from tidelog.plugins.client_commands.options import json_option, parse_time, with_broker
from tidelog.plugins.client_commands.output import show_table
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

_EPILOG = """\b
Examples:
  tidelog partitions describe orders
  tidelog partitions describe orders:0,3 returns --json
  tidelog partitions describe orders --at 2026-11-01T12:00:00Z
"""
_NUMBERS = ("PARTITION", "LEADER", "EPOCH", "EARLIEST", "LATEST", "AT")


@click.command("describe", epilog=_EPILOG, short_help="Show leaders, replicas and offsets.")
@click.argument("chosen", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", callback=chosen_topics)
@click.option(
    "--at",
    "time_ms",
    metavar="TIME",
    callback=parse_time,
    help="Also the offset of the first record from then on, such as 2026-11-01T12:00:00Z.",
)
@json_option
@with_broker
def command(client: BlockingClient, *, chosen: list[ChosenTopic], time_ms: int | None, as_json: bool) -> None:
    """Show partitions: leader with its epoch, replicas, the first offset and the next one.

    `-` stands for what is not known, and at a time for no record that is so new.
    """
    places = selected(client, chosen)
    found = client.metadata(sorted({place.topic for place in places})).topics
    columns = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
    if time_ms is not None:
        columns["at"] = time_ms
    offsets = {column: _offsets(client, places, timestamp) for column, timestamp in columns.items()}
    rows: list[dict[str, object]] = []
    for place in places:
        part = found[place.topic].partition(place.partition)
        # It was deleted meanwhile, and its topic created again with fewer.
        if part is not None:
            ends = {column: values[place] for column, values in offsets.items()}
            rows.append(_row(place, part) | ends)
    if as_json:
        print_json(rows)
    elif rows:
        show_table([key.upper() for key in rows[0]], [_texts(row) for row in rows], numbers=_NUMBERS)


def _row(place: TopicPartition, part: PartitionMetadata) -> dict[str, object]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "leader": part.leader if part.leader >= 0 else None,
        "epoch": part.leader_epoch if part.leader_epoch >= 0 else None,
        "replicas": list(part.replicas),
        "isr": list(part.isr),
    }


def _offsets(
    client: BlockingClient, places: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int | None]:
    outcomes = client.list_offsets(places, timestamp)
    return {
        place: outcome.offset if isinstance(outcome, FoundOffset) and outcome.offset >= 0 else None
        for place, outcome in outcomes.items()
    }


def _texts(row: Mapping[str, object]) -> list[str]:
    return [_text(each) for each in row.values()]


def _text(value: object) -> str:
    if value is None:
        return "-"
    return ",".join(map(str, cast("list[int]", value))) if isinstance(value, list) else str(value)
