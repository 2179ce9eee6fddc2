"""What the log of a partition takes and returns, and how a reader waits for what it gets.

The log itself is `tidelog.kernel.log.UnifiedLog`, which plugins get by `BrokerContext.replicas`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple, Protocol

NO_LEADER_EPOCH = -1


class Isolation(enum.IntEnum):
    """How far a consumer may read (the isolation level of the protocol)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class AppendOrigin(enum.Enum):
    """The origin of a batch, which decides what is checked (Apache Kafka's class of that name)."""

    CLIENT = enum.auto()
    COORDINATOR = enum.auto()
    """A coordinator writes for a producer: batches have no sequence, and their records are not checked."""


class AppendResult(NamedTuple):
    """The offsets of an appended batch; `log_append_time_ms` is -1 unless the topic stamps LogAppendTime.

    With `flush_due` the batch may only be acknowledged after `UnifiedLog.wait_flushed`.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    flush_due: bool = False


class LastBatch(NamedTuple):
    """The last thing that is known of an active producer: its last record's offset, None without any."""

    offset: int | None
    epoch: int


class TimestampOffset(NamedTuple):
    """A record's timestamp, its offset and the leader epoch that wrote it."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class AppendWaiter:
    """A waiting reader: calls `wake` once its partitions have grown by `missing_bytes` together."""

    __slots__ = ("_missing", "_wake")

    def __init__(self, missing_bytes: int, wake: Callable[[], None]) -> None:
        self._missing = missing_bytes
        self._wake = wake

    def grew(self, size_bytes: int) -> None:
        """Count bytes that readers can see now."""
        self._missing -= size_bytes
        if self._missing <= 0:
            self._wake()

    def abandon(self) -> None:
        """Wake at once, since the partition takes no more records."""
        self._missing = 0
        self._wake()


class LogWatcher(Protocol):
    """Is notified of each change of what readers of a partition can see, until it is removed.

    Unlike an `AppendWaiter` it may stay at a partition for long, and counts the bytes of either isolation.
    It is called on the thread that made the change, which is that of the event loop but for truncation.
    """

    def moved(self, uncommitted_bytes: int, committed_bytes: int) -> None:
        """Note that an offset of the log has another value.

        So many bytes more than before can be seen by readers of uncommitted and of committed records. An
        offset may also have changed without any.
        """
        ...

    def abandon(self) -> None:
        """Note that there is nothing to wait for: the partition went offline, or the broker stops."""
        ...
