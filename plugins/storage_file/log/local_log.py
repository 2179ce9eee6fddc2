"""The log of one partition in one log directory: appends, rolling, removal of segments, flushes.

It knows neither other directories nor what may happen to it at the same time; `FilePartitionStore` does.
Source: Apache Kafka's `LocalLog`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel import disk
from tidelog.kernel.errors import BatchTooLarge
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.plugins.storage_file.disk_errors import reports_disk_errors
from tidelog.plugins.storage_file.log_config import RollPolicy
from tidelog.plugins.storage_file.names import DELETED_SUFFIX
from tidelog.plugins.storage_file.segments.creation import SegmentSettings, SpareSegment, create_segment

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import Buffer
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.seams.storage import SegmentView
    from tidelog.plugins.storage_file.log.durability import Durability
    from tidelog.plugins.storage_file.log.replacement import Replacement
    from tidelog.plugins.storage_file.log.side_files import SideFiles
    from tidelog.plugins.storage_file.log_config import LogConfig
    from tidelog.plugins.storage_file.segments.log_segments import LogSegments
    from tidelog.plugins.storage_file.segments.segment import Segment
    from tidelog.plugins.storage_file.services import Services


class LocalLog:
    """Segments in `directory`, of which the last takes the appends, and the side files of the partition.

    `append_or_roll` and `roll` are called on the event loop, what is marked as blocking in a thread.
    `label` names the partition in messages, `services` are those of the log directory.
    """

    __slots__ = (
        "_failure",
        "_index_format",
        "_label",
        "_policy",
        "_spare",
        "_touched",
        "config",
        "directory",
        "durability",
        "segments",
        "services",
        "side_files",
    )

    def __init__(
        self,
        label: str,
        directory: str,
        config: LogConfig,
        services: Services,
        index_format: IndexFormat,
        segments: LogSegments,
        side_files: SideFiles,
        durability: Durability,
        *,
        touched: bool,
    ) -> None:
        """`touched`: files are not as a clean stop leaves them."""
        self._label = label
        self.directory = directory
        self.config = config
        self.services = services
        self._index_format = index_format
        self.segments = segments
        self.side_files = side_files
        self.durability = durability
        self._policy = RollPolicy.of(config)
        self._spare = SpareSegment()
        self._touched = touched
        self._failure: OSError | None = None

    @property
    def recovery_point(self) -> int:
        """The offset from which the log has to be checked after a crash."""
        return self.durability.recovery_point(self.segments.all)

    def configure(self, config: LogConfig) -> None:
        """Use another configuration from the next append on."""
        self.config = config
        self._policy = RollPolicy.of(config)
        self.segments.active.configure(config.segment_index_bytes)

    def settings(self) -> SegmentSettings:
        """Return how a segment is created now."""
        return SegmentSettings.of(self.config, self._index_format, self.services.now_ms())

    # --- errors of the disk

    def report_disk_error(self, error: OSError) -> None:
        """Report that the disk refused; the log directory decides whether it has failed."""
        self.services.disk_failed(error)

    def check(self) -> None:
        """Refuse to continue after `fail`.

        Raises:
            OSError: the log directory failed.
        """
        if self._failure is not None:
            raise OSError(self._failure.errno, str(self._failure.strerror))

    def fail(self, error: OSError) -> None:
        """Refuse what would need the log directory, which failed, and touch no file there any more."""
        # First: `close` and flushes in other threads look at it before they touch a file.
        self._failure = error
        self.durability.fail(error)
        self._spare.close()
        self._touched = False
        # Appends to a segment that sleeps take the slow path, which refuses them.
        self.segments.sleep()

    # --- appends and rolling

    def append_or_roll(
        self, batch: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> bool:
        """Append one batch of `size` bytes on the slow path; return whether a segment was rolled.

        Raises:
            BatchTooLarge: it is larger than a segment may be.
            ValueError: its offsets do not follow those of the log.
            OSError: the disk refused, now or at an earlier flush.
        """
        segment = self.segments.active
        self.durability.check()
        if size > self.config.segment_bytes:
            raise BatchTooLarge(
                f"a batch of {size} bytes is larger than a segment of {self._label} "
                f"({self.config.segment_bytes} bytes)"
            )
        if base_offset < segment.next_offset:
            raise ValueError(f"offsets {base_offset} to {last_offset} do not follow {segment.next_offset}")
        self._touched = True
        try:
            now_ms = self.services.now_ms
            rolled = segment.should_roll(self._policy, size, last_offset, max_timestamp, now_ms)
            if rolled:
                segment = self.roll(base_offset)
            self._append_to(segment, batch, size, last_offset, max_timestamp)
        except OSError as error:
            self.report_disk_error(error)
            raise
        return rolled

    def _append_to(
        self, segment: Segment, batch: Buffer, size: int, last_offset: int, max_timestamp: int
    ) -> None:
        first = not segment.size
        if first:
            segment.index_interval_bytes = self.config.index_interval_bytes
        elif self._spare.is_wanted and segment.exceeds(
            self._half_policy(), size, max_timestamp, self.services.now_ms
        ):
            self._request_spare()
        if segment.wake(self._next_limits()) >= self.services.descriptor_budget:
            # The system numbers descriptors from 0 on, so that many are open.
            # Or else this segment, too, might count as idle, and lose its descriptor just before the append.
            segment.touched = True
            self.services.release_idle()
        segment.append_to_segment(batch, size, last_offset, max_timestamp)
        if first:
            # Only now can the limit for rolling by age be computed.
            segment.first_timestamp = max_timestamp
            segment.wake(self._next_limits())

    def _next_limits(self) -> RollPolicy:
        """Return the limits up to which appends take the fast path."""
        return self._half_policy() if self._spare.is_wanted else self._policy

    def _half_policy(self) -> RollPolicy:
        return self._policy.half(self.config.segment_index_bytes)

    def _request_spare(self) -> None:
        """Have the files of the next segment created in a thread."""
        spare, directory, settings = self._spare, self.directory, self.settings()
        spare.is_wanted = False

        def create() -> None:
            try:
                spare.create(directory, settings)
            except OSError as error:
                # Rolling creates the files itself then, and the producer gets the error if that is refused.
                self.report_disk_error(error)

        self.services.in_thread(f"next segment {self._label}", create)

    def create_spare(self) -> None:
        """Blocking: create the files of the next segment, unless they are there.

        Raises:
            OSError: the disk refused.
        """
        if not self._spare.is_ready:
            self._spare.is_wanted = False
            try:
                self._spare.create(self.directory, self.settings())
            except OSError as error:
                self.report_disk_error(error)
                raise

    def roll_at_end(self) -> bool:
        """Begin a new active segment at the log end; return False if the active segment has no batch.

        Raises:
            OSError: the disk refused, now or at an earlier flush; the old segment is still active.
        """
        active = self.segments.active
        if not active.size:
            return False
        self.durability.check()
        try:
            self.roll(active.next_offset)
        except OSError as error:
            self.report_disk_error(error)
            raise
        return True

    def roll(self, base_offset: int) -> Segment:
        """Start a new active segment; the old one is finished and made durable in the background.

        Without a spare segment its files are created here, and not preallocated: that could take long.

        Raises:
            OSError: the disk refused; the old segment stays active.
        """
        self._touched = True
        settings = self.settings()
        # The new files first: if the disk refuses them, the old segment is still the active one.
        new = self._spare.take(self.directory, base_offset, settings)
        if new is None:
            new = create_segment(self.directory, base_offset, settings._replace(preallocate_bytes=0))
        self.segments.active.become_inactive()
        # Before the segment is added, so that a flush of anything in it also makes its name durable.
        self.durability.files_created()
        self._policy = RollPolicy.of(self.config)
        self.segments.add(new)
        self.services.in_thread(f"flush {self._label}", self.flush_inactive)
        return new

    # --- removal of segments

    @reports_disk_errors
    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the batch that holds `offset` and all later ones.

        Raises:
            OSError: the disk refused.
        """
        self._touched = True
        segment_base = self.segments.from_offset(offset)[0].base_offset
        with self.segments.removing(), self.durability.cutting(offset, segment_base) as lowered:
            if lowered:
                # Before the cut: so what is appended in place of what was dropped is checked after a crash.
                self.services.write_recovery_points()
            self._cut(offset)
            self.durability.sync_cut(self.segments.active)
        disk.sync_directory(self.directory)

    def _cut(self, offset: int) -> None:
        if offset < self.segments.start_offset:
            new = create_segment(self.directory, offset, self.settings())
            self.durability.files_created()
            dropped = self.segments.replace_all(new)
        else:
            dropped = self.segments.take_after(offset)
        # The newest goes first: a crash in between leaves no hole.
        for segment in reversed(dropped):
            segment.remove_files()
        self.segments.active.truncate_to(offset)

    @reports_disk_errors
    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Blocking: delete segments that lie wholly below `offset`, never the active one; return those.

        Raises:
            OSError: the disk refused; segments whose files were not renamed are still there.
        """
        with self.segments.removing():
            taken = self.segments.take_before(offset)
            deleted: list[SegmentView] = []
            try:
                for segment in taken:
                    # Before the files are renamed, since it may have to look at one of them.
                    view = segment.view(active=False)
                    self._mark_deleted(segment)
                    deleted.append(view)
            except OSError:
                kept = taken[len(deleted) :]
                for segment in kept:
                    segment.removed = False
                self.segments.put_back(kept)
                raise
            if taken:
                disk.sync_directory(self.directory)
                self.durability.sync_parent(self.directory)
            return deleted

    def _mark_deleted(self, segment: Segment) -> None:
        # First: a reader that opens a file of that name from here on does not know which it is. The `.log` is
        # renamed before the indexes, which a start removes where there is no `.log`.
        segment.removed = True
        renamed: list[str] = []
        try:
            for suffix in segment.suffixes:
                path = segment.path(suffix)
                with contextlib.suppress(FileNotFoundError):
                    disk.rename(path, path + DELETED_SUFFIX)
                    renamed.append(path)
        except OSError:
            # Without its `.log` the segment could be neither read nor deleted again. That comes back last, so
            # that a crash in between leaves the segment deleted.
            for path in reversed(renamed):
                disk.rename(path + DELETED_SUFFIX, path)
            raise
        self.services.delete_later(
            [path + DELETED_SUFFIX for path in renamed], self.config.file_delete_delay_ms
        )

    @reports_disk_errors
    def replace_segments(self, replacement: Replacement) -> None:
        """Blocking: carry out a replacement, whose drafts were checked.

        Raises:
            OSError: the disk refused. When that came too late to undo it, the log takes no more appends.
        """
        with self.segments.removing():
            replacement.prepare()
            try:
                replacement.complete(self._mark_deleted)
            except OSError as error:
                self.durability.fail(error)
                self.segments.force_slow_path()
                raise

    # --- durability

    def flush(self) -> int:
        """Blocking: make the whole log durable; return the offset up to which it is.

        Raises:
            OSError: the disk refused, now or at an earlier flush.
        """
        return self._flush(lambda: self.segments.all, growing=True)

    def flush_inactive(self) -> None:
        """Blocking: make the inactive segments durable.

        Raises:
            OSError: as for `flush`.
        """
        self._flush(lambda: self.segments.all[:-1], growing=False)

    @reports_disk_errors
    def _flush(self, choose: Callable[[], Sequence[Segment]], *, growing: bool) -> int:
        while True:
            with self.segments.changing:
                # A replica move may rename the directory at any moment while the lock is not held.
                directory = self.directory
                try:
                    self._finish_inactive()
                except OSError as error:
                    # A full disk is no reason to fail a flush; there may be room at the next one.
                    if not disk.is_full(error):
                        raise
            try:
                return self.durability.flush(choose, directory, growing=growing)
            except OSError as error:
                if isinstance(error, FileNotFoundError) and self.directory != directory:
                    continue
                # The next append gets the error.
                self.segments.force_slow_path()
                raise

    def _finish_inactive(self) -> None:
        """Blocking: finish what became inactive, while no other segment takes its names."""
        if self._failure is not None or self.durability.is_retired:
            # Its files have other names now, or belong to a new partition of its name.
            return
        for segment in self.segments.all[:-1]:
            # Looked at here: a log may have thousands that are finished, and this is done for each flush.
            if segment.unfinished:
                segment.finish()

    def close(self) -> None:
        """Blocking: leave the files as a clean stop does, and release them; nothing to do after `fail`.

        Raises:
            OSError: as for `flush`.
        """
        if self._failure is not None:
            return
        active = self.segments.active
        # A log that was only read since a clean stop is left as it is, without opening a file.
        if self._touched:
            active.close_indexes()
            active.trim_log()
            active.indexes_durable = False
            self._touched = False
        with self.segments.changing:
            self._finish_inactive()
        self._spare.remove(self.directory)
        self._flush(lambda: self.segments.all, growing=False)
        self.segments.sleep()

    def retire(self) -> None:
        """Blocking: make nothing durable any more, since the partition was deleted."""
        with self.segments.changing:
            self.abandon()

    def abandon(self) -> None:
        """Make nothing durable any more; `changing` is held."""
        self.durability.retire()
        self._spare.close()
        self._touched = False

    def rename(self, directory: str) -> None:
        """Rename the directory on the event loop, with `changing` held.

        Raises:
            OSError: the disk refused; nothing has changed.
        """
        disk.rename(self.directory, directory)
        for segment in self.segments.all:
            segment.relocate(IndexPlace(directory, segment.base_offset))
        self.durability.parent_changed()
        self.directory = self.side_files.directory = directory
        # Readers that met the old path repeat, see `LogSegments.changed_since`.
        self.segments.changes += 1
        self._touched = True
