"""From where to where partitions are read: what the options mean, in offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.consumer import Consumer


NO_END: Final = 2**63 - 1
"""In place of the offset before which reading ends."""


@attrs.frozen
class Start:
    """Where to begin: `value` is an offset, a number of records before the end, or a time in milliseconds."""

    kind: Literal["earliest", "latest", "offset", "last", "time"]
    value: int = 0


@attrs.frozen
class End:
    """Where to stop; with nothing set and without `is_followed` at the end that there is in the beginning.

    Attributes:
        is_followed: wait for new records
        offset: before this offset
        time_ms: before the first record that is not older, in milliseconds
    """

    is_followed: bool = False
    offset: int | None = None
    time_ms: int | None = None


def parse_start(_context: click.Context, _option: click.Parameter, given: str | None) -> Start | None:
    """Parse `earliest`, `latest`, an offset or, below 0, a number of records; the `callback` of an option."""
    match given:
        case None:
            return None
        case "earliest" | "beginning":
            return Start("earliest")
        case "latest" | "end":
            return Start("latest")
        case _:
            return _numbered(given)


def _numbered(given: str) -> Start:
    try:
        number = int(given)
    except ValueError:
        raise click.BadParameter(
            f"{given!r} is neither earliest nor latest, nor an offset such as 10, nor -10 for the last ten."
        ) from None
    return Start("last", -number) if number < 0 else Start("offset", number)


def starts_of(
    consumer: Consumer, partitions: Iterable[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """Return the first offset to read of each partition, within its log."""
    firsts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    match start.kind:
        case "earliest":
            return firsts
        case "latest":
            return ends
        case "time":
            return _offsets_of_time(consumer, ends, start.value)
        case "offset":
            return {place: min(max(firsts[place], start.value), ends[place]) for place in firsts}
        case "last":
            return {place: max(firsts[place], ends[place] - start.value) for place in firsts}


def ends_of(
    consumer: Consumer, partitions: Iterable[TopicPartition], end: End, now_ms: float
) -> dict[TopicPartition, int]:
    """Return the offset before which reading ends of each partition, `NO_END` for one that is followed."""
    now = consumer.end_offsets(partitions)
    if end.time_ms is not None and end.time_ms <= now_ms:
        return _offsets_of_time(consumer, now, end.time_ms)
    limit = NO_END if end.offset is None else end.offset
    return {place: limit if end.is_followed else min(limit, offset) for place, offset in now.items()}


def _offsets_of_time(
    consumer: Consumer, ends: Mapping[TopicPartition, int], time_ms: int
) -> dict[TopicPartition, int]:
    found = consumer.offsets_for_times(dict.fromkeys(ends, time_ms))
    return {place: ends[place] if each is None else each.offset for place, each in found.items()}
