"""Views of segments, and drafts: segments that are rewritten to replace others."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidelog.kernel.records.batch import Buffer


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


class StaleDraft(ValueError):
    """A draft that cannot replace anything any more; the message says why. The log has lost nothing by it."""


class SegmentDraft(Protocol):
    """A segment that is rewritten to replace others; it has no readers before it does.

    Its methods are blocking, and called in one thread at a time. A draft belongs to the store that began it,
    as the log was then. It is stale, and only `discard` works, once the log was truncated, moved, closed or
    deleted, once another draft was begun at the same base offset, and once `replace_segments` has used it.
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
            StaleDraft: the draft is stale.
            ValueError: the offsets do not follow those that are there.
            InvalidRecord: they are too far from the segment's base offset.
            OSError: the disk refused; only `discard` makes sense now.
        """
        ...

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """As `PartitionStore.add_aborted`, for markers in this segment.

        Raises:
            StaleDraft: the draft is stale.
        """
        ...

    def discard(self) -> None:
        """Remove it without replacing anything; no error when it is stale or removed already."""
        ...
