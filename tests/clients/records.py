"""A record as any client reads it, for comparison."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """What every client tells of a record; key and value are None for null."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def by_partition(records: list[Record]) -> list[Record]:
    """Partition after partition, each in the order in which it was read."""
    return sorted(records, key=lambda record: record.partition)
