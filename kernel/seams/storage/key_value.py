"""Storage of records in anything that keeps pairs of a key and a value, such as an embedded database.

A plugin brings a `KeyValueTable`, with the five calls that such a thing has, and gets a whole storage:

    class MyBackend:
        name = "mine"
        durable = True

        def create(self, context: StorageContext) -> Storage:
            return KeyValueStorage(context, lambda folder: MyTable(folder / "records.db"))

Topics and what else a broker has to keep are in files, as with the storage `file`, whose first directory
`folder` is. Records, transactions and the files beside a log are pairs in the table:

    key = topic id (16 bytes), partition (4 bytes), kind (1 byte), rest
    kind  rest                           value
    s     segment (8)                    base offset (8), time of its creation in ms (8)
    b     segment (8), base offset (8)   last offset (8), max timestamp (8), bytes (4), append time in ms (8)
    d     segment (8), base offset (8)   a batch as it is sent
    a     segment (8), last offset (8)   producer id (8), first offset (8), last stable offset (8)
    r     cleanup policy                 offset below which it has rewritten the log (8)
    l                                    log start offset (8)
    f     name                           a file beside the log

Beside them the key `c` has 1 after a clean stop, 0 before. Numbers are big-endian. A segment has a number
that no other one of its partition has had, so that the segments that replace others are complete before the
one write that puts them in their place; rows of a segment without a row `s` are what a crash has left of
that, and are removed when the partition is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, cast
from uuid import UUID

import trio

from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.storage.batch_list_store import BatchListStore
from tidelog.kernel.seams.storage.batch_lists import ListedBatch, ListedSegment, LogChange
from tidelog.kernel.seams.storage.forwarding import ForwardingStorage
from tidelog.kernel.seams.storage.regions import EMPTY_SLICE, LogSlice, WouldBlock
from tidelog.kernel.seams.storage.segments import AbortedTransaction

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import Buffer
    from tidelog.kernel.seams.storage.backend import StorageContext
    from tidelog.kernel.seams.storage.directories import KnownTopics
    from tidelog.kernel.seams.storage.partition_store import PartitionStore
    from tidelog.kernel.seams.storage.storage import LogDirectoryAdmin, PartitionSpec
    from tidelog.kernel.topic_partition import TopicPartition

MAX_ROWS_PER_WRITE: Final = 1000
"""So many rows are removed at once: appends wait for no longer write than that."""
MAX_BYTES_PER_WRITE: Final = 1024 * 1024
"""So many bytes of batches that replace others are written at once, for the same reason."""

_CLEAN_STOP: Final = b"c"
_PARTITION: Final = Struct(">16si")
_NUMBER: Final = Struct(">q")
_ROW: Final = Struct(">qq")
_BATCH: Final = Struct(">qqiq")
_ABORTED: Final = Struct(">qqq")


class KeyValueTable(Protocol):
    """Pairs of a key and a value, both bytes. Any thread calls it, several at the same time.

    Keys have at most 300 bytes. What `sqlite3` or another library raises has to become an `OSError`.
    """

    def get(self, key: bytes) -> bytes | None:
        """Blocking: return the value of a key, None if there is none.

        Raises:
            OSError: it cannot be read.
        """
        ...

    def scan(self, prefix: bytes, *, values: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """Blocking: iterate over the pairs whose keys begin with `prefix`, in the order of keys.

        Without `values` these are not asked for, and may be empty. Nothing is written meanwhile.

        Raises:
            OSError: they cannot be read.
        """
        ...

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Set values, and remove the keys with None, all or nothing; it survives the process on return.

        It is called on the event loop, and must not wait for a device.

        Raises:
            OSError: nothing was written.
        """
        ...

    def flush(self) -> None:
        """Blocking: let what was written survive a power loss.

        Raises:
            OSError: that is not sure.
        """
        ...

    def close(self) -> None:
        """Blocking: the last call; what was written and not flushed may be lost."""
        ...


def remove_all(table: KeyValueTable, prefix: bytes) -> None:
    """Blocking: remove all pairs whose keys begin with `prefix`, some at a time."""
    while found := list(islice((key for key, _ in table.scan(prefix, values=False)), MAX_ROWS_PER_WRITE)):
        table.write(dict.fromkeys(found))


class KeyValueStore(BatchListStore):
    """The log of one partition in a table."""

    def __init__(self, table: KeyValueTable, spec: PartitionSpec, now_ms: Callable[[], int]) -> None:
        """Blocking: read which batches there are; `mark_clean` says that nothing is missing."""
        super().__init__(spec.config, now_ms)
        self._table = table
        self._prefix = partition_prefix(spec.topic_id, spec.topic_partition.partition)
        self._durable_offset = 0
        self._knows_aborted = False
        # Segments whose rows are still there, for those who have begun to read them.
        self._replaced: list[int] = []
        segments, first_number = self._read_segments()
        self._numbers = count(first_number)
        if segments:
            start = table.get(self._key(b"l"))
            rewritten = {
                key[len(self._prefix) + 1 :].decode(): _NUMBER.unpack(value)[0]
                for key, value in table.scan(self._key(b"r"))
            }
            self.restore(segments, _NUMBER.unpack(start)[0] if start else 0, rewritten)
        else:
            self.commit(LogChange(added=self._segments))

    def mark_clean(self) -> None:
        """Note that the last stop was clean: the table has the transactions of all markers, durably."""
        self._durable_offset = self.log_end_offset
        self._knows_aborted = True

    @property
    def durable_offset(self) -> int:
        """The log end offset of the last flush."""
        return min(self._durable_offset, self.log_end_offset)

    @property
    def aborted_known_until(self) -> int:
        """The log end offset after a clean stop; after a crash 0, and the kernel looks for others."""
        return self.log_end_offset if self._knows_aborted else 0

    def keep_batch(
        self, segment: ListedSegment, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int
    ) -> int:
        """Write the batch, and the segment before the first one; return the number of the segment."""
        rows: dict[bytes, bytes | None] = {}
        number = segment.place
        if number is None:
            number = next(self._numbers)
            rows[self._key(b"s", number)] = _ROW.pack(segment.base_offset, segment.modified_ms)
        about = _BATCH.pack(last_offset, max_timestamp, len(batch), self._now_ms())
        rows[self._key(b"b", number, base_offset)] = about
        rows[self._key(b"d", number, base_offset)] = bytes(batch)
        self._table.write(rows)
        segment.place = number
        return cast("int", number)

    def batch_bytes(self, batch: ListedBatch) -> bytes:
        """Blocking: return the bytes of a batch, also of one that the last change has removed."""
        found = self._table.get(self._key(b"d", batch.place, batch.base_offset))
        if found is None:
            raise OSError(f"the batch at {batch.base_offset} is not there any more")
        return found

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on; with `wait` alone, as a table may block."""
        if offset >= limit_offset:
            return EMPTY_SLICE
        if not wait:
            raise WouldBlock
        return super().read_batches(offset, max_bytes, limit_offset)

    def keep_aborted(self, segment: ListedSegment, aborted: AbortedTransaction) -> None:
        """Write it."""
        self._table.write(dict([self._aborted_row(segment.place, aborted)]))

    def commit(self, change: LogChange) -> None:
        """Write new segments and put them in their place; rows of old ones go with the next change."""
        rows: dict[bytes, bytes | None] = {}
        for segment in change.added:
            number = next(self._numbers)
            self._write_content(segment, number)
            rows[self._key(b"s", number)] = _ROW.pack(segment.base_offset, segment.modified_ms)
            segment.place = number
        if change.cut is not None:
            rows |= self._cut_rows(*change.cut)
        rows |= {
            self._key(b"r") + policy.encode(): _NUMBER.pack(until)
            for policy, until in change.rewritten.items()
        }
        rows |= {self._key(b"s", segment.place): None for segment in change.removed}
        self._table.write(rows)
        if change.removed:
            self._remove_replaced()
            self._replaced += [segment.place for segment in change.removed]

    def set_rewritten_until(self, policy: str, offset: int) -> None:
        """Blocking: write durably how far a cleanup policy has rewritten the log."""
        self._table.write({self._key(b"r") + policy.encode(): _NUMBER.pack(offset)})
        self._table.flush()
        super().set_rewritten_until(policy, offset)

    def flush(self) -> int:
        """Blocking: flush the table."""
        end = self.log_end_offset
        self._table.flush()
        self._durable_offset = max(self._durable_offset, end)
        return end

    def side_files(self) -> Sequence[str]:
        """Return the names of the side files, sorted."""
        prefix = self._key(b"f")
        return sorted(key[len(prefix) :].decode() for key, _ in self._table.scan(prefix, values=False))

    def read_side_file(self, name: str) -> bytes | None:
        """Return the content of a side file, None when there is none."""
        return self._table.get(self._key(b"f") + name.encode())

    def write_side_file(self, name: str, content: bytes) -> None:
        """Blocking: replace a side file, durably."""
        self._table.write({self._key(b"f") + name.encode(): content})
        self._table.flush()

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """Blocking: remove a side file; no error when there is none."""
        self._table.write({self._key(b"f") + name.encode(): None})
        if durable:
            self._table.flush()

    def close(self) -> None:
        """Blocking: write the log start offset, and flush."""
        if not self._is_closed:
            self._table.write({self._key(b"l"): _NUMBER.pack(self.log_start_offset)})
            self._remove_replaced()
            self.flush()
        super().close()

    def _key(self, kind: bytes, *numbers: int) -> bytes:
        return b"".join([self._prefix, kind, *map(_NUMBER.pack, numbers)])

    def _aborted_row(self, number: int, aborted: AbortedTransaction) -> tuple[bytes, bytes]:
        value = _ABORTED.pack(aborted.producer_id, aborted.first_offset, aborted.last_stable_offset)
        return self._key(b"a", number, aborted.last_offset), value

    def _read_segments(self) -> tuple[list[ListedSegment], int]:
        """Return the segments in order, and the first number that no row has; remove rows of no segment."""
        skipped = len(self._prefix) + 1
        segments: dict[int, ListedSegment] = {}
        for key, value in self._table.scan(self._key(b"s")):
            (number,) = _NUMBER.unpack_from(key, skipped)
            segments[number] = ListedSegment(*_ROW.unpack(value))
            segments[number].place = number
        others = set[int]()
        for key, value in self._table.scan(self._key(b"b")):
            number, base_offset = _ROW.unpack_from(key, skipped)
            last_offset, max_timestamp, size, append_ms = _BATCH.unpack(value)
            if number in segments:
                listed = ListedBatch(base_offset, last_offset, max_timestamp, size, number)
                segments[number].add(listed, append_ms)
            else:
                others.add(number)
        for key, value in self._table.scan(self._key(b"a")):
            number, last_offset = _ROW.unpack_from(key, skipped)
            producer_id, first_offset, stable = _ABORTED.unpack(value)
            if number in segments:
                found = AbortedTransaction(producer_id, first_offset, last_offset, stable)
                segments[number].aborted.append(found)
            else:
                others.add(number)
        for number in others:
            self._remove_content(number)
        ordered = sorted(segments.values(), key=lambda each: each.base_offset)
        return ordered, max((*segments, *others), default=-1) + 1

    def _write_content(self, segment: ListedSegment, number: int) -> None:
        """Write the batches and transactions of a segment that has its bytes in memory."""
        rows: dict[bytes, bytes | None] = dict(self._aborted_row(number, each) for each in segment.aborted)
        size = 0
        for index, batch in enumerate(segment.batches):
            about = _BATCH.pack(batch.last_offset, batch.max_timestamp, batch.size, segment.modified_ms)
            # First, as these are what is found again if not all is written.
            rows[self._key(b"b", number, batch.base_offset)] = about
            rows[self._key(b"d", number, batch.base_offset)] = batch.place
            segment.batches[index] = batch._replace(place=number)
            size += batch.size
            if size >= MAX_BYTES_PER_WRITE:
                self._table.write(rows)
                rows, size = {}, 0
        self._table.write(rows)

    def _remove_replaced(self) -> None:
        # What cannot be removed now is found, as rows of no segment, when the partition is opened again.
        with suppress(OSError):
            for number in self._replaced:
                self._remove_content(number)
        self._replaced.clear()

    def _remove_content(self, number: int) -> None:
        # The rows that name the others go last: a crash in between leaves nothing that is not found again.
        for kind in (b"a", b"d", b"b"):
            remove_all(self._table, self._key(kind, number))

    def _cut_rows(self, segment: ListedSegment, offset: int) -> dict[bytes, None]:
        batches = [each.base_offset for each in segment.batches if each.last_offset >= offset]
        markers = [each.last_offset for each in segment.aborted if each.last_offset >= offset]
        rows: Iterable[bytes] = (
            *(self._key(kind, segment.place, base) for kind in (b"b", b"d") for base in batches),
            *(self._key(b"a", segment.place, marker) for marker in markers),
        )
        return dict.fromkeys(rows)


def partition_prefix(topic_id: UUID, partition: int) -> bytes:
    """Return what the keys of all pairs of a partition begin with."""
    return _PARTITION.pack(topic_id.bytes, partition)


class KeyValueStorage(ForwardingStorage):
    """A storage with its records in a table, and everything else in the directories of the storage `file`.

    A table has no log directories that could be described, and a partition cannot be moved to another one.
    """

    def __init__(self, context: StorageContext, open_table: Callable[[Path], KeyValueTable]) -> None:
        """Prepare a storage; `open_table` is called in a thread, with the first directory."""
        super().__init__(context.backend("file").create(context))
        self._open_table = open_table
        self._now_ms = context.now_ms
        self._table: KeyValueTable | None = None
        self._stores: dict[TopicPartition, KeyValueStore] = {}
        self._topic_ids: dict[TopicPartition, UUID] = {}
        self._was_clean = True
        self._all_durable = False

    @property
    def log_directories(self) -> LogDirectoryAdmin | None:
        """None: no directory has a partition."""
        return None

    @property
    def clean_start(self) -> bool:
        """Whether the last stop was clean, for the table and the directories."""
        return self._was_clean and self.wrapped.clean_start

    async def load(self, known: KnownTopics) -> None:
        """Open the table, and remove what a crash left of topics that were deleted."""
        await self.wrapped.load(known)
        directories = self.data_directories
        if directories is None:
            raise StorageError("the storage `file` has no directories to open a table in")
        folder = directories.in_service[0].path
        self._table = await trio.to_thread.run_sync(self._open_table, folder)
        self._was_clean = await trio.to_thread.run_sync(_begin_use, self._table, list(known.deleted))

    def abandon(self) -> None:
        """Close the table as it is."""
        table, self._table = self._table, None
        if table is not None:
            table.close()
        self.wrapped.abandon()

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """Open stores over the table.

        Raises:
            StorageError: one of them is open already.
            OSError: the table cannot be read.
        """
        wanted = {spec.topic_partition: spec.topic_id for spec in specs}
        if wanted.keys() & self._stores.keys() or len(wanted) < len(specs):
            raise StorageError("a partition cannot be opened twice")
        stores = [
            await trio.to_thread.run_sync(KeyValueStore, self._opened, spec, self._now_ms) for spec in specs
        ]
        if self.clean_start:
            for store in stores:
                store.mark_clean()
        self._stores.update(zip(wanted, stores, strict=True))
        self._topic_ids |= wanted
        if progress is not None:
            progress(len(stores))
        return stores

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """Remove all rows of partitions."""
        for partition, _ in partitions:
            store = self._stores.pop(partition)
            prefix = partition_prefix(self._topic_ids.pop(partition), partition.partition)
            await trio.to_thread.run_sync(store.close)
            await trio.to_thread.run_sync(remove_all, self._opened, prefix)

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """Close partitions, one after the other: they have one table."""
        for partition, job in jobs:
            self._stores.pop(partition, None)
            await trio.to_thread.run_sync(job)

    async def finish_writes(self) -> None:
        """Close the stores that are still open.

        Raises:
            OSError: something could not be made durable.
        """
        for partition in list(self._stores):
            await trio.to_thread.run_sync(self._stores.pop(partition).close)
        await self.wrapped.finish_writes()
        self._all_durable = True

    async def close(self, broker_epoch: int) -> None:
        """Close the table, with a note of the clean stop, then the directories."""
        try:
            if self._table is not None:
                await trio.to_thread.run_sync(_end_use, self._table, self._all_durable)
        finally:
            self._table = None
            await self.wrapped.close(broker_epoch)

    @property
    def _opened(self) -> KeyValueTable:
        if self._table is None:
            raise StorageError("the table is not open")
        return self._table


def _begin_use(table: KeyValueTable, deleted_topics: Iterable[UUID]) -> bool:
    """Return whether the last stop was clean; remove what a crash left of deleted topics."""
    was_clean = table.get(_CLEAN_STOP) in (None, b"1")
    table.write({_CLEAN_STOP: b"0"})
    table.flush()
    for topic_id in deleted_topics:
        remove_all(table, topic_id.bytes)
    return was_clean


def _end_use(table: KeyValueTable, all_durable: bool) -> None:
    try:
        if all_durable:
            table.write({_CLEAN_STOP: b"1"})
            table.flush()
    finally:
        table.close()
