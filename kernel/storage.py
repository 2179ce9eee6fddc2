"""The storage seam: what a storage backend hands over and what the kernel asks of it.

Storage owns bytes: segments, rolling, indexes, flushing, recovery of torn tails, files beside the log. It
knows nothing of producers, watermarks or requests. The kernel owns the semantics above it
(`tidelog.kernel.partition`) and is the same for every backend.

Threads: `PartitionStore.append` and `read` are called on the event loop and must not wait for a device; a
read that would have to raises `WouldBlock` and is repeated with `wait=True` in a thread. Everything that is
`async` may take its time. All other synchronous methods are cheap unless their docstring says "blocking",
then the kernel calls them in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import attrs

from tidelog.kernel.load_progress import LoadProgress
from tidelog.kernel.records.batch import Buffer

if TYPE_CHECKING:
    from tidelog.kernel.config import Config, TopicConfig
    from tidelog.kernel.indexes import IndexFormat
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.tasks import BackgroundTasks


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class WouldBlock(Exception):
    """The bytes asked for are not in memory; ask again in a thread with `wait=True`."""


class OpenFile(Protocol):
    """A file that stays readable for as long as somebody holds this object, even when it was deleted."""

    def fileno(self) -> int:
        """The descriptor, for `sendfile` and `pread`."""
        ...

    def resident(self, position: int, size: int) -> bool:
        """Whether these bytes seem to be in memory, so that sending them waits for no device; cheap."""
        ...

    def prefetch(self, position: int, size: int) -> None:
        """Blocking: bring these bytes into memory."""
        ...


@attrs.frozen
class FileRegion:
    """`size` bytes of a file from `position` on: what `sendfile` can send without copying."""

    file: OpenFile
    position: int
    size: int


Region: TypeAlias = bytes | memoryview | FileRegion


@attrs.frozen
class LogSlice:
    """A run of the log's bytes, as one or more regions: whole batches, but the last may be cut short.

    All offsets in it are below `end_offset`, which may be further than its last batch.
    """

    regions: Sequence[Region]
    size: int
    end_offset: int = 0


EMPTY_SLICE = LogSlice((), 0)


def region_bytes(region: Region) -> bytes | memoryview:
    """Blocking: what a region stands for."""
    if isinstance(region, FileRegion):
        return os.pread(region.file.fileno(), region.size, region.position)
    return region


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its producer, its first offset and that of its marker.

    `last_stable_offset` is what it was when the marker had been written: no transaction that is decided later
    has anything below it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class SegmentView(NamedTuple):
    """What policies and lookups may know of a segment; times are milliseconds since the epoch."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp: int
    last_modified_ms: int


class SegmentDraft(Protocol):
    """A segment that is written anew, to take the place of others; nobody reads it before it does.

    Its methods are blocking, and called in one thread at a time.
    """

    @property
    def base_offset(self) -> int:
        """Where it begins."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset behind its last batch, `base_offset` without one."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        ...

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch.

        Raises:
            ValueError: the offsets do not follow those that are there.
            InvalidRecord: they are too far from the segment's base offset.
            OSError: the disk refused; only `discard` makes sense now.
        """
        ...

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """As `PartitionStore.add_aborted`, for markers in this segment."""
        ...

    def discard(self) -> None:
        """Take it away instead of replacing anything with it."""
        ...


class PartitionStore(Protocol):
    """The bytes of one partition.

    Offsets grow strictly; there is always at least one segment. After an `OSError` from `append` the store is
    as if that append had not been.
    """

    @property
    def log_start_offset(self) -> int:
        """The first offset that is still there."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next batch gets."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        ...

    @property
    def durable_offset(self) -> int:
        """What lies below survives the loss of power, as far as this store can make anything do so.

        After a process was killed that is less than the log's end, until a flush.
        """
        ...

    @property
    def aborted_known_until(self) -> int:
        """Of aborted transactions whose marker lies below this offset none is missing, after opening.

        The kernel finds the others in the log and adds them again.
        """
        ...

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """Add one batch whose header is stamped; its bytes are in the page cache when this returns.

        Rolls to a new segment first when the batch calls for one, and then returns True.

        Raises:
            BatchTooLarge: the batch is larger than a segment may be.
            ValueError: the offsets do not follow those that are there.
            OSError: the disk refused; nothing was appended.
        """
        ...

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """Bytes from the batch that holds `offset` up to `max_bytes`, below `limit_offset`.

        The first batch comes whole even if it is larger than `max_bytes`; no batch whose base offset is at or
        above `limit_offset` is in the slice. `offset == limit_offset` gives an empty slice. The caller has
        checked `log_start_offset <= offset <= limit_offset <= log_end_offset`. When `offset` lies in a gap
        (compaction), the slice starts at the next batch.

        Raises:
            WouldBlock: the position cannot be found without waiting for the disk (never with `wait=True`).
        """
        ...

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Remember a transaction whose marker is in the log; markers come in the order of their offsets.

        One that does not come behind the last one of its segment is known already and left out.

        Raises:
            OSError: the disk refused; nothing was added.
        """
        ...

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Aborted transactions that overlap `[from_offset, to_offset)`, by the offsets of their markers.

        An entry whose last stable offset is at or above `to_offset` ends the search: behind it there are
        none. Truncating and deleting take with them what has its marker in what goes.

        Raises:
            WouldBlock: the disk has to be waited for (never with `wait=True`).
        """
        ...

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """Blocking: the first batch whose max timestamp is `timestamp_ms` or later, whole; None if none."""
        ...

    def batch_of_max_timestamp(self) -> bytes | None:
        """Blocking: the first batch that has the log's largest max timestamp; None in an empty log."""
        ...

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Blocking: headers of all batches from the one that holds `from_offset`, in order."""
        ...

    def segments(self) -> Sequence[SegmentView]:
        """All segments, oldest first; the last one is the active one."""
        ...

    def configure(self, config: TopicConfig) -> None:
        """Take a changed topic configuration into use, without a restart."""
        ...

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop every batch that holds `offset` or a later one; keep at least one segment.

        The log then ends behind the last batch of what is now its active segment, or where that segment
        begins if it is empty. Below the first base offset, the log is emptied and begins anew at `offset`.
        Nothing is appended meanwhile.
        """
        ...

    def raise_log_start(self, offset: int) -> None:
        """Make `offset` the first that is still there, if it is above; remembered by a clean stop.

        Batches below it stay until `delete_segments_before`; the caller has checked that it is not beyond the
        log's end.
        """
        ...

    def delete_segments_before(self, offset: int) -> int:
        """Blocking: drop segments that lie wholly below `offset`, never the active one; how many went."""
        ...

    def draft_segment(self, base_offset: int) -> SegmentDraft:
        """Blocking: begin to write a segment anew, as compaction does.

        Raises:
            OSError: the disk refused.
        """
        ...

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Blocking: put drafts in the place of the segments with the base offsets `replaced`.

        These follow each other, the active one is not among them, and the first draft begins where they do. A
        crash leaves all of the old or all of the new. A draft without batches leaves nothing, except at the
        beginning of the log. Offsets that nobody holds any more are a gap. The files of the old segments stay
        for `file.delete.delay.ms`.

        Raises:
            ValueError: the drafts do not fit there, or a segment is gone meanwhile.
            OSError: the disk refused; the old segments are there still. When that came too late, the
                partition takes no more appends, and the next start puts the new ones in place.
        """
        ...

    def flush(self) -> int:
        """Blocking: make all that was appended so far durable; the offset up to which it is."""
        ...

    def side_files(self) -> Sequence[str]:
        """Names of the files beside the log (`*.snapshot`, `leader-epoch-checkpoint`), sorted."""
        ...

    def read_side_file(self, name: str) -> bytes | None:
        """Content of a file beside the log, None when it is not there."""
        ...

    def write_side_file(self, name: str, content: bytes) -> None:
        """Blocking: replace a file beside the log atomically and durably."""
        ...

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """Blocking: remove a file beside the log; no error when it is not there.

        With `durable` it is gone for good, otherwise a loss of power may bring it back.
        """
        ...

    def close(self) -> None:
        """Blocking: flush, trim and close; the last call. Regions handed out stay readable."""
        ...


@attrs.frozen
class TopicRecord:
    """What is remembered of a topic: its id, its number of partitions and its configuration overrides.

    `leader_epochs` are those that the partitions are led in, as far as the store remembers them. `adopted`:
    the topic was found as bare directories, with nothing to tell how long its data is to be kept; nothing of
    it is deleted or compacted until somebody looked, which changing its configuration shows.
    """

    name: str
    topic_id: UUID
    partitions: int
    config: dict[str, str] = attrs.field(factory=dict[str, str])
    leader_epochs: tuple[int, ...] = attrs.field(default=(), eq=False)
    adopted: bool = False


class BrokerRegistration(NamedTuple):
    """How this broker makes itself known: listener name → address that clients are told, and its rack."""

    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None


class MetadataStore(Protocol):
    """The durable registry of topics, of the cluster's id and of the producer ids that were given out."""

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64, made when the storage was first used."""
        ...

    def topics(self) -> Sequence[TopicRecord]:
        """All topics."""
        ...

    async def put_topic(self, record: TopicRecord) -> None:
        """Add a topic, or change it: its configuration, more partitions, later epochs; durable on return."""
        ...

    async def remove_topic(self, name: str) -> None:
        """Forget a topic; durable when it returns."""
        ...

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """What was set for a broker while it ran, or with None for all brokers."""
        ...

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """Replace what `broker_config` gives; durable on return."""
        ...

    async def allocate_producer_ids(self, count: int) -> range:
        """Producer ids that were never given out before, durable before they are returned."""
        ...

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Note that this broker is about to serve clients, and where; durable on return."""
        ...


def _told_nobody(partitions: Sequence[TopicPartition], reason: str) -> None:
    """Where nobody serves partitions, nobody has to know."""


def _no_high_watermarks() -> Mapping[TopicPartition, int]:
    """Where nobody reads, nothing is committed."""
    return {}


def _halt_nothing(reason: str) -> None:
    """Where no broker runs, none has to end."""


@attrs.frozen
class StorageContext:
    """What the kernel lends a backend; `tasks` are running when `open` is called.

    `index_formats` are those that plugins offer, by name. `progress` is to be told how far opening is.
    On the event loop, `partitions_failed(partitions, reason)` tells that the place of their data failed and
    `halt(reason)` that nothing can be served any more. `high_watermarks()` are those of all partitions, also
    after they were closed.
    """

    config: Config
    node_id: int
    tasks: BackgroundTasks
    now_ms: Callable[[], int]
    index_formats: Mapping[str, IndexFormat] = attrs.field(factory=dict[str, "IndexFormat"])
    progress: LoadProgress = attrs.Factory(LoadProgress)
    partitions_failed: Callable[[Sequence[TopicPartition], str], None] = _told_nobody
    halt: Callable[[str], None] = _halt_nothing
    high_watermarks: Callable[[], Mapping[TopicPartition, int]] = _no_high_watermarks


class PartitionSpec(NamedTuple):
    """A partition to open."""

    topic_partition: TopicPartition
    topic_id: UUID
    config: TopicConfig


class StoredPartition(NamedTuple):
    """A partition in a log directory; `offset_lag` is how far a copy that is to replace it is behind it."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


class LogDirectoryView(NamedTuple):
    """A place of partitions; sizes are of its file system, in bytes, -1 when unknown.

    `failure` tells why it is offline, None: it is not.
    """

    path: str
    partitions: Sequence[StoredPartition]
    total_bytes: int = -1
    usable_bytes: int = -1
    failure: str | None = None


class Storage(Protocol):
    """One opened storage: all partitions and the metadata of one broker."""

    @property
    def metadata(self) -> MetadataStore:
        """The registry; usable after `open`."""
        ...

    @property
    def clean_start(self) -> bool:
        """Whether the last user closed it properly (True for a new one), known after `open`."""
        ...

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        """Partitions that cannot be served since the place of their data failed, and why.

        `open_partitions` gives stores for them, which are empty and refuse everything.
        """
        ...

    async def open(self) -> None:
        """Lock it, read its metadata.

        Raises:
            ConfigError: its place cannot be used; the message says why and what to do.
        """
        ...

    def check_topic(self, config: TopicConfig) -> None:
        """Make sure that a topic can be kept as its configuration asks for, before it is made or changed.

        Raises:
            InvalidTopicConfig: it cannot.
        """
        ...

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """Open partitions, creating those that are not there, recovering those that need it.

        `progress` is called on the event loop with the number of partitions that are done. When one fails,
        none is open, and none was created.

        Raises:
            StorageError: a partition is open already, or its place belongs to something else.
            OSError: the disk refused.
        """
        ...

    async def set_strays_aside(self) -> None:
        """All partitions of all topics were opened: set aside, and keep, what is there of others."""
        ...

    async def log_directories(self) -> Sequence[LogDirectoryView]:
        """The places of partitions, offline ones too; none for a storage without such places."""
        ...

    async def move_partition(self, partition: TopicPartition, path: str) -> None:
        """Begin to move an open partition to another log directory, while it is used.

        Asking again is no error. It goes on in the background; moving it back to where it is ends that.

        Raises:
            LogDirNotFound: `path` is no log directory.
            StorageError: that log directory, or the partition, is offline.
            OSError: the disk refused.
        """
        ...

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """Take open partitions away for good; readers that hold regions are not disturbed."""
        ...

    async def close(self) -> None:
        """Close every store, make all durable, note the clean stop, unlock."""
        ...


class StorageBackend(Protocol):
    """A kind of storage, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that the key `storage` chooses it by."""
        ...

    @property
    def durable(self) -> bool:
        """Whether what it keeps outlives the process."""
        ...

    def create(self, context: StorageContext) -> Storage:
        """A storage that is not open yet."""
        ...
