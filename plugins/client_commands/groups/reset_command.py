"""`tidelog groups reset`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import click

from tidelog.kernel.cli.tables import print_json
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.group_offsets import (
    NO_OFFSET,
    GroupOffset,
    commit_offsets,
    committed_offsets,
)
from tidelog.plugins.client.operations.groups import describe_groups
from tidelog.plugins.client.operations.offsets import FoundOffset
from tidelog.plugins.client_commands.chosen_topics import ChosenTopic, chosen_topics, selected
from tidelog.plugins.client_commands.groups.failures import inactive
from tidelog.plugins.client_commands.groups.targets import (
    KnownOffsets,
    Target,
    offset_for,
    read_offsets,
)
from tidelog.plugins.client_commands.options import (
    CommandFailed,
    json_option,
    parse_duration,
    parse_time,
    with_broker,
)
from tidelog.plugins.client_commands.output import show_table
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

_EPILOG = """\b
Examples:
  tidelog groups reset shop --topic orders --to-earliest
  tidelog groups reset shop --topic orders:0,3 --to-offset 1200 --dry-run
  tidelog groups reset shop --all-topics --to-datetime 2026-11-01T00:00:00Z
  tidelog groups reset shop --all-topics --by-duration 2h30m --yes
  tidelog groups reset shop --topic orders --shift-by -100
  tidelog groups reset shop --from-file offsets.csv
"""


@attrs.frozen
class _Move:
    """The offset of a partition before and after; None before if nothing was committed."""

    partition: TopicPartition
    before: int | None
    after: int


@click.command("reset", epilog=_EPILOG, short_help="Set the committed offsets of a group.")
@click.argument("group")
@click.option(
    "--topic",
    "selections",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    callback=chosen_topics,
    help="A topic, or some of its partitions; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="All partitions that have a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="OFFSET", help="To this offset.")
@click.option(
    "--to-datetime",
    "time_ms",
    metavar="TIME",
    callback=parse_time,
    help="To the first record from then on, such as 2026-11-01T12:00:00Z; without a zone it is UTC.",
)
@click.option(
    "--by-duration",
    "duration_ms",
    metavar="DURATION",
    callback=parse_duration,
    help="To the first record since so long ago, such as 2h30m, 7d or PT2H30M.",
)
@click.option("--shift-by", type=int, metavar="N", help="By so many records, backwards if it is negative.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="To what `tidelog groups export` has written.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be set.")
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway.")
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    group: str,
    selections: list[ChosenTopic],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    time_ms: int | None,
    duration_ms: int | None,
    shift_by: int | None,
    from_file: Path | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Set where GROUP, which has no members now, reads on; a group that does not exist is created.

    An offset before the first or behind the last record becomes that one.
    """
    given = {
        "earliest": 0 if to_earliest else None,
        "latest": 0 if to_latest else None,
        "offset": to_offset,
        "time": time_ms,
        "since": duration_ms,
        "shift": shift_by,
    }
    targets = [_target(kind, value) for kind, value in given.items() if value is not None]
    _check_usage(len(targets), has_file=from_file is not None, selections=bool(selections) + all_topics)
    _check_inactive(client, group)
    committed = _committed(client, group)
    if from_file is not None:
        offsets = read_offsets(from_file, group)
        by_place = {place: Target("offset", offset) for place, offset in offsets.items()}
    else:
        places = list(committed) if all_topics else selected(client, selections)
        by_place = dict.fromkeys(places, targets[0])
    if not by_place:
        raise CommandFailed(
            f"Group {group!r} has no committed offsets. --topic TOPIC names what it is to read."
        )
    moves = _moves(client, by_place, committed)
    if not dry_run:
        _confirm(group, moves, asks=not yes and sys.stdin.isatty())
        _commit(client, group, moves)
    _show(moves, done=not dry_run, as_json=as_json)


def _target(kind: str, value: int) -> Target:
    match kind:
        case "earliest" | "latest" | "offset" | "time" | "shift":
            return Target(kind, value)
        case "since":
            # Negative times have another meaning for brokers.
            return Target("time", max(0, time.time_ns() // 1_000_000 - value))
        case _:
            raise AssertionError(kind)


def _check_usage(targets: int, *, has_file: bool, selections: int) -> None:
    """Check that one target is given, and one way to name partitions unless a file does."""
    if targets + has_file != 1:
        raise click.UsageError(
            "Say where to, in one way: --to-earliest, --to-latest, --to-offset, --to-datetime, "
            "--by-duration, --shift-by or --from-file."
        )
    if has_file and selections:
        raise click.UsageError("A file names the partitions itself: leave out --topic and --all-topics.")
    if not has_file and selections != 1:
        raise click.UsageError("Say which partitions: --topic TOPIC, or --all-topics.")


def _check_inactive(client: BlockingClient, group: str) -> None:
    found = client.run(describe_groups, [group])[group]
    if isinstance(found, ErrorResponse) and found.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return
    if isinstance(found, ClientError):
        raise found
    inactive(found)


def _committed(client: BlockingClient, group: str) -> dict[TopicPartition, int]:
    try:
        found = client.run(committed_offsets, group)
    except ErrorResponse as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {}
    return {place: each.offset for place, each in sorted(found.items()) if each.offset != NO_OFFSET}


def _moves(
    client: BlockingClient,
    targets: Mapping[TopicPartition, Target],
    committed: Mapping[TopicPartition, int],
) -> list[_Move]:
    places = sorted(targets)
    earliest = _offsets(client, dict.fromkeys(places, EARLIEST_TIMESTAMP))
    latest = _offsets(client, dict.fromkeys(places, LATEST_TIMESTAMP))
    times = {place: target.value for place, target in targets.items() if target.kind == "time"}
    at_time = _offsets(client, times) if times else {}
    moves: list[_Move] = []
    for place in places:
        found = at_time.get(place, NO_OFFSET)
        known = KnownOffsets(
            committed.get(place),
            earliest[place],
            latest[place],
            None if found == NO_OFFSET else found,
        )
        after = offset_for(targets[place], known)
        if after is None:
            raise CommandFailed(f"{place} cannot be shifted: the group has committed nothing there.")
        moves.append(_Move(place, committed.get(place), after))
    return moves


def _offsets(client: BlockingClient, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for place, outcome in client.list_offsets(list(times), times).items():
        if not isinstance(outcome, FoundOffset):
            raise CommandFailed(f"The offsets of {place} cannot be looked up: {outcome}.")
        found[place] = outcome.offset
    return found


def _confirm(group: str, moves: Sequence[_Move], *, asks: bool) -> None:
    if not asks:
        return
    _show(moves, done=False, as_json=False)
    if not click.confirm(f"Set these offsets of group {group}?", err=True):
        raise CommandFailed("Nothing was changed.")


def _commit(client: BlockingClient, group: str, moves: Sequence[_Move]) -> None:
    outcomes = client.run(commit_offsets, group, {move.partition: GroupOffset(move.after) for move in moves})
    for place, outcome in outcomes.items():
        if isinstance(outcome, ErrorResponse) and outcome.code is ErrorCode.UNKNOWN_MEMBER_ID:
            raise CommandFailed(
                f"A consumer has joined group {group!r} meanwhile: stop it, then repeat the command."
            ) from outcome
        if outcome is not None:
            raise CommandFailed(f"The offset of {place} was not set: {outcome}.") from outcome


def _show(moves: Sequence[_Move], *, done: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "topic": move.partition.topic,
                    "partition": move.partition.partition,
                    "before": move.before,
                    "after": move.after,
                    "set": done,
                }
                for move in moves
            ]
        )
        return
    rows = [
        (
            move.partition.topic,
            str(move.partition.partition),
            "-" if move.before is None else str(move.before),
            str(move.after),
        )
        for move in moves
    ]
    numbers = ("PARTITION", "BEFORE", "AFTER")
    show_table(("TOPIC", *numbers), rows, numbers=numbers)
