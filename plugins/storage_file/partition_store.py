"""One partition in files: its log in one log directory, and what may happen to it at the same time.

Source: Apache Kafka's `UnifiedLog`, which has a `LocalLog` below it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import LogBusy
from tidelog.kernel.seams.storage import (
    AbortedTransaction,
    SegmentDraft,
    SegmentSource,
    SegmentView,
)
from tidelog.plugins.storage_file.disk_errors import reports_disk_errors
from tidelog.plugins.storage_file.log.drafts import Drafts
from tidelog.plugins.storage_file.log.operations import Operation, Operations
from tidelog.plugins.storage_file.log.replacement import Replacement
from tidelog.plugins.storage_file.log_config import LogConfig
from tidelog.plugins.storage_file.readable_store import ReadableStore

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import Buffer
    from tidelog.kernel.seams.storage import TopicPartition
    from tidelog.plugins.storage_file.log.drafts import FileSegmentDraft
    from tidelog.plugins.storage_file.log.future_replica import FutureReplica
    from tidelog.plugins.storage_file.log.local_log import LocalLog
    from tidelog.plugins.storage_file.services import Services


class FilePartitionStore(ReadableStore):
    """`PartitionStore` over `log`, which a replica move replaces by the log in another directory.

    `append_batch` runs on the event loop only. `operations` decides what may be done to segments at the same
    time. While `future_replica` is set, every change of the log is made there too. `rewritten` has for each
    cleanup policy the offset below which it has rewritten the log.
    """

    __slots__ = (
        "_aborted_known_until",
        "_drafts",
        "_noting_rewritten",
        "_writing_side_files",
        "checkpointed_high_watermark",
        "future_replica",
        "operations",
        "rewritten",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        log: LocalLog,
        log_start_offset: int,
        aborted_known_until: int | None,
    ) -> None:
        """Entries of transaction indexes may be missing from `aborted_known_until` on, None: nowhere."""
        super().__init__(topic_partition, log, log_start_offset)
        self.operations = Operations(str(topic_partition))
        self.future_replica: FutureReplica | None = None
        self.checkpointed_high_watermark = 0
        self.rewritten: dict[str, int] = {}
        self._drafts = Drafts(self.operations)
        self._noting_rewritten = threading.Lock()
        self._aborted_known_until = aborted_known_until
        self._writing_side_files = threading.Lock()

    # --- state

    @property
    def directory(self) -> str:
        """Path of the partition's directory."""
        return self.log.directory

    @property
    def log_directory(self) -> str:
        """Path of the log directory that has it."""
        return self.log.directory.rpartition("/")[0]

    @property
    def config(self) -> LogConfig:
        """Return the log's configuration."""
        return self.log.config

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self.log.segments.start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next batch gets."""
        return self.log.segments.active.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self.log.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """The offset from which the log has to be checked after a crash."""
        return self.log.recovery_point

    @property
    def durable_offset(self) -> int:
        """Return the offset up to which everything is durable."""
        return self.log.durability.offset

    @property
    def aborted_known_until(self) -> int:
        """The offset from which on aborted transactions have to be looked for in the log."""
        known = self._aborted_known_until
        return self.log_end_offset if known is None else known

    def rewritten_until(self, policy: str) -> int | None:
        """Return the offset below which a cleanup policy has rewritten the log."""
        return self.rewritten.get(policy)

    @reports_disk_errors
    def set_rewritten_until(self, policy: str, offset: int) -> None:
        """Blocking: checkpoint how far a cleanup policy has rewritten the log.

        Raises:
            OSError: the disk refused.
        """
        self.log.check()
        with self._noting_rewritten:
            self.rewritten = {**self.rewritten, policy: offset}
        self.log.services.write_rewritten()
        future = self.future_replica
        if future is not None:
            future.follow("checkpoint", lambda copy: copy.set_rewritten_until(policy, offset))

    def configure(self, config: TopicConfig) -> None:
        """Use another configuration of the topic from the next append on."""
        self.log.configure(config.derive(LogConfig.of))

    # --- appends

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """Append one batch; return whether a segment was rolled. See `PartitionStore` for errors."""
        size = len(batch)
        segment = self.log.segments.active
        if (
            # These limits stand for all that needs the slow path: that of a segment which sleeps, after a
            # failed flush, or with a future replica, is below any size.
            segment.size + size > segment.byte_limit
            or max_timestamp > segment.roll_after
            or last_offset > segment.offset_limit
            or base_offset < segment.next_offset
        ):
            return self._append_on_slow_path(batch, size, base_offset, last_offset, max_timestamp)
        try:
            segment.append_to_segment(batch, size, last_offset, max_timestamp)
        except OSError as error:
            self.log.report_disk_error(error)
            raise
        return False

    def _append_on_slow_path(
        self, batch: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> bool:
        rolled = self.log.append_or_roll(batch, size, base_offset, last_offset, max_timestamp)
        future = self.future_replica
        if future is not None:
            future.follow(
                "append", lambda copy: copy.append_batch(batch, base_offset, last_offset, max_timestamp)
            )
            # Every append has to reach the future replica.
            self.log.segments.force_slow_path()
        return rolled

    def prepare_roll(self) -> None:
        """Blocking: create the files of the next segment.

        Raises:
            OSError: the disk refused.
        """
        self.log.check()
        self.log.create_spare()

    def roll(self) -> bool:
        """Begin a new active segment at the log end; return False if the active segment has no batch.

        Raises:
            OSError: the disk refused; the old segment is still active.
        """
        self.log.check()
        rolled = self.log.roll_at_end()
        future = self.future_replica
        if rolled and future is not None:
            future.follow("roll", lambda copy: copy.roll())
        return rolled

    @reports_disk_errors
    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction, whose marker was appended, to the transaction index."""
        segment = self.log.segments.from_offset(aborted.last_offset)[0]
        if segment.aborted.append(aborted):
            self.log.durability.files_created()
        future = self.future_replica
        if future is not None:
            future.follow("transaction index", lambda copy: copy.add_aborted(aborted))

    # --- removal and replacement of segments

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the batch that holds `offset` and all later ones.

        Raises:
            LogBusy: the partition is closed.
            OSError: the disk refused.
        """
        self.log.check()
        if offset >= self.log_end_offset:
            return
        with self.operations.during(Operation.TRUNCATE):
            # The replica move was aborted.
            self.future_replica = None
            start = self._start_offset
            # Before the cut: after a crash in between, what is appended in place of what was dropped must not
            # count as rewritten.
            self._lower_rewritten(offset)
            try:
                self.log.truncate_to(offset)
            finally:
                self._start_offset = min(start, self.log_end_offset)
            # The batch that held the offset is gone whole: what comes in its place was not rewritten.
            self._lower_rewritten(self.log_end_offset)
            if self._start_offset < start:
                # The batch that held the log start is gone. By the old checkpoint, a crash would start there.
                self.log.services.write_log_starts()

    @reports_disk_errors
    def _lower_rewritten(self, offset: int) -> None:
        """Note durably that what is appended from `offset` on was not rewritten."""
        with self._noting_rewritten:
            lowered = {policy: min(until, offset) for policy, until in self.rewritten.items()}
            is_lower, self.rewritten = lowered != self.rewritten, lowered
        if is_lower:
            self.log.services.write_rewritten()

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset`, if it is above."""
        self._start_offset = max(self._start_offset, offset)
        future = self.future_replica
        if future is not None:
            future.copy.raise_log_start(offset)

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Blocking: delete segments that lie wholly below `offset`, never the active one; return those.

        Raises:
            OSError: the disk refused.
        """
        self.log.check()
        try:
            deletion = self.operations.begin(Operation.DELETE)
        except LogBusy:
            # Closed or deleted: there is nothing left to delete from.
            return ()
        try:
            deleted = self.log.delete_segments_before(offset)
            if deleted:
                self.operations.inform(deletion, 0, self.log_start_offset)
            return deleted
        finally:
            self.operations.end(deletion)

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        """Return the inactive segments with base offsets below `until`, oldest first."""
        return self.log.segments.sources(until)

    @reports_disk_errors
    def draft_segment(self, base_offset: int) -> FileSegmentDraft:
        """Blocking: begin to rewrite segments into one that begins at `base_offset`."""
        self.log.check()
        return self._drafts.begin(lambda: self.log.directory, base_offset, self.log.settings())

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Blocking: put drafts in the place of the segments with the base offsets `replaced`."""
        self.log.check()
        self._drafts.check(drafts)
        with self.operations.during(Operation.REPLACE) as replacing:
            # Again: an operation that this one had to wait for may have aborted a draft or moved the log.
            log, mine = self.log, self._drafts.check(drafts)
            replacement = Replacement(log.directory, log.segments, mine, replaced)
            start_offset, end_offset = replacement.start_offset, replacement.end_offset
            self._drafts.check_up_to_date(mine, start_offset, end_offset)
            # Their files are renamed from here on, or removed.
            self._drafts.use(mine)
            log.replace_segments(replacement)
            self.operations.inform(replacing, start_offset, end_offset)

    # --- side files

    def side_files(self) -> Sequence[str]:
        """Return the names of the files beside the log, sorted."""
        return self.log.side_files.names()

    @reports_disk_errors
    def read_side_file(self, name: str) -> bytes | None:
        """Blocking: return the content of a file beside the log, None when it is not there."""
        return self.log.side_files.read(name)

    @reports_disk_errors
    def write_side_file(self, name: str, content: bytes) -> None:
        """Blocking: replace a file beside the log atomically and durably."""
        self.log.check()
        with self._writing_side_files:
            self.log.side_files.write(name, content)
            future = self.future_replica
            if future is not None:
                future.follow("side file", lambda copy: copy.write_side_file(name, content))

    @reports_disk_errors
    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """Blocking: remove a side file, durably with `durable`; no error when it is missing."""
        self.log.check()
        with self._writing_side_files:
            self.log.side_files.delete(name, durable=durable)
            future = self.future_replica
            if future is not None:
                future.follow("side file", lambda copy: copy.delete_side_file(name, durable=durable))

    # --- replica moves

    def copy_side_files_to(self, copy: FilePartitionStore) -> None:
        """Blocking: give the future replica the side files of the log, and no others.

        Raises:
            OSError: a disk refused.
        """
        with self._writing_side_files:
            # One that was being written when the replica began to follow is not there, and is named only now.
            names = self.side_files()
        for name in names:
            with self._writing_side_files:
                content = self.log.side_files.read(name)
                if content is not None:
                    copy.write_side_file(name, content)
        with self._writing_side_files:
            for name in set(copy.side_files()) - set(self.side_files()):
                copy.delete_side_file(name, durable=True)

    def follow_with(self, future_replica: FutureReplica) -> None:
        """Change a future replica, which has all that the log has, along with the log from now on."""
        self.future_replica = future_replica
        self.log.segments.force_slow_path()

    def swap_in(self, copy: FilePartitionStore, directory: str, services: Services) -> bool:
        """Continue with the log of the future replica `copy` under its final path `directory`.

        `services` are those of the log directory in which it is. Called on the event loop, so that it comes
        between two appends. Returns False when the future replica is behind, or when files are being changed
        and it has to be tried again.

        Raises:
            OSError: the disk refused the name; nothing has changed.
        """
        future = self.future_replica
        if future is None or future.behind:
            return False
        old, new = self.log, copy.log
        with contextlib.ExitStack() as stack:
            for lock in (old.segments.changing, new.segments.changing, self._writing_side_files):
                # The event loop must not wait for a thread; the caller tries again.
                if not lock.acquire(blocking=False):
                    return False
                stack.callback(lock.release)
            new.rename(directory)
            new.services = services
            new.configure(old.config)
            self._start_offset = max(self._start_offset, copy._start_offset)
            self.log = new
            self.future_replica = None
            old.abandon()
        return True

    # --- durability and the end

    def flush(self) -> int:
        """Blocking: make all that was appended so far durable; return the offset up to which it is.

        Raises:
            OSError: the disk refused, now or since the partition was opened.
        """
        while True:
            log, future = self.log, self.future_replica
            flushed = log.flush()
            # One that began to follow meanwhile has some of what was flushed, and may count before long.
            future = self.future_replica or future
            if future is not None:
                future.follow("flush", lambda copy: copy.flush())
            # A log that was swapped out meanwhile flushes nothing, and the one in its place has to.
            if self.log is log:
                return flushed

    def report_disk_error(self, error: OSError) -> None:
        """Report that the disk refused an operation."""
        self.log.report_disk_error(error)

    def release_idle(self) -> None:
        """Release descriptors and mappings of segments that were not used since the last call."""
        self.log.segments.sleep_if_idle()

    def fail(self, error: OSError) -> None:
        """Refuse what would need the log directory, which failed, and touch no file there any more."""
        self.log.fail(error)
        self.operations.begin(Operation.FAIL)

    def retire(self) -> None:
        """Blocking: make nothing durable any more, since the partition is to be deleted."""
        self.operations.begin(Operation.CLOSE)
        self.log.retire()

    def delete_later(self, path: str) -> None:
        """Remove the partition's directory, which was renamed to `path`, after the topic's delay."""
        self.log.services.delete_later([path], self.config.file_delete_delay_ms)
        self.log.segments.sleep()

    def close(self) -> None:
        """Blocking: flush, trim and close; the last call."""
        self.operations.begin(Operation.CLOSE)
        self.log.close()
