"""What a storage does for one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.seams.storage.regions import LogSlice
from tidelog.kernel.seams.storage.segments import (
    AbortedTransaction,
    SegmentDraft,
    SegmentSource,
    SegmentView,
)

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import BatchHeader


class PartitionStore(Protocol):
    """The bytes of one partition.

    Offsets grow strictly; there is always at least one segment. After an `OSError` from `append_batch` the
    store is as before.
    """

    @property
    def log_directory(self) -> str:
        """The log directory that has the partition now, empty in a storage without any.

        Flushes in different ones run at the same time, as they wait for different devices.
        """
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        ...

    @property
    def first_segment_offset(self) -> int:
        """The base offset of the oldest segment: batches from it on are there, below the log start, too."""
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
        """The offset below which everything survives a power loss, as far as this store can guarantee that.

        After a kill it is below the log end until a flush.
        """
        ...

    @property
    def aborted_known_until(self) -> int:
        """The offset below whose markers no aborted transaction is missing from the index after opening.

        The kernel finds the others in the log and adds them again.
        """
        ...

    @property
    def checkpointed_high_watermark(self) -> int:
        """The high watermark of the last checkpoint before the log was opened, 0 without one.

        It is usually below the log end, and above it when records were lost. Only a partition that another
        broker leads uses it.
        """
        ...

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """Add one batch whose header is stamped; its bytes are in the page cache when this returns.

        Rolls to a new segment first when the batch calls for one, and then returns True.

        Raises:
            BatchTooLarge: the batch is larger than a segment may be.
            ValueError: the offsets do not follow those in the log.
            OSError: the disk refused; nothing was appended.
        """
        ...

    def prepare_roll(self) -> None:
        """Blocking: create what `roll` needs, so that it hardly waits for the disk.

        Raises:
            OSError: the disk refused.
        """
        ...

    def roll(self) -> bool:
        """Begin a new active segment at the log end; return False if the active segment has no batch.

        Called between two appends, after `prepare_roll`.

        Raises:
            OSError: the disk refused; the old segment is still active.
        """
        ...

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset`, up to `max_bytes`, below `limit_offset`.

        The first batch comes whole even if it is larger than `max_bytes`; no batch whose base offset is at or
        above `limit_offset` is in the slice. `offset == limit_offset` gives an empty slice. The caller has
        checked `log_start_offset <= offset <= limit_offset <= log_end_offset`. When `offset` is in a gap
        (compaction), the slice starts at the next batch.

        Raises:
            WouldBlock: the position cannot be found without waiting for the disk (never with `wait=True`).
        """
        ...

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is in the log; calls come in the order of the markers.

        One whose marker is not above the last one of its segment is in the index already, and ignored.

        Raises:
            OSError: the disk refused; nothing was added.
        """
        ...

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Return aborted transactions that overlap `[from_offset, to_offset)`, in the order of their markers.

        An entry whose last stable offset is at or above `to_offset` ends the search: no later one overlaps.
        Truncating and deleting remove the entries whose markers they remove.

        Raises:
            WouldBlock: the disk has to be waited for (never with `wait=True`).
        """
        ...

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """Blocking: return the first batch with a max timestamp of at least `timestamp_ms`, if any."""
        ...

    def batch_of_max_timestamp(self) -> bytes | None:
        """Blocking: return the first batch with the log's largest max timestamp, None in an empty log."""
        ...

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Blocking: iterate over the headers of all batches from the one that holds `from_offset`.

        Their CRC may be that of the bytes that are stored, where these are not those that are read.
        """
        ...

    def segments(self) -> Sequence[SegmentView]:
        """Blocking: return all segments, oldest first; the last one is the active segment.

        Segments may be deleted or replaced at the same time.

        Raises:
            OSError: the disk refused, or the partition was deleted.
        """
        ...

    def first_timestamp(self, base_offset: int) -> int:
        """Blocking: return the largest timestamp of the first batch of the segment with that base offset.

        -1 if there is no such segment any more, or if it has no batch.

        Raises:
            OSError: the disk refused.
        """
        ...

    def rewritten_until(self, policy: str) -> int | None:
        """Return the offset below which a cleanup policy has rewritten the log, None if that is not known.

        It survives a clean stop, and may lie outside of the log. A truncation lowers it to the new log end.
        """
        ...

    def set_rewritten_until(self, policy: str, offset: int) -> None:
        """Blocking: note durably how far a cleanup policy has rewritten the log.

        Raises:
            OSError: the disk refused.
        """
        ...

    def configure(self, config: TopicConfig) -> None:
        """Apply a changed topic configuration."""
        ...

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop every batch that holds `offset` or a later one; keep at least one segment.

        The log then ends after the last batch of its new active segment, or at the base offset of that
        segment if it is empty. Below the first base offset, the log is emptied and starts at `offset`.
        Nothing is appended meanwhile.
        """
        ...

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset` if that is above it; a clean stop stores it.

        Batches below it stay until `delete_segments_before`; the caller has checked that it is not above the
        log end offset.
        """
        ...

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Blocking: delete segments wholly below `offset`, except the active one; return those, oldest first.

        Nothing is deleted from a store that is closed.

        Raises:
            OSError: the disk refused; the segments that were not deleted yet are still there.
        """
        ...

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        """Return the inactive segments with base offsets below `until`, oldest first, to be read anywhere."""
        ...

    def draft_segment(self, base_offset: int) -> SegmentDraft:
        """Blocking: begin to rewrite segments, as compaction does, into one with this base offset.

        The batches of the draft are read after this call, so that the store knows when it is stale.

        Raises:
            LogBusy: the partition is being moved, or is closed.
            OSError: the disk refused.
        """
        ...

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Blocking: replace the segments with the base offsets `replaced` by drafts.

        The segments are consecutive, the active one is not among them, and the first draft has the base
        offset of the first of them. A crash leaves all of the old segments or all of the new. A draft without
        batches leaves no segment, except at the log start. Offsets without a record are a gap. The files of
        the old segments stay for `file.delete.delay.ms`.

        Raises:
            StaleDraft: a draft is of another store or log directory, or the log was changed below it, or its
                segments were replaced since; the drafts are to be discarded.
            ValueError: the drafts do not fit there, or a segment was deleted meanwhile.
            LogBusy: the partition is being moved, or is closed.
            OSError: the disk refused; the old segments are still in place. If the replacement was already
                committed, the partition takes no more appends, and the next start completes it.
        """
        ...

    def flush(self) -> int:
        """Blocking: make everything appended so far durable; return the offset below which it is."""
        ...

    def side_files(self) -> Sequence[str]:
        """Return the names of the files beside the log (`*.snapshot`, `leader-epoch-checkpoint`), sorted."""
        ...

    def read_side_file(self, name: str) -> bytes | None:
        """Return the content of a file beside the log, None if it does not exist."""
        ...

    def write_side_file(self, name: str, content: bytes) -> None:
        """Blocking: replace a file beside the log atomically and durably."""
        ...

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """Blocking: remove a file beside the log; no error if it does not exist.

        Without `durable` a power loss may bring it back.
        """
        ...

    def close(self) -> None:
        """Blocking: flush, trim and close; the last call. Regions that were returned stay readable."""
        ...
