"""Base class for a storage that keeps records in another form, such as encrypted: one place for their bytes.

    class EncryptedBackend:
        name = "encrypted"
        durable = True

        def create(self, context: StorageContext) -> Storage:
            return TransformingStorage(context.backend("file").create(context), partial(Encryption, key))

Everything else of a batch is stored as it is: its header, which is what the wrapped storage looks up, and its
size, by which positions in a segment count. docs/hooks.md has the whole example.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, Buffer, pack_batch, parse_header
from tidelog.kernel.seams.storage.forwarding import ForwardingStorage, ForwardingStore
from tidelog.kernel.seams.storage.partition_store import PartitionStore
from tidelog.kernel.seams.storage.regions import FileRegion, LogSlice, Region, WouldBlock, region_bytes
from tidelog.kernel.seams.storage.segments import (
    AbortedTransaction,
    DraftWriter,
    SegmentDraft,
    SegmentSource,
    WrittenBatch,
)
from tidelog.kernel.seams.storage.storage import Storage
from tidelog.kernel.topic_partition import TopicPartition

LOOP_BYTES: Final = 256 * 1024
"""A slice with more is transformed in a thread, since all other connections would wait meanwhile."""


class RecordsTransform(Protocol):
    """How the records of a batch are stored. It is pickled for the processes that rewrite segments.

    `header` is the same in both directions: that of the batch, with 0 in place of its CRC. Any thread may
    call the methods, several at once.
    """

    def encode(self, header: BatchHeader, records: memoryview, /) -> Buffer:
        """Return what is stored for (compressed) records; as many bytes."""
        ...

    def decode(self, header: BatchHeader, stored: memoryview, /) -> Buffer:
        """Return the records for which `stored` was stored.

        Raises:
            CorruptBatch: it is nothing that `encode` has returned.
        """
        ...


def _through(change: Callable[[BatchHeader, memoryview], Buffer], batch: Buffer) -> bytearray:
    """Return a batch with other records behind its header, with a CRC that is right for them.

    Raises:
        CorruptBatch: there are more of them, or fewer.
    """
    header = parse_header(batch)
    records = memoryview(batch)[HEADER_BYTES : header.size]
    changed = change(header._replace(crc=0), records)
    if len(changed) != len(records):
        raise CorruptBatch(
            f"the records at offset {header.base_offset} have {len(records)} bytes, and {len(changed)} after "
            "they are transformed"
        )
    return pack_batch(header, changed)


class TransformingStorage(ForwardingStorage):
    """A storage that transforms records before `wrapped` has them, and after it returns them.

    `transform_of` returns the transform of a partition, as a class does whose instances are those.
    """

    def __init__(self, wrapped: Storage, transform_of: Callable[[TopicPartition], RecordsTransform]) -> None:
        super().__init__(wrapped)
        self._transform_of = transform_of

    def wrap(self, partition: TopicPartition, store: PartitionStore) -> PartitionStore:
        """Return the store of a partition."""
        return TransformingStore(store, self._transform_of(partition))


class TransformingStore(ForwardingStore):
    """The store of one partition. The CRC in `headers` is that of what is stored."""

    def __init__(self, wrapped: PartitionStore, transform: RecordsTransform) -> None:
        super().__init__(wrapped)
        self._transform = transform

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        stored = _through(self._transform.encode, batch)
        return self.wrapped.append_batch(stored, base_offset, last_offset, max_timestamp)

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        found = self.wrapped.read_batches(offset, max_bytes, limit_offset, wait=wait)
        if not found.size:
            return found
        if not wait and (found.size > LOOP_BYTES or not all(map(_in_memory, found.regions))):
            raise WouldBlock
        content = memoryview(b"".join(map(region_bytes, found.regions)))
        decoded, position = bytearray(), 0
        while (header := _whole_header(content, position)) is not None:
            decoded += _through(self._transform.decode, content[position : position + header.size])
            position += header.size
            offset = header.next_offset
        if position < len(content):
            # The last batch is cut off, and can be decoded as a whole only.
            rest = self.wrapped.read_batches(offset, 1, limit_offset, wait=wait)
            batch = b"".join(map(region_bytes, rest.regions))
            decoded += _through(self._transform.decode, batch)[: len(content) - position]
        return LogSlice((bytes(decoded),), len(decoded), found.end_offset)

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        return self._decoded(self.wrapped.batch_at_timestamp(timestamp_ms))

    def batch_of_max_timestamp(self) -> bytes | None:
        return self._decoded(self.wrapped.batch_of_max_timestamp())

    def _decoded(self, batch: bytes | None) -> bytes | None:
        return None if batch is None else bytes(_through(self._transform.decode, batch))

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        return [_DecodingSource(each, self._transform) for each in self.wrapped.segment_sources(until)]

    def draft_segment(self, base_offset: int) -> SegmentDraft:
        return _EncodingDraft(self.wrapped.draft_segment(base_offset), self._transform)

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        own = [each.wrapped if isinstance(each, _EncodingDraft) else each for each in drafts]
        self.wrapped.replace_segments(own, replaced)


def _in_memory(region: Region) -> bool:
    return not isinstance(region, FileRegion) or region.file.resident(region.position, region.size)


def _whole_header(content: memoryview, position: int) -> BatchHeader | None:
    """Return the header of the batch at `position`, None if the bytes end before the batch does."""
    if len(content) - position < HEADER_BYTES:
        return None
    header = parse_header(content, position)
    if header.size < HEADER_BYTES:
        raise CorruptBatch(f"the batch at offset {header.base_offset} cannot have {header.size} bytes")
    return header if header.size <= len(content) - position else None


class _DecodingSource:
    """`SegmentSource` whose batches are decoded where they are read."""

    def __init__(self, wrapped: SegmentSource, transform: RecordsTransform) -> None:
        self._wrapped = wrapped
        self._transform = transform
        self._starts = [0]
        """Where batches begin, as far as was read."""
        self.base_offset = wrapped.base_offset
        self.size_bytes = wrapped.size_bytes
        self.index_bytes = wrapped.index_bytes
        self.time_index_bytes = wrapped.time_index_bytes

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position` on: of all batches that have some of them."""
        end = min(position + size, self.size_bytes)
        if position >= end:
            return b""
        begin = self._start_of(position)
        content = memoryview(self._wrapped.read(begin, end - begin))
        decoded, at = bytearray(), 0
        while at < end - begin:
            header = _whole_header(content, at)
            batch: Buffer
            if header is None:
                header = parse_header(self._wrapped.read(begin + at, HEADER_BYTES))
                batch = self._wrapped.read(begin + at, header.size)
            else:
                batch = content[at : at + header.size]
            decoded += _through(self._transform.decode, batch)
            at += header.size
            self._note(begin + at)
        return bytes(memoryview(decoded)[position - begin : end - begin])

    def _start_of(self, position: int) -> int:
        """Return where the batch begins that has the byte at `position`."""
        begin = self._starts[bisect_right(self._starts, position) - 1]
        while True:
            after = begin + parse_header(self._wrapped.read(begin, HEADER_BYTES)).size
            self._note(after)
            if after > position:
                return begin
            begin = after

    def _note(self, start: int) -> None:
        # Only what follows: batches are read in order nearly always.
        if start > self._starts[-1]:
            self._starts.append(start)

    def will_need(self, position: int, size: int) -> None:
        """Begin to read what is read next."""
        self._wrapped.will_need(position, size)

    def close(self) -> None:
        """Release what reading opened."""
        self._wrapped.close()


class _EncodingWriter:
    """`DraftWriter` that encodes where it writes."""

    def __init__(self, wrapped: DraftWriter, transform: RecordsTransform) -> None:
        self._wrapped = wrapped
        self._transform = transform

    @property
    def next_offset(self) -> int:
        """The offset after its last batch, the base offset without one."""
        return self._wrapped.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return self._wrapped.size_bytes

    def descriptors(self) -> Sequence[int]:
        """Return those of the wrapped one."""
        return self._wrapped.descriptors()

    def adopt(self, descriptors: Sequence[int]) -> None:
        """Hand them to the wrapped one."""
        self._wrapped.adopt(descriptors)

    def append(self, content: Buffer, batches: Sequence[WrittenBatch]) -> None:
        """Add batches; raises as `DraftWriter` does."""
        view, stored, position = memoryview(content), bytearray(), 0
        for batch in batches:
            after = position + batch.size_bytes
            stored += _through(self._transform.encode, view[position:after])
            position = after
        self._wrapped.append(stored, batches)

    def finish(self) -> object:
        """Return what the draft takes over."""
        return self._wrapped.finish()


class _EncodingDraft:
    """`SegmentDraft` whose batches are encoded."""

    def __init__(self, wrapped: SegmentDraft, transform: RecordsTransform) -> None:
        self.wrapped = wrapped
        self._transform = transform

    @property
    def base_offset(self) -> int:
        """The base offset of the segment."""
        return self.wrapped.base_offset

    @property
    def next_offset(self) -> int:
        """The offset after its last batch, `base_offset` without one."""
        return self.wrapped.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return self.wrapped.size_bytes

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch; raises as `SegmentDraft` does."""
        stored = _through(self._transform.encode, batch)
        self.wrapped.append(stored, base_offset, last_offset, max_timestamp)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction."""
        self.wrapped.add_aborted(aborted)

    def writer(self) -> DraftWriter:
        """Return what writes the batches."""
        return cast("DraftWriter", _EncodingWriter(self.wrapped.writer(), self._transform))

    def take(self, written: object) -> None:
        """Take over what the writer has written."""
        self.wrapped.take(written)

    def check(self) -> None:
        """Raise `StaleDraft` if it cannot be used any more."""
        self.wrapped.check()

    def discard(self) -> None:
        """Remove it."""
        self.wrapped.discard()
