"""What a storage does for one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.seams.storage.regions import LogSlice
from tidelog.kernel.seams.storage.segments import AbortedTransaction, SegmentDraft, SegmentView

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import BatchHeader


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

    @property
    def checkpointed_high_watermark(self) -> int:
        """The high watermark that was written down before the log was opened, 0 without one.

        It may be above the log's end when records were lost, and below it as a rule. Only a partition that
        another broker leads goes by it.
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
        """Blocking: begin to rewrite segments, as compaction does, into one that begins at `base_offset`.

        What the draft is made of is read after this call, so that the store knows when it is out of date.

        Raises:
            LogBusy: the partition is being moved, or is closed.
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
            StaleDraft: a draft is of another store or log directory, or the log is not what it was when the
                draft was begun, or what it is to replace was replaced since; the drafts are to be discarded.
            ValueError: the drafts do not fit there, or a segment is gone meanwhile.
            LogBusy: the partition is being moved, or is closed.
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
