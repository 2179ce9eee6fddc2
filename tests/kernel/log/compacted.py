"""Batches as compaction leaves them, and what a look-up by time has to find among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import attrs

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    pack_batch,
    parse_header,
)
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.record import Record, encode_record
from tidelog.kernel.testing import make_batch

from .parts import follow, open_partition

LeftKind = Literal["create time", "append time", "control"]
LEFT_KINDS: tuple[LeftKind, ...] = get_args(LeftKind)
SMALL_SEGMENTS = TopicConfig({"segment.bytes": 500})

FoundRecord = tuple[int, int]
"""Timestamp and offset."""


@attrs.frozen
class LeftBatch:
    """A batch of `spans` offsets of which only some records are left: offset delta -> timestamp.

    Its header promises at least the max timestamp `promised`, as one whose newest record is gone may.
    """

    kind: LeftKind
    codec: int
    spans: int
    left: Mapping[int, int]
    promised: int

    @property
    def max_timestamp(self) -> int:
        """That of the header."""
        return max(self.promised, *self.left.values()) if self.left else self.promised

    def records(self, base_offset: int) -> list[FoundRecord]:
        """What a reader finds in it, in the order of offsets."""
        in_order = sorted(self.left.items())
        stamped = self.kind == "append time"
        return [(self.max_timestamp if stamped else time, base_offset + delta) for delta, time in in_order]

    def encode(self, base_offset: int) -> bytearray:
        """Its bytes."""
        packed = bytearray()
        for delta, time in sorted(self.left.items()):
            record = Record(base_offset + delta, time, b"key", b"value")
            encode_record(packed, record, base_offset, self.promised)
        like = make_batch([], base_offset, last_offset_delta=self.spans - 1)
        attributes = {"create time": 0, "append time": TIMESTAMP_TYPE_BIT, "control": CONTROL_BIT}[self.kind]
        header = parse_header(like)._replace(
            attributes=attributes | self.codec,
            base_timestamp=self.promised,
            max_timestamp=self.max_timestamp,
            record_count=len(self.left),
        )
        assert len(like) == HEADER_BYTES
        return pack_batch(header, compress(self.codec, packed) if self.codec else packed)


def append_left(partition: UnifiedLog, batches: Sequence[LeftBatch]) -> list[FoundRecord]:
    """Put batches at the log's end as they are, and let readers see them; the records in them."""
    records: list[FoundRecord] = []
    follow(partition)
    for left in batches:
        records += left.records(partition.log_end_offset)
        partition.append_as_follower(left.encode(partition.log_end_offset))
    partition.advance_high_watermark(partition.log_end_offset)
    return records


def left_by_compaction(batches: Sequence[LeftBatch]) -> tuple[UnifiedLog, list[FoundRecord]]:
    """A partition in memory that has these batches in small segments, and its records."""
    partition = open_partition(config=SMALL_SEGMENTS)
    return partition, append_left(partition, batches)


def check_lookups(partition: UnifiedLog, records: Sequence[FoundRecord], timestamp_ms: int) -> None:
    """Compare look-ups with a search of every record from the log start on."""
    there = [record for record in records if record[1] >= partition.log_start_offset]
    found = partition.offset_for_timestamp(timestamp_ms)
    assert (found and found[:2]) == next((each for each in there if each[0] >= timestamp_ms), None)
    newest = partition.offset_of_max_timestamp()
    assert (newest and newest[:2]) == min(there, key=lambda each: (-each[0], each[1]), default=None)
