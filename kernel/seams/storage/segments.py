"""Views of segments, and drafts: rewritten segments that replace others."""

from __future__ import annotations

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


class StaleDraft(ValueError):
    """A draft that can no longer replace segments; the message says why. The log is unchanged."""


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

    def discard(self) -> None:
        """Remove it without replacing anything; no error when it is stale or removed already."""
        ...
