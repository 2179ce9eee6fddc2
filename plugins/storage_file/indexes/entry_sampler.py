"""Choosing the batches of a segment that get an index entry, as appending chose them."""

from __future__ import annotations

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET, IndexBuilder, SegmentIndex


class EntrySampler:
    """Takes the batches of one segment in order and hands a builder those that are due for an entry.

    `overflow_offset` is the base offset of the first batch that the segment's indexes cannot refer to, None
    without one.
    """

    __slots__ = (
        "_base_offset",
        "_builder",
        "_interval_bytes",
        "indexed_position",
        "max_timestamp",
        "max_timestamp_offset",
        "overflow_offset",
    )

    def __init__(self, base_offset: int, interval_bytes: int, builder: IndexBuilder) -> None:
        """For a segment with that base offset and an entry every `interval_bytes`."""
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._builder = builder
        self.indexed_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.overflow_offset: int | None = None

    def add(self, base_offset: int, last_offset: int, position: int, max_timestamp: int) -> None:
        """Take the batch that starts at `position`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            if self.overflow_offset is None:
                self.overflow_offset = base_offset
        elif position - self.indexed_position > self._interval_bytes:
            self._builder.add(last_offset, position, self.max_timestamp, self.max_timestamp_offset)
            self.indexed_position = position

    def finish(self) -> SegmentIndex:
        """Blocking: the index, closed.

        Raises:
            OSError: the disk refused.
        """
        fits = self.max_timestamp_offset - self._base_offset <= MAX_RELATIVE_OFFSET
        return self._builder.finish(self.max_timestamp, self.max_timestamp_offset if fits else -1)
