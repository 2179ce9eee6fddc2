"""The sink seam: committed records are written to other systems, such as files or a stream processor.

A plugin offers kinds of sinks; the configuration has a table `[sinks.KIND.NAME]` for each sink. Its `run` is
a task of the broker, and takes what has happened from its feed when it has time for it:

    async for changes in feed:           at most once in each turn of the event loop
        PartitionAdded(log)              a partition of one of its topics is there
        Committed(log, first, next)      records between these offsets are committed
        PartitionRemoved(log, ...)       it is gone

    async for chunk in log.read(first, next):
        chunk.batches                    whole batches, from memory or from files, without a socket

The feed waits for the sink and nothing waits for the feed: ranges that a sink has not taken yet become one,
so a slow sink costs neither memory nor time. Nothing of a feed outlives it: where a sink has got to is stored
by the sink itself, best together with what it delivers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import attrs

from tidelog.kernel.config import ConfigKey, SinkConfig
from tidelog.kernel.records.batch import BatchHeader
from tidelog.kernel.seams.broker import BrokerContext
from tidelog.kernel.seams.storage import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import SinkName

CHUNK_BYTES: Final = 1 << 20
"""What is read at once by default: large enough to be efficient, small enough to have many at once."""


class CommittedBatch(NamedTuple):
    """A batch of records as it is in the log, with its header; the CRC of `data` was verified.

    Of a log with messages of the formats 0 and 1 each message, with those that it wraps, has become a batch.
    """

    header: BatchHeader
    data: memoryview


class CommittedChunk(NamedTuple):
    """Consecutive batches of a log, and the offsets that they cover: `[first_offset, next_offset)`.

    Markers are not among them, nor with `read_committed` batches of aborted transactions; both leave gaps, as
    compaction does, so a chunk may have no batch at all. Batches are whole: the first one may begin below
    `first_offset`, and only the last one of a read may end above its `until`; `next_offset` is then its end.
    """

    first_offset: int
    next_offset: int
    batches: Sequence[CommittedBatch]


class CommittedLog(Protocol):
    """The committed part of one partition, for a sink.

    A topic that is created again under the same name has another `topic_id` and other logs.
    """

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        ...

    @property
    def topic_id(self) -> UUID:
        """The id of its topic."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read; retention and DeleteRecords raise it."""
        ...

    @property
    def end_offset(self) -> int:
        """The first offset that is not committed, by the sink's `isolation.level`."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset below which no change of leader loses a record."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open; at most the high watermark."""
        ...

    def read(
        self, offset: int, until: int | None = None, *, max_bytes: int = CHUNK_BYTES
    ) -> AsyncIterator[CommittedChunk]:
        """Iterate over what is committed from `offset` on, below `until` or the present end of the log.

        Chunks follow each other without a gap and have up to `max_bytes`, but at least one batch if there is
        one. One chunk is in memory at a time, and what is not in the page cache is read in a thread. Reading
        may be interrupted at any chunk, and several readers do not affect each other.

        Raises, while iterating:
            OffsetBelowLogStart: records from `offset` on were deleted; has the log start offset.
            OffsetOutOfRange: `offset` is above what is committed.
            CorruptBatch: the bytes on the disk are damaged.
            UnknownTopicOrPartition: the topic was deleted.
            StorageError: the disk refused, or the partition is offline.
        """
        ...

    def delivered(self, next_offset: int) -> None:
        """Report that the sink has delivered everything below `next_offset`, for statistics."""
        ...


class PartitionAdded(NamedTuple):
    """A partition of a topic of the sink: at the start, of a new topic, or added to a topic."""

    log: CommittedLog


class PartitionRemoved(NamedTuple):
    """A partition is gone: its topic was deleted, or else its log directory failed."""

    log: CommittedLog
    deleted: bool


class Committed(NamedTuple):
    """Records of a partition are committed: `[first_offset, next_offset)`.

    Of each partition, the first range of a feed begins at the log start offset, and each one where the range
    before ended. Offsets in it may be gaps, and may be deleted by the time they are read.
    """

    log: CommittedLog
    first_offset: int
    next_offset: int


SinkChange: TypeAlias = PartitionAdded | PartitionRemoved | Committed


class SinkFeed(Protocol):
    """The changes for one run of a sink, to be iterated over by one task.

    Yields sequences of changes, at least one each, in their order: a partition is added before its ranges
    and removed after them. When the broker stops, what is left is yielded, and the iteration ends. A sink is
    shown as starting until it begins to iterate.
    """

    def __aiter__(self) -> AsyncIterator[Sequence[SinkChange]]: ...

    async def __anext__(self) -> Sequence[SinkChange]: ...

    @property
    def stopping(self) -> bool:
        """Whether the broker stops: a sink with much to do ends at a point from which it can resume."""
        ...

    async def wait_stopping(self) -> None:
        """Wait until the broker stops, for a sink that waits for something else, too."""
        ...

    def report(self, **details: str | int | float) -> None:
        """Report what the sink does now, for `tidelog sinks` and statistics; it replaces the last report.

        It stays until the next run of the sink reports something.
        """
        ...

    @property
    def logs(self) -> Mapping[TopicPartition, CommittedLog]:
        """The partitions that were added and not removed, as far as the sink has taken the changes."""
        ...


class Sink(Protocol):
    """One configured sink."""

    async def run(self, feed: SinkFeed) -> None:
        """Deliver what the feed reports until it ends, which it does when the broker stops.

        Runs on the event loop, so work that waits for a device goes to a thread. When the feed has ended,
        `run` has the rest of `shutdown.timeout.ms`, and is then cancelled. An error is logged, and after
        `retry.backoff.ms` a new sink runs with a new feed. A sink that returns earlier is not run again.
        """
        ...


class SinkBroker(BrokerContext, Protocol):
    """The broker of a sink."""

    @property
    def listeners(self) -> Mapping[str, str]:
        """The `host:port` that each listener is bound to, by its name; empty before `Sink.run`."""
        ...


@attrs.frozen
class SinkContext:
    """What a kind of sink gets to create a sink: its name, its configuration, its broker."""

    name: SinkName
    config: SinkConfig
    broker: SinkBroker


class SinkKind(Protocol):
    """A kind of sink, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name by which the configuration chooses it: letters, digits, `_` and `-`."""
        ...

    @property
    def keys(self) -> Sequence[ConfigKey[Any]]:
        """Its keys, by short names; `ConfigKey.required` ones have to be set. Every sink has further ones."""
        ...

    def create(self, context: SinkContext) -> Sink:
        """Return a sink, once for each run; what it opens is opened by `run`.

        Raises:
            ConfigError: values do not fit each other, or name what cannot be used; the broker does not start.
        """
        ...
