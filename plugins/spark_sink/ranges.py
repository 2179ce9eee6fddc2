"""A range of offsets of a partition: what a task reads."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tidelog.kernel.seams.storage import TopicPartition


@attrs.frozen
class OffsetRange:
    """Offsets of a partition, `start` included and `stop` not."""

    partition: TopicPartition
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Return the number of offsets, which may be more than there are records."""
        return self.stop - self.start

    def split(self, parts: int) -> Iterator[OffsetRange]:
        """Yield ranges of about the same size, none of them empty."""
        start = self.start
        for part in range(parts):
            stop = start + (self.stop - start) // (parts - part)
            if stop > start:
                yield OffsetRange(self.partition, start, stop)
            start = stop
