"""Where a query begins and ends: offsets, timestamps, or the ends of the logs, as the options say.

Of the options for one end a timestamp for all partitions comes first, then timestamps by partition, then
offsets. Source: Spark's "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.positions import EARLIEST, LATEST, Positions, parse_positions

_NAMES = {"earliest": EARLIEST, "latest": LATEST}


@attrs.frozen
class OffsetLimit:
    """An offset for each partition, or one of `EARLIEST` and `LATEST` for all of them."""

    option: str
    everywhere: int | None
    offsets: Positions


@attrs.frozen
class TimestampLimit:
    """Of each partition the first record with at least this timestamp (ms): one for all, or one for each.

    Where there is no such record it is the end of the log, or an error with `must_match`.
    """

    option: str
    everywhere: int | None
    timestamps: Mapping[TopicPartition, int]
    must_match: bool


Limit: TypeAlias = OffsetLimit | TimestampLimit


@attrs.frozen
class LimitOptions:
    """Names of the options for one end of a query, and what it is without any of them."""

    timestamp: str
    offsets_by_timestamp: str
    offsets: str
    default: int


STREAM_START = LimitOptions("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", LATEST)
BATCH_START = attrs.evolve(STREAM_START, default=EARLIEST)
BATCH_END = LimitOptions("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", LATEST)


def parse_limit(options: Mapping[str, str], names: LimitOptions, *, must_match: bool) -> Limit:
    """Read the options for one end.

    Raises:
        InvalidOption: a value is malformed.
    """
    if (text := options.get(names.timestamp)) is not None:
        return TimestampLimit(names.timestamp, _timestamp(names.timestamp, text), {}, must_match)
    if (text := options.get(names.offsets_by_timestamp)) is not None:
        timestamps = parse_positions(names.offsets_by_timestamp, text, least=0)
        return TimestampLimit(names.offsets_by_timestamp, None, timestamps, must_match)
    text = options.get(names.offsets)
    if text is None:
        return OffsetLimit(names.offsets, names.default, {})
    if text.strip().lower() in _NAMES:
        return OffsetLimit(names.offsets, _NAMES[text.strip().lower()], {})
    return OffsetLimit(names.offsets, None, parse_positions(names.offsets, text, least=EARLIEST))


def refuse_value(limit: Limit, refused: int, what: str) -> None:
    """Refuse `EARLIEST` or `LATEST` where it makes no sense.

    Raises:
        InvalidOption: it is the limit of all or of one partition.
    """
    if isinstance(limit, OffsetLimit) and refused in (limit.everywhere, *limit.offsets.values()):
        raise InvalidOption(f"the option {limit.option} cannot be {what} in a batch query")


def _timestamp(option: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise InvalidOption(
            f"the option {option} has to be milliseconds since the epoch, such as 1700000000000, not {text!r}"
        )
    return value
