"""A range of offsets of a partition: what a task reads."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import attrs

from tidelog.kernel.topic_partition import TopicPartition


@attrs.frozen
class OffsetRange:
    """Offsets of a partition, `start` included and `stop` not; of the topic with this id, None for any."""

    partition: TopicPartition
    start: int
    stop: int
    topic_id: UUID | None = None

    @property
    def size(self) -> int:
        """Return the number of offsets, which may be more than there are records."""
        return self.stop - self.start

    def is_of_other_topic(self, topic_id: UUID | None) -> bool:
        """Return whether `topic_id` is that of another topic; False if one of both ids is not known."""
        return None not in (self.topic_id, topic_id) and self.topic_id != topic_id

    def split(self, parts: int) -> Iterator[OffsetRange]:
        """Yield ranges of about the same size, none of them empty."""
        start = self.start
        for part in range(parts):
            stop = start + (self.stop - start) // (parts - part)
            if stop > start:
                yield attrs.evolve(self, start=start, stop=stop)
            start = stop
