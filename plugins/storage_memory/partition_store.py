"""The log of one partition in memory: segments that are lists of batches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, cast

from tidelog.kernel.errors import BatchTooLarge
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.records.stored import parse_stored
from tidelog.kernel.seams.storage import (
    EMPTY_SLICE,
    AbortedTransaction,
    LogSlice,
    SegmentDraft,
    SegmentSource,
    SegmentView,
    StaleDraft,
    WrittenBatch,
)
from tidelog.kernel.seams.storage.keys import SEGMENT_BYTES, max_segment_ms

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import BatchHeader, Buffer

_base_offset = attrgetter("base_offset")
_last_offset = attrgetter("last_offset")


class _Batch(NamedTuple):
    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes


class _Segment:
    """Batches in order; like a segment in files it has a fixed base offset."""

    __slots__ = ("aborted", "base_offset", "batches", "max_timestamp", "modified_ms", "next_offset", "size")

    def __init__(self, base_offset: int, now_ms: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.batches: list[_Batch] = []
        self.aborted: list[AbortedTransaction] = []
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.modified_ms = now_ms

    def add(self, batch: _Batch, now_ms: int) -> None:
        self.batches.append(batch)
        self.size += len(batch.data)
        self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)
        self.modified_ms = now_ms
        self.next_offset = batch.last_offset + 1

    def truncate_to(self, offset: int) -> None:
        del self.batches[bisect_left(self.batches, offset, key=_last_offset) :]
        del self.aborted[bisect_left(self.aborted, offset, key=_last_offset) :]
        self.size = sum(len(batch.data) for batch in self.batches)
        self.max_timestamp = max((batch.max_timestamp for batch in self.batches), default=NO_TIMESTAMP)
        self.next_offset = self.batches[-1].last_offset + 1 if self.batches else self.base_offset

    def view(self) -> SegmentView:
        """Return a view of the segment for cleanup policies."""
        return SegmentView(
            self.base_offset, self.next_offset, self.size, self.max_timestamp, self.modified_ms
        )


class MemorySegmentSource:
    """`SegmentSource` that carries its batches along."""

    index_bytes = 0
    time_index_bytes = 0

    def __init__(self, segment: _Segment) -> None:
        self.base_offset = segment.base_offset
        self._content = b"".join(batch.data for batch in segment.batches)

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


class MemoryDraftWriter:
    """`DraftWriter` that carries its batches back."""

    def __init__(self, base_offset: int) -> None:
        self.next_offset = base_offset
        self.size_bytes = 0
        self._batches: list[_Batch] = []

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
            self._batches.append(_Batch(base_offset, last_offset, max_timestamp, data))
            position += size
        self.next_offset = next_offset
        self.size_bytes += position

    def finish(self) -> Sequence[_Batch]:
        """Return all batches."""
        return self._batches


class MemorySegmentDraft:
    """`SegmentDraft` in memory; `stale` is the reason why it cannot be used any more, empty if it can."""

    def __init__(self, base_offset: int, now_ms: int) -> None:
        self.segment = _Segment(base_offset, now_ms)
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
        self.segment.add(
            _Batch(base_offset, last_offset, max_timestamp, bytes(batch)), self.segment.modified_ms
        )

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is in this segment."""
        self.check()
        self.segment.aborted.append(aborted)

    def writer(self) -> MemoryDraftWriter:
        """Return a writer for another process."""
        return MemoryDraftWriter(self.base_offset)

    def take(self, written: object) -> None:
        """Take over what a writer has written."""
        self.check()
        for batch in cast("Sequence[_Batch]", written):
            self.segment.add(batch, self.segment.modified_ms)

    def discard(self) -> None:
        """Make the draft stale."""
        self.stale = self.stale or "it was discarded"


class MemoryPartitionStore:
    """`PartitionStore` in memory; nothing here blocks."""

    log_directory = ""

    def __init__(self, config: TopicConfig, now_ms: Callable[[], int]) -> None:
        """Create an empty log."""
        self.configure(config)
        self._now_ms = now_ms
        self._segments: tuple[_Segment, ...] = (_Segment(0, now_ms()),)
        self._log_start = 0
        self._side_files: dict[str, bytes] = {}
        self.checkpointed_high_watermark = 0
        self._drafts: dict[int, MemorySegmentDraft] = {}
        self._rewritten: dict[str, int] = {}

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
            active = _Segment(base_offset, now_ms)
            self._segments = (*self._segments, active)
        active.add(_Batch(base_offset, last_offset, max_timestamp, bytes(batch)), now_ms)
        return rolled

    def prepare_roll(self) -> None:
        """Do nothing: a segment costs nothing here."""

    def roll(self) -> bool:
        """Begin a new active segment at the log end; return False if the active segment has no batch."""
        active = self._segments[-1]
        if not active.batches:
            return False
        self._segments = (*self._segments, _Segment(active.next_offset, self._now_ms()))
        return True

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on; never raises `WouldBlock`."""
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
            data = batch.data if not regions or len(batch.data) <= room else memoryview(batch.data)[:room]
            regions.append(data)
            size += len(data)
            end_offset = batch.last_offset + 1
        return LogSlice(tuple(regions), size, end_offset) if regions else EMPTY_SLICE

    def _batches_from(self, offset: int) -> Iterator[_Batch]:
        segments = self._segments
        first = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
        for segment in segments[first:]:
            batches = segment.batches
            for index in range(bisect_left(batches, offset, key=_last_offset), len(batches)):
                yield batches[index]

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction, whose marker was appended, unless it is known."""
        segments = self._segments
        index = max(bisect_right(segments, aborted.last_offset, key=_base_offset) - 1, 0)
        entries = segments[index].aborted
        if not entries or entries[-1].last_offset < aborted.last_offset:
            entries.append(aborted)

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
                return next(batch.data for batch in segment.batches if batch.max_timestamp >= timestamp_ms)
        return None

    def batch_of_max_timestamp(self) -> bytes | None:
        """Return the first batch with the largest timestamp of all."""
        batches = (batch for segment in self._segments for batch in segment.batches)
        found = max(batches, key=attrgetter("max_timestamp"), default=None)
        return None if found is None else found.data

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Iterate over the headers of the batches from the one that holds `from_offset` on."""
        for batch in self._batches_from(from_offset):
            yield parse_stored(batch.data)

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
        segments = self._segments
        if offset >= self.log_end_offset:
            return
        # Other records may be appended at the offsets of those that they have copied.
        self._end_drafts("the log was truncated since it was begun")
        if offset < segments[0].base_offset:
            self._segments = (_Segment(offset, self._now_ms()),)
        else:
            self._segments = segments[: bisect_right(segments, offset, key=_base_offset)]
            self._segments[-1].truncate_to(offset)
        end = self.log_end_offset
        self._log_start = min(self._log_start, end)
        self._rewritten = {policy: min(until, end) for policy, until in self._rewritten.items()}

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset`, if it is above."""
        self._log_start = max(self._log_start, offset)

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Drop segments that lie wholly below `offset`, never the active one; return those."""
        segments = self._segments
        count = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
        self._segments = segments[count:]
        return [segment.view() for segment in segments[:count]]

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        """Return the inactive segments with base offsets below `until`, oldest first."""
        return [MemorySegmentSource(each) for each in self._segments[:-1] if each.base_offset < until]

    def draft_segment(self, base_offset: int) -> MemorySegmentDraft:
        """Begin to rewrite segments into one that begins at `base_offset`."""
        older = self._drafts.get(base_offset)
        if older is not None:
            older.stale = older.stale or "another draft was begun at its base offset"
        draft = self._drafts[base_offset] = MemorySegmentDraft(base_offset, self._now_ms())
        return draft

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Put drafts in the place of the segments with the base offsets `replaced`."""
        mine = self._usable(drafts)
        segments, wanted = self._segments, sorted(replaced)
        bases = [segment.base_offset for segment in segments[:-1]]
        start = bases.index(wanted[0]) if wanted and wanted[0] in bases else 0
        end = start + len(wanted)
        if not wanted or bases[start:end] != wanted:
            raise ValueError(f"{wanted} are no inactive segments that follow each other")
        new = [draft.segment for draft in mine]
        limits = [*(segment.base_offset for segment in new[1:]), segments[end].base_offset]
        fits = all(
            each.base_offset < limit and each.next_offset <= limit
            for each, limit in zip(new, limits, strict=False)
        )
        if not new or new[0].base_offset != wanted[0] or not fits:
            raise ValueError(f"the drafts do not fit in the place of {wanted}")
        self._note_replacement(mine, range(wanted[0], segments[end].base_offset))
        kept = [segment for index, segment in enumerate(new) if segment.size or not (start or index)]
        for segment in kept:
            segment.modified_ms = max(old.modified_ms for old in segments[start:end])
        self._segments = (*segments[:start], *kept, *segments[end:])

    def _usable(self, drafts: Sequence[SegmentDraft]) -> list[MemorySegmentDraft]:
        mine = [draft for draft in drafts if isinstance(draft, MemorySegmentDraft)]
        for draft in mine:
            draft.check()
            if self._drafts.get(draft.base_offset) is not draft:
                raise StaleDraft(f"the draft at {draft.base_offset} is of another store")
        if len(mine) < len(drafts):
            raise StaleDraft("a draft is not of this store")
        return sorted(mine, key=_base_offset)

    def _note_replacement(self, used: Sequence[MemorySegmentDraft], offsets: range) -> None:
        # All are checked before any is marked, so that a refusal changes nothing.
        for draft in used:
            if any(old.start < offsets.stop and offsets.start < old.stop for old in draft.replaced):
                raise StaleDraft(f"segments were replaced since the draft at {draft.base_offset} was begun")
        for draft in used:
            draft.stale = "it was used"
        for draft in self._drafts.values():
            draft.replaced.append(offsets)

    def _end_drafts(self, why: str) -> None:
        for draft in self._drafts.values():
            draft.stale = draft.stale or why
        self._drafts.clear()

    def flush(self) -> int:
        """Return the log end offset: nothing is to be flushed."""
        return self.log_end_offset

    def side_files(self) -> Sequence[str]:
        """Return the names of the side files, sorted."""
        return sorted(self._side_files)

    def read_side_file(self, name: str) -> bytes | None:
        """Return the content of a side file, None when there is none."""
        return self._side_files.get(name)

    def write_side_file(self, name: str, content: bytes) -> None:
        """Replace a side file."""
        self._side_files[name] = content

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """Remove a side file; no error when there is none."""
        del durable
        self._side_files.pop(name, None)

    def close(self) -> None:
        """Make all drafts stale."""
        self._end_drafts("the log was closed")
