"""Partitions of a consumer: where it reads each, and what is fetched ahead of that."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.errors import ClientError

if TYPE_CHECKING:
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.fetched_cursor import FetchedCursor
    from tidelog.plugins.client.fetched import Fetched

NO_EPOCH: Final = -1
NO_REPLICA: Final = -1


class PartitionPosition:
    """State of one assigned partition.

    Attributes:
        position: the offset of the next record to return, None until it is known
        epoch: leader epoch of the last record returned, -1 when unknown
        committed: the position that was last committed, None for none
        version: number of times that the position was moved by something else than reading; what is fetched
            or looked up for an older one is dropped
        is_paused: nothing is fetched nor returned
        is_busy: a request that looks up or validates the position is on its way
        reset: where to begin instead of the committed offset: "earliest", "latest", a duration; None: there
        fetch_offset: where the next fetch begins, ahead of `position` by what is in `buffer`
        fetch_epoch: leader epoch of what was fetched last, -1 when unknown
        fetch_bytes: limit of a fetch, 0 for that of the settings, which a broker that cuts batches exceeds
        checked_epoch: leader epoch of the leader that has validated the position (KIP-320)
        replica: node to fetch from instead of the leader (KIP-392), -1 for the leader
        replica_until: when that has to be looked up again, on the clock of the engine
        retry_at: nothing is requested before that time
        failures: how often in a row requests for it have failed
        buffer: fetched data and errors, in order
        cursor: what is taken out of the buffer and not returned as a whole
        buffered_bytes: bytes of the data in `buffer` and `cursor`
        high_watermark, last_stable_offset, log_start_offset: of the last response, -1 before it
    """

    __slots__ = (
        "buffer",
        "buffered_bytes",
        "checked_epoch",
        "committed",
        "cursor",
        "epoch",
        "failures",
        "fetch_bytes",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "is_busy",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "position",
        "replica",
        "replica_until",
        "reset",
        "retry_at",
        "version",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: int | None = None
        self.epoch = NO_EPOCH
        self.committed: int | None = None
        self.version = 0
        self.is_paused = False
        self.is_busy = False
        self.reset: str | None = None
        self.fetch_offset = 0
        self.fetch_epoch = NO_EPOCH
        self.fetch_bytes = 0
        self.checked_epoch = NO_EPOCH
        self.replica = NO_REPLICA
        self.replica_until = 0.0
        self.retry_at = 0.0
        self.failures = 0
        self.buffer: deque[Fetched | ClientError] = deque()
        self.cursor: FetchedCursor | None = None
        self.buffered_bytes = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    @property
    def has_data(self) -> bool:
        """Return whether something can be returned, or raised."""
        return not self.is_paused and (self.cursor is not None or bool(self.buffer))

    @property
    def has_error(self) -> bool:
        """Return whether nothing more is fetched before an error was raised."""
        return bool(self.buffer) and isinstance(self.buffer[-1], ClientError)

    def drop_buffer(self) -> None:
        """Forget what was fetched ahead."""
        self.buffer.clear()
        self.cursor = None
        self.buffered_bytes = 0

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at an offset."""
        self.drop_buffer()
        self.version += 1
        self.position = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.checked_epoch = NO_EPOCH
        self.is_busy = False
        self.reset = None
        self.retry_at = 0.0

    def seek_to(self, reset: str | None) -> None:
        """Continue where `reset` says, or at the committed offset, once that is looked up."""
        self.seek(0)
        self.position = None
        self.reset = reset
