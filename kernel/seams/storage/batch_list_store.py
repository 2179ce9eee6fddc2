"""Base class for a store that keeps batches elsewhere than in segment files: in memory, or in a database.

`BatchListStore` has everything that a log is: segments that are lists of batches, rolling, look-ups, aborted
transactions, drafts and their replacement. A subclass decides where the bytes of a batch are
(`keep_batch`, `batch_bytes`), and stores what changes otherwise (`commit`) if they are to outlive the
process. A list has about 150 bytes of memory for each batch. `key_value` is such a storage, over anything
that keeps pairs of a key and a value.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tidelog.kernel.errors import BatchTooLarge
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.records.stored import parse_stored
from tidelog.kernel.seams.storage.batch_lists import (
    ListedBatch,
    ListedDraft,
    ListedSegment,
    ListedSource,
    LogChange,
)
from tidelog.kernel.seams.storage.keys import SEGMENT_BYTES, max_segment_ms
from tidelog.kernel.seams.storage.regions import EMPTY_SLICE, LogSlice
from tidelog.kernel.seams.storage.segments import (
    AbortedTransaction,
    SegmentDraft,
    SegmentSource,
    SegmentView,
    StaleDraft,
)

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import BatchHeader, Buffer

_base_offset = attrgetter("base_offset")
_last_offset = attrgetter("last_offset")


class BatchListStore(ABC):
    """`PartitionStore` whose segments are lists of batches, and whose subclass keeps their bytes.

    Source: `PartitionStore` says for each method on which thread it is called and which errors it may raise.
    """

    log_directory = ""
    checkpointed_high_watermark = 0

    def __init__(self, config: TopicConfig, now_ms: Callable[[], int]) -> None:
        """Create an empty log; `restore` gives it what was stored."""
        self.configure(config)
        self._now_ms = now_ms
        self._segments: tuple[ListedSegment, ...] = (ListedSegment(0, now_ms()),)
        self._log_start = 0
        self._drafts: dict[int, ListedDraft] = {}
        self._rewritten: dict[str, int] = {}
        self._is_closed = False
        # One thread at a time changes inactive segments. The event loop, which adds active ones meanwhile,
        # never waits for it: they share only the lock around the assignment.
        self._changing = threading.Lock()
        self._assigning = threading.Lock()

    @abstractmethod
    def keep_batch(
        self, segment: ListedSegment, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int
    ) -> Any:
        """Keep the bytes of a batch of that segment; return their place, for `batch_bytes`.

        A segment without a batch may be new: then it is kept, too. The buffer is used again afterwards.

        Raises:
            OSError: that is not possible; the log is as before.
        """

    @abstractmethod
    def batch_bytes(self, batch: ListedBatch) -> bytes:
        """Return the bytes of a batch; it may be one that was removed meanwhile.

        Raises:
            WouldBlock: they are not in memory, and this is the event loop.
            OSError: they cannot be read.
        """

    @abstractmethod
    def keep_aborted(self, segment: ListedSegment, aborted: AbortedTransaction) -> None:
        """Keep an aborted transaction, whose marker is in that segment.

        Raises:
            OSError: that is not possible; the log is as before.
        """

    @abstractmethod
    def commit(self, change: LogChange) -> None:
        """Store a change of the segments as a whole, before it is made.

        Raises:
            OSError: that is not possible; the log is as before.
        """

    def restore(
        self, segments: Sequence[ListedSegment], log_start: int, rewritten: Mapping[str, int]
    ) -> None:
        """Take over what was stored, before the first use: at least one segment, in order."""
        self._segments = tuple(segments)
        self._log_start = min(log_start, self.log_end_offset)
        self._rewritten = dict(rewritten)

    @property
    def log_start_offset(self) -> int:
        """The first offset that is still there."""
        return max(self._log_start, self._segments[0].base_offset)

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._segments[0].base_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next batch gets."""
        return self._segments[-1].next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def durable_offset(self) -> int:
        """The log end offset: flushing would add nothing."""
        return self.log_end_offset

    @property
    def aborted_known_until(self) -> int:
        """The log end offset: the transaction index is always complete."""
        return self.log_end_offset

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """Append one batch; return whether a segment was rolled."""
        size, limit = len(batch), self._segment_bytes
        active = self._segments[-1]
        if size > limit:
            raise BatchTooLarge(f"a batch of {size} bytes is larger than a segment ({limit} bytes)")
        if base_offset < active.next_offset:
            raise ValueError(f"offsets {base_offset} to {last_offset} do not follow {active.next_offset}")
        rolled = bool(active.batches) and (
            active.size + size > limit or max_timestamp - active.batches[0].max_timestamp > self._segment_ms
        )
        now_ms = self._now_ms()
        if rolled:
            active = ListedSegment(base_offset, now_ms)
        place = self.keep_batch(active, batch, base_offset, last_offset, max_timestamp)
        active.add(ListedBatch(base_offset, last_offset, max_timestamp, size, place), now_ms)
        if rolled:
            self._add_active(active)
        return rolled

    def _add_active(self, segment: ListedSegment) -> None:
        with self._assigning:
            self._segments = (*self._segments, segment)

    def prepare_roll(self) -> None:  # noqa: B027 - few stores have to prepare anything
        """Do nothing: a segment costs nothing here."""

    def roll(self) -> bool:
        """Begin a new active segment at the log end; return False if the active segment has no batch."""
        active = self._segments[-1]
        if not active.batches:
            return False
        new = ListedSegment(active.next_offset, self._now_ms())
        self.commit(LogChange(added=[new]))
        self._add_active(new)
        return True

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on."""
        del wait
        regions: list[bytes | memoryview] = []
        size = end_offset = 0
        for batch in self._batches_from(offset):
            if batch.base_offset >= limit_offset or offset >= limit_offset:
                break
            room = max_bytes - size
            if regions and room <= 0:
                break
            # Only the first batch may go beyond the limit; a later one is cut short, as a file would be.
            data = self.batch_bytes(batch)
            regions.append(data if not regions or len(data) <= room else memoryview(data)[:room])
            size += len(regions[-1])
            end_offset = batch.last_offset + 1
        return LogSlice(tuple(regions), size, end_offset) if regions else EMPTY_SLICE

    def _batches_from(self, offset: int) -> Iterator[ListedBatch]:
        segments = self._segments
        first = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
        for segment in segments[first:]:
            batches = segment.batches
            for index in range(bisect_left(batches, offset, key=_last_offset), len(batches)):
                yield batches[index]

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction, whose marker was appended, unless it is known."""
        segments = self._segments
        segment = segments[max(bisect_right(segments, aborted.last_offset, key=_base_offset) - 1, 0)]
        if not segment.aborted or segment.aborted[-1].last_offset < aborted.last_offset:
            self.keep_aborted(segment, aborted)
            segment.aborted.append(aborted)

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that overlap `[from_offset, to_offset)`."""
        del wait
        found: list[AbortedTransaction] = []
        for segment in self._segments:
            entries = segment.aborted
            for entry in entries[bisect_left(entries, from_offset, key=_last_offset) :]:
                if entry.first_offset < to_offset:
                    found.append(entry)
                # Every transaction that ends later began at this last stable offset or above it.
                if entry.last_stable_offset >= to_offset:
                    return found
        return found

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """Return the first batch whose max timestamp is at least `timestamp_ms`."""
        for segment in self._segments:
            if segment.max_timestamp >= timestamp_ms:
                found = next(batch for batch in segment.batches if batch.max_timestamp >= timestamp_ms)
                return self.batch_bytes(found)
        return None

    def batch_of_max_timestamp(self) -> bytes | None:
        """Return the first batch with the largest timestamp of all."""
        batches = (batch for segment in self._segments for batch in segment.batches)
        found = max(batches, key=attrgetter("max_timestamp"), default=None)
        return None if found is None else self.batch_bytes(found)

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Iterate over the headers of the batches from the one that holds `from_offset` on."""
        for batch in self._batches_from(from_offset):
            yield parse_stored(self.batch_bytes(batch))

    def segments(self) -> Sequence[SegmentView]:
        """Return a view of each segment for cleanup policies, oldest first."""
        return [segment.view() for segment in self._segments]

    def first_timestamp(self, base_offset: int) -> int:
        """Return the largest timestamp of the first batch of a segment, -1 without one."""
        for segment in self._segments:
            if segment.base_offset == base_offset and segment.batches:
                return segment.batches[0].max_timestamp
        return NO_TIMESTAMP

    def rewritten_until(self, policy: str) -> int | None:
        """Return the offset below which a cleanup policy has rewritten the log."""
        return self._rewritten.get(policy)

    def set_rewritten_until(self, policy: str, offset: int) -> None:
        """Note how far a cleanup policy has rewritten the log."""
        self._rewritten[policy] = offset

    def configure(self, config: TopicConfig) -> None:
        """Use another configuration of the topic from the next append on."""
        self._segment_bytes, self._segment_ms = config[SEGMENT_BYTES], max_segment_ms(config)

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds `offset` and all later ones."""
        if offset >= self.log_end_offset:
            return
        with self._changing:
            segments = self._segments
            count = bisect_right(segments, offset, key=_base_offset)
            kept = segments[:count] or (ListedSegment(offset, self._now_ms()),)
            end = _end_below(kept[-1], offset)
            rewritten = {policy: min(until, end) for policy, until in self._rewritten.items()}
            self.commit(
                LogChange(
                    added=kept[count:],
                    removed=segments[count:],
                    cut=(kept[-1], offset) if count else None,
                    rewritten=rewritten,
                )
            )
            # Other records may be appended at the offsets of those that they have copied.
            self._end_drafts("the log was truncated since it was begun")
            kept[-1].truncate_to(offset)
            self._segments = kept
            self._log_start = min(self._log_start, end)
            self._rewritten = rewritten

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset`, if it is above."""
        self._log_start = max(self._log_start, offset)

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Drop segments that lie wholly below `offset`, never the active one; return those."""
        with self._changing:
            segments = self._segments
            count = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
            if self._is_closed or not count:
                return ()
            self.commit(LogChange(removed=segments[:count]))
            with self._assigning:
                self._segments = self._segments[count:]
        return [segment.view() for segment in segments[:count]]

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        """Return the inactive segments with base offsets below `until`, oldest first."""
        return [
            ListedSource(each.base_offset, b"".join(map(self.batch_bytes, each.batches)))
            for each in self._segments[:-1]
            if each.base_offset < until
        ]

    def draft_segment(self, base_offset: int) -> ListedDraft:
        """Begin to rewrite segments into one that begins at `base_offset`."""
        older = self._drafts.get(base_offset)
        if older is not None:
            older.stale = older.stale or "another draft was begun at its base offset"
        draft = self._drafts[base_offset] = ListedDraft(base_offset, self._now_ms())
        return draft

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Put drafts in the place of the segments with the base offsets `replaced`."""
        with self._changing:
            mine = self._usable(drafts)
            segments = self._segments
            start, end = _consecutive(segments, sorted(replaced))
            new = _fitting(mine, segments[start], segments[end])
            offsets = range(segments[start].base_offset, segments[end].base_offset)
            _refuse_replaced(mine, offsets)
            kept = [segment for index, segment in enumerate(new) if segment.size or not (start or index)]
            for segment in kept:
                segment.modified_ms = max(old.modified_ms for old in segments[start:end])
            self.commit(LogChange(added=kept, removed=segments[start:end]))
            for draft in mine:
                draft.stale = "it was used"
            for draft in self._drafts.values():
                draft.replaced.append(offsets)
            with self._assigning:
                self._segments = (*self._segments[:start], *kept, *self._segments[end:])

    def _usable(self, drafts: Sequence[SegmentDraft]) -> list[ListedDraft]:
        mine = [draft for draft in drafts if isinstance(draft, ListedDraft)]
        for draft in mine:
            draft.check()
            if self._drafts.get(draft.base_offset) is not draft:
                raise StaleDraft(f"the draft at {draft.base_offset} is of another store")
        if len(mine) < len(drafts):
            raise StaleDraft("a draft is not of this store")
        return sorted(mine, key=_base_offset)

    def _end_drafts(self, why: str) -> None:
        for draft in self._drafts.values():
            draft.stale = draft.stale or why
        self._drafts.clear()

    def flush(self) -> int:
        """Return the log end offset: nothing is to be flushed."""
        return self.log_end_offset

    def close(self) -> None:
        """Make all drafts stale."""
        with self._changing:
            self._is_closed = True
            self._end_drafts("the log was closed")


def _end_below(segment: ListedSegment, offset: int) -> int:
    """Return the log end offset once `segment` is the last one and is truncated to `offset`."""
    count = bisect_left(segment.batches, offset, key=_last_offset)
    return segment.batches[count - 1].last_offset + 1 if count else segment.base_offset


def _consecutive(segments: Sequence[ListedSegment], wanted: Sequence[int]) -> tuple[int, int]:
    """Return where inactive segments with these base offsets begin and end."""
    bases = [segment.base_offset for segment in segments[:-1]]
    start = bases.index(wanted[0]) if wanted and wanted[0] in bases else 0
    end = start + len(wanted)
    if not wanted or bases[start:end] != wanted:
        raise ValueError(f"{wanted} are no inactive segments that follow each other")
    return start, end


def _fitting(
    drafts: Sequence[ListedDraft], first: ListedSegment, behind: ListedSegment
) -> list[ListedSegment]:
    """Return the segments of drafts that are to stand from `first` on, in front of `behind`."""
    new = [draft.segment for draft in drafts]
    limits = [*(segment.base_offset for segment in new[1:]), behind.base_offset]
    fits = all(
        each.base_offset < limit and each.next_offset <= limit
        for each, limit in zip(new, limits, strict=False)
    )
    if not new or new[0].base_offset != first.base_offset or not fits:
        raise ValueError(f"the drafts do not fit in the place of those from {first.base_offset} on")
    return new


def _refuse_replaced(drafts: Sequence[ListedDraft], offsets: range) -> None:
    for draft in drafts:
        if any(old.start < offsets.stop and offsets.start < old.stop for old in draft.replaced):
            raise StaleDraft(f"segments were replaced since the draft at {draft.base_offset} was begun")
