"""Segments as lists of batches, and drafts and sources of such segments; `batch_list_store` uses them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.storage.segments import (
    AbortedTransaction,
    SegmentView,
    StaleDraft,
    WrittenBatch,
)

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import Buffer

_base_offset = attrgetter("base_offset")
_last_offset = attrgetter("last_offset")


class ListedBatch(NamedTuple):
    """A batch of a list; `place` is where its bytes are, or the bytes, as its store has it."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    size: int
    place: Any


class ListedSegment:
    """Batches in order; like a segment in files it has a fixed base offset.

    `place` is where it is stored, None before that and in a store that has no use for it.
    """

    __slots__ = (
        "aborted",
        "base_offset",
        "batches",
        "max_timestamp",
        "modified_ms",
        "next_offset",
        "place",
        "size",
    )

    def __init__(self, base_offset: int, now_ms: int) -> None:
        self.place: Any = None
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.batches: list[ListedBatch] = []
        self.aborted: list[AbortedTransaction] = []
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.modified_ms = now_ms

    def add(self, batch: ListedBatch, now_ms: int) -> None:
        """Add a batch behind the last one."""
        self.batches.append(batch)
        self.size += batch.size
        self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)
        self.modified_ms = now_ms
        self.next_offset = batch.last_offset + 1

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds `offset`, and what is behind it."""
        del self.batches[bisect_left(self.batches, offset, key=_last_offset) :]
        del self.aborted[bisect_left(self.aborted, offset, key=_last_offset) :]
        self.size = sum(batch.size for batch in self.batches)
        self.max_timestamp = max((batch.max_timestamp for batch in self.batches), default=NO_TIMESTAMP)
        self.next_offset = self.batches[-1].last_offset + 1 if self.batches else self.base_offset

    def view(self) -> SegmentView:
        """Return a view of the segment for cleanup policies."""
        return SegmentView(
            self.base_offset, self.next_offset, self.size, self.max_timestamp, self.modified_ms
        )


class LogChange(NamedTuple):
    """What becomes of the segments of a log at once.

    Attributes:
        added: new segments, with all that they have; the places of their batches are their bytes
        removed: segments that are no longer there
        cut: a segment and an offset: it loses the batch that holds the offset, and what is behind it
        rewritten: how far each policy has rewritten the log, where that has changed
    """

    added: Sequence[ListedSegment] = ()
    removed: Sequence[ListedSegment] = ()
    cut: tuple[ListedSegment, int] | None = None
    rewritten: Mapping[str, int] = {}


class ListedSource:
    """`SegmentSource` that carries its batches along."""

    index_bytes = 0
    time_index_bytes = 0

    def __init__(self, base_offset: int, content: bytes) -> None:
        self.base_offset = base_offset
        self._content = content

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return len(self._content)

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position` on, or those up to the end."""
        return self._content[position : position + size]

    def will_need(self, position: int, size: int) -> None:
        """Do nothing: everything is in memory."""

    def close(self) -> None:
        """Do nothing: nothing was opened."""


class ListedDraftWriter:
    """`DraftWriter` that carries its batches back."""

    def __init__(self, base_offset: int) -> None:
        self.next_offset = base_offset
        self.size_bytes = 0
        self._batches: list[ListedBatch] = []

    def descriptors(self) -> Sequence[int]:
        """Return none: there are no files."""
        return ()

    def adopt(self, descriptors: Sequence[int]) -> None:
        """Do nothing."""

    def append(self, content: Buffer, batches: Sequence[WrittenBatch]) -> None:
        """Add batches. See `DraftWriter` for errors."""
        next_offset = self.next_offset
        for base_offset, last_offset, _, _ in batches:
            if base_offset < next_offset:
                raise ValueError(f"offsets {base_offset} to {last_offset} do not follow {next_offset}")
            next_offset = last_offset + 1
        position = 0
        for base_offset, last_offset, size, max_timestamp in batches:
            data = bytes(memoryview(content)[position : position + size])
            self._batches.append(ListedBatch(base_offset, last_offset, max_timestamp, size, data))
            position += size
        self.next_offset = next_offset
        self.size_bytes += position

    def finish(self) -> Sequence[ListedBatch]:
        """Return all batches."""
        return self._batches


class ListedDraft:
    """`SegmentDraft` in memory; `stale` is the reason why it cannot be used any more, empty if it can."""

    def __init__(self, base_offset: int, now_ms: int) -> None:
        self.segment = ListedSegment(base_offset, now_ms)
        self.replaced: list[range] = []
        self.stale = ""

    def check(self) -> None:
        """Raise `StaleDraft` when it cannot be written or used any more."""
        if self.stale:
            raise StaleDraft(f"the draft at {self.base_offset} is stale: {self.stale}")

    @property
    def base_offset(self) -> int:
        """Return the base offset of the draft."""
        return self.segment.base_offset

    @property
    def next_offset(self) -> int:
        """The offset behind its last batch, `base_offset` without one."""
        return self.segment.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return self.segment.size

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch."""
        self.check()
        if base_offset < self.segment.next_offset:
            raise ValueError(
                f"offsets {base_offset} to {last_offset} do not follow {self.segment.next_offset}"
            )
        listed = ListedBatch(base_offset, last_offset, max_timestamp, len(batch), bytes(batch))
        self.segment.add(listed, self.segment.modified_ms)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is in this segment."""
        self.check()
        self.segment.aborted.append(aborted)

    def writer(self) -> ListedDraftWriter:
        """Return a writer for another process."""
        return ListedDraftWriter(self.base_offset)

    def take(self, written: object) -> None:
        """Take over what a writer has written."""
        self.check()
        for batch in cast("Sequence[ListedBatch]", written):
            self.segment.add(batch, self.segment.modified_ms)

    def discard(self) -> None:
        """Make the draft stale."""
        self.stale = self.stale or "it was discarded"
