"""Views of segments, and drafts: rewritten segments that replace others.

Segments may be rewritten by another process, which has no broker: sources are what it reads, writers of
drafts are what it writes. Both are pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.kernel.records.batch import Buffer


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer, its first offset and that of its marker.

    `last_stable_offset` is that after the marker was written: no transaction that ends later has records
    below it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class SegmentView(NamedTuple):
    """A segment as cleanup policies and lookups see it; times are milliseconds since the epoch."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp: int
    last_modified_ms: int

    @property
    def age_timestamp(self) -> int:
        """The time that counts for the age of the segment, in milliseconds since the epoch.

        That is the largest timestamp of its records, or without one the time when its file was last changed.
        """
        return self.max_timestamp if self.max_timestamp >= 0 else self.last_modified_ms


class StaleDraft(ValueError):
    """A draft that can no longer replace segments; the message says why. The log is unchanged."""


class SegmentSource(Protocol):
    """An inactive segment, to be read in any process; it is pickled before the first read.

    `index_bytes` and `time_index_bytes` are what entries for positions and for times would take in Apache
    Kafka's files.
    """

    @property
    def base_offset(self) -> int:
        """The base offset of the segment."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        ...

    @property
    def index_bytes(self) -> int:
        """Bytes of the entries for positions."""
        ...

    @property
    def time_index_bytes(self) -> int:
        """Bytes of the entries for times."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Blocking: return `size` bytes from `position` on, or those up to the end.

        Raises:
            OSError: the disk refused, or the segment was removed.
        """
        ...

    def will_need(self, position: int, size: int) -> None:
        """Begin to read what is read next, `size` bytes from `position` on, without waiting for it.

        Bytes beyond the end are ignored. A store that cannot read ahead does nothing.

        Raises:
            OSError: the disk refused, or the segment was removed.
        """
        ...

    def close(self) -> None:
        """Release what reading opened; the next read opens it again."""
        ...


class WrittenBatch(NamedTuple):
    """The offsets, the size in bytes and the largest timestamp of a batch that was written."""

    base_offset: int
    last_offset: int
    size_bytes: int
    max_timestamp: int


class DraftWriter(Protocol):
    """Writes the batches of one draft in any process; it is pickled before the first batch.

    Open files are handed over beside it: `descriptors` of the original, as the other process gets them, are
    given to `adopt` of the copy. A path would name the file of another draft by the time that it is opened,
    since the broker may be killed, and the next one begins again. `finish` returns what `SegmentDraft.take`
    needs, which is pickled too. One that is not finished leaves nothing once its draft was discarded.
    """

    def descriptors(self) -> Sequence[int]:
        """Return the file descriptors that a copy in another process needs; they stay open with the draft."""
        ...

    def adopt(self, descriptors: Sequence[int]) -> None:
        """Take over what `descriptors` of the original has become in this process, and close it at the end.

        Called once, before the first batch.
        """
        ...

    @property
    def next_offset(self) -> int:
        """The offset after its last batch, the base offset without one."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        ...

    def append(self, content: Buffer, batches: Sequence[WrittenBatch]) -> None:
        """Blocking: add batches; `content` has them one after the other.

        Raises:
            ValueError: the offsets do not follow those in the draft.
            InvalidRecord: they are too far from the segment's base offset.
            OSError: the disk refused, or the draft was discarded.
        """
        ...

    def finish(self) -> object:
        """Blocking: return what the draft takes over; nothing is written any more.

        Raises:
            OSError: the disk refused.
        """
        ...


class SegmentDraft(Protocol):
    """A rewritten segment that is to replace others; it has no readers before.

    Its methods are blocking, and called in one thread at a time. A draft belongs to its store. It is stale,
    and only `discard` works, once the log was truncated, moved, closed or deleted, once another draft was
    begun at the same base offset, and once `replace_segments` has used it.
    """

    @property
    def base_offset(self) -> int:
        """The base offset of the segment."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset after its last batch, `base_offset` without one."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        ...

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch.

        Raises:
            StaleDraft: the draft is stale.
            ValueError: the offsets do not follow those in the draft.
            InvalidRecord: they are too far from the segment's base offset.
            OSError: the disk refused; the draft can only be discarded.
        """
        ...

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is in this segment, as `PartitionStore.add_aborted` does.

        Raises:
            StaleDraft: the draft is stale.
        """
        ...

    def writer(self) -> DraftWriter:
        """Return what writes the batches of the draft, which has none yet, instead of `append`."""
        ...

    def take(self, written: object) -> None:
        """Blocking: take over the batches that the writer has written; `written` is what it returned.

        Raises:
            StaleDraft: the draft is stale.
        """
        ...

    def check(self) -> None:
        """Check that the draft can still be used.

        Raises:
            StaleDraft: it cannot.
        """
        ...

    def discard(self) -> None:
        """Remove it without replacing anything; no error when it is stale or removed already."""
        ...
