"""`tidelog partitions delete-records`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient, FoundOffset, TopicPartition
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.records import delete_records
from tidelog.plugins.client_commands.chosen_topics import ChosenTopic, chosen_topics, selected
from tidelog.plugins.client_commands.options import (
    CommandFailed,
    json_option,
    parse_time,
    raise_all,
    with_broker,
)
from tidelog.plugins.client_commands.output import show_table
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

_EPILOG = """\b
Examples:
  tidelog partitions delete-records orders:0 --before-offset 1000
  tidelog partitions delete-records orders --before-time 2026-11-01T12:00:00Z
  tidelog partitions delete-records orders returns --all --yes
"""
_ALL = -1
"""In place of an offset: everything that is committed."""


@click.command("delete-records", epilog=_EPILOG, short_help="Delete the oldest records of partitions.")
@click.argument("chosen", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", callback=chosen_topics)
@click.option("--before-offset", type=click.IntRange(min=0), metavar="OFFSET", help="All before this offset.")
@click.option(
    "--before-time",
    "time_ms",
    metavar="TIME",
    callback=parse_time,
    help="All before the first record from then on, such as 2026-11-01T12:00:00Z.",
)
@click.option("--all", "delete_all", is_flag=True, help="All that there are.")
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway.")
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    chosen: list[ChosenTopic],
    before_offset: int | None,
    time_ms: int | None,
    delete_all: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the oldest records of partitions, for good; the topics stay."""
    if [before_offset is not None, time_ms is not None, delete_all].count(True) != 1:
        raise click.UsageError("Say which records, in one way: --before-offset, --before-time or --all.")
    places = selected(client, chosen)
    if time_ms is not None:
        offsets = _first_from(client, places, time_ms)
    else:
        offsets = dict.fromkeys(places, _ALL if before_offset is None else before_offset)
    if not yes and sys.stdin.isatty():
        count = len(places)
        if not click.confirm(f"Delete records of {count} partition{'s' * (count != 1)} for good?", err=True):
            raise CommandFailed("Nothing was deleted.")
    outcomes = client.run(delete_records, offsets)
    left = {place: outcome for place, outcome in outcomes.items() if not isinstance(outcome, ClientError)}
    if as_json:
        print_json(
            [{"topic": place.topic, "partition": place.partition, "earliest": left[place]} for place in left]
        )
    elif left:
        rows = [(place.topic, str(place.partition), str(offset)) for place, offset in left.items()]
        show_table(("TOPIC", "PARTITION", "EARLIEST"), rows, numbers=("PARTITION", "EARLIEST"))
    failures = [_failure(place, each) for place, each in outcomes.items() if isinstance(each, ClientError)]
    raise_all(failures, "partitions")


def _first_from(
    client: BlockingClient, places: Sequence[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset of the first record from a time on, or `_ALL` if no record is so new."""
    found: dict[TopicPartition, int] = {}
    for place, outcome in client.list_offsets(places, time_ms).items():
        if not isinstance(outcome, FoundOffset):
            raise CommandFailed(f"The offset of that time cannot be looked up in {place}: {outcome}.")
        found[place] = outcome.offset if outcome.offset >= 0 else _ALL
    return found


def _failure(place: TopicPartition, error: ClientError) -> CommandFailed:
    if isinstance(error, ErrorResponse) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return CommandFailed(
            f"{place} has no such offset. `tidelog partitions describe {place.topic}` shows those there are."
        )
    if isinstance(error, ErrorResponse) and error.code is ErrorCode.POLICY_VIOLATION:
        return CommandFailed(
            f"No records of {place} can be deleted: the topic is only compacted. "
            "cleanup.policy=compact,delete allows it."
        )
    return CommandFailed(f"No records of {place} were deleted: {error}.")
