"""Builder of a segment's metadata and index, from its batches in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from tidelog.kernel.seams.indexes import IndexBuilder, SegmentIndex


class SegmentBuilder:
    """Takes the batches of one segment in order, and samples index entries as appending does.

    `size` is the number of their bytes, `next_offset` the offset behind them. `max_timestamp_offset` is the
    last offset of the batch that brought `max_timestamp`, `indexed_position` the position of the newest index
    entry. `overflow_offset` is the base offset of the first batch that the segment's indexes cannot refer to,
    None without one.
    """

    __slots__ = (
        "_base_offset",
        "_index_builder",
        "_interval_bytes",
        "first_timestamp",
        "indexed_position",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "overflow_offset",
        "size",
    )

    def __init__(self, base_offset: int, interval_bytes: int, index_builder: IndexBuilder) -> None:
        """For a segment with that base offset and an index entry every `interval_bytes`."""
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._index_builder = index_builder
        self.size = 0
        self.next_offset = base_offset
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.indexed_position = 0
        self.overflow_offset: int | None = None

    def add(self, base_offset: int, last_offset: int, size: int, max_timestamp: int) -> None:
        """Take the next batch, of `size` bytes."""
        position = self.size
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            if self.overflow_offset is None:
                self.overflow_offset = base_offset
        elif position - self.indexed_position > self._interval_bytes:
            self._index_builder.add(last_offset, position, self.max_timestamp, self.max_timestamp_offset)
            self.indexed_position = position
        self.next_offset = last_offset + 1
        self.size = position + size

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and its offset, as indexes take them: -1 for an offset that is too far."""
        fits = self.max_timestamp_offset - self._base_offset <= MAX_RELATIVE_OFFSET
        return self.max_timestamp, self.max_timestamp_offset if fits else -1

    def finish_index(self) -> SegmentIndex:
        """Blocking: write the index; return it closed.

        Raises:
            OSError: the disk refused.
        """
        return self._index_builder.finish(*self.largest_timestamp)
