"""The log of one partition: its segments, oldest first, the last of which takes the appends.

Source: seed 002, "The layered abstraction" (the storage half of it), "Segment rolling", "The read /
fetch-by-offset path".
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BatchTooLarge, OffsetOutOfRange
from tidelog.kernel.indexes import IndexPlace
from tidelog.kernel.storage import (
    EMPTY_SLICE,
    AbortedTransaction,
    LogSlice,
    SegmentDraft,
    SegmentView,
    TopicPartition,
    WouldBlock,
)
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.directories.failures import FULL
from tidelog.plugins.storage_file.flushing import Durability
from tidelog.plugins.storage_file.moving.mirror import Mirror
from tidelog.plugins.storage_file.names import DELETED_SUFFIX
from tidelog.plugins.storage_file.recovery.loading import LoadedSegments
from tidelog.plugins.storage_file.segments.creation import SegmentSettings, create_segment
from tidelog.plugins.storage_file.segments.draft import FileSegmentDraft
from tidelog.plugins.storage_file.segments.replacement import Replacement
from tidelog.plugins.storage_file.segments.rolling import ALWAYS, RollPolicy
from tidelog.plugins.storage_file.segments.segment import Segment
from tidelog.plugins.storage_file.segments.segment_list import SegmentList
from tidelog.plugins.storage_file.services import Services
from tidelog.plugins.storage_file.side_files import SideFiles
from tidelog.plugins.storage_file.telling import telling

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.indexes import IndexFormat
    from tidelog.kernel.records.batch import BatchHeader, Buffer


def _max_timestamp_if_filled(segment: Segment) -> tuple[bool, int]:
    return segment.size > 0, segment.max_timestamp


class FilePartitionStore:
    """One partition in files; see `PartitionStore` for what each method promises.

    `append` runs on the event loop only.
    """

    __slots__ = (
        "_aborted_known_until",
        "_changes",
        "_changing",
        "_config",
        "_durability",
        "_failure",
        "_index_format",
        "_log_start",
        "_policy",
        "_segments",
        "_services",
        "_side_files",
        "_touched",
        "_writing_beside",
        "directory",
        "mirror",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: TopicConfig,
        services: Services,
        index_format: IndexFormat,
        loaded: LoadedSegments,
        side_files: SideFiles,
        log_start_offset: int,
        durability: Durability,
    ) -> None:
        """Take over segments that were loaded; there has to be at least one."""
        self.topic_partition = topic_partition
        self.directory = directory
        self._config = config
        self._services = services
        self._index_format = index_format
        self._segments = SegmentList(loaded.segments)
        self._side_files = side_files
        self._log_start = log_start_offset
        self._durability = durability
        self._policy = RollPolicy.of(config)
        self._changing = threading.Lock()
        self._writing_beside = threading.Lock()
        self._changes = 0
        self._touched = loaded.changed
        self._aborted_known_until = loaded.aborted_known_until
        self._failure: OSError | None = None
        self.mirror: Mirror | None = None

    @property
    def log_start_offset(self) -> int:
        """The first offset that is still there."""
        return max(self._log_start, self._segments.all[0].base_offset)

    @property
    def log_end_offset(self) -> int:
        """The offset that the next batch gets."""
        return self._segments.active.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._segments.all)

    @property
    def recovery_point(self) -> int:
        """The offset from which the log has to be checked after a crash."""
        return self._durability.recovery_point(self._segments.all)

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._segments.all[0].base_offset

    @property
    def durable_offset(self) -> int:
        """See `PartitionStore.durable_offset`."""
        return self._durability.offset

    @property
    def aborted_known_until(self) -> int:
        """See `PartitionStore.aborted_known_until`."""
        known = self._aborted_known_until
        return self.log_end_offset if known is None else known

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """See `PartitionStore.append`."""
        size = len(batch)
        segment = self._segments.active
        if (
            segment.size + size > segment.byte_limit
            or max_timestamp > segment.roll_after
            or last_offset > segment.offset_limit
            or base_offset < segment.next_offset
        ):
            return self._append_with_care(batch, size, base_offset, last_offset, max_timestamp)
        try:
            segment.append(batch, size, last_offset, max_timestamp)
        except OSError as error:
            self._tell_unless_full(error)
            raise
        return False

    def _tell_unless_full(self, error: OSError) -> None:
        """A full disk refuses the append and nothing else: the rest works, and there may be room soon."""
        if error.errno not in FULL:
            self.tell(error)

    def tell(self, error: OSError) -> None:
        """Pass on that the disk refused; whether it has failed is decided elsewhere."""
        self._services.disk_failed(error)

    def fail(self, error: OSError) -> None:
        """The log directory failed: refuse what would need it, and touch nothing there any more."""
        self._failure = error
        self._durability.fail(error)
        self._touched = False
        for segment in self._segments.all:
            segment.sleep()

    def _append_with_care(
        self, batch: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> bool:
        segment = self._segments.active
        self._durability.check()
        if size > self._config.segment_bytes:
            raise BatchTooLarge(
                f"a batch of {size} bytes is larger than a segment of {self.topic_partition} "
                f"({self._config.segment_bytes} bytes)"
            )
        if base_offset < segment.next_offset:
            raise ValueError(f"offsets {base_offset} to {last_offset} do not follow {segment.next_offset}")
        self._touched = True
        try:
            rolled = self._roll_and_append(segment, batch, size, base_offset, last_offset, max_timestamp)
        except OSError as error:
            self._tell_unless_full(error)
            raise
        if self.mirror is not None:
            self.mirror.append(batch, base_offset, last_offset, max_timestamp)
            # Every append has to come by here.
            self._segments.active.byte_limit = ALWAYS
        return rolled

    def _roll_and_append(
        self,
        segment: Segment,
        batch: Buffer,
        size: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
    ) -> bool:
        rolled = self._must_roll(segment, size, last_offset, max_timestamp)
        if rolled:
            segment = self._roll(base_offset)
        first = not segment.size
        if first:
            segment.index_interval_bytes = self._config.index_interval_bytes
        if segment.wake(self._policy) >= self._services.descriptor_budget:
            # Descriptors are numbered from below, so that many are open.
            segment.touched = True
            self._services.release_idle()
        segment.append(batch, size, last_offset, max_timestamp)
        if first:
            segment.first_timestamp = max_timestamp
            segment.wake(self._policy)
        return rolled

    def _must_roll(self, segment: Segment, size: int, last_offset: int, max_timestamp: int) -> bool:
        if last_offset > segment.offset_limit:
            return True
        if not segment.size:
            # A full index on an empty segment means that no segment can have entries; rolling would not help.
            return False
        if segment.size + size > self._config.segment_bytes or segment.index.is_full:
            return True
        since = segment.first_timestamp
        waited = max_timestamp - since if since >= 0 else self._services.now_ms() - segment.created_ms
        return self._policy.outlived(waited)

    def _roll(self, base_offset: int) -> Segment:
        """Start a new active segment; the old one is made durable in the background.

        Raises:
            OSError: the disk refused; the old segment goes on.
        """
        old = self._segments.active
        new = create_segment(self.directory, base_offset, self._settings())
        try:
            old.close_indexes()
            old.trim_log()
        except OSError:
            new.remove_files()
            raise
        old.become_inactive()
        self._durability.files_created()
        self._policy = RollPolicy.of(self._config)
        self._segments.add(new)
        self._services.in_thread(f"flush {self.topic_partition}", self._flush_inactive)
        return new

    def begin_segment(self, offset: int) -> None:
        """Go on in a new segment at an offset behind a gap.

        Raises:
            OSError: the disk refused.
        """
        self._touched = True
        self._roll(offset)

    def _settings(self) -> SegmentSettings:
        config = self._config
        return SegmentSettings(
            index_format=self._index_format,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._services.now_ms(),
            preallocate_bytes=config.segment_bytes if config.preallocate else 0,
        )

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """See `PartitionStore.read`."""
        if offset >= limit_offset:
            return EMPTY_SLICE
        active = self._segments.active
        try:
            if offset >= active.base_offset:
                return active.read(offset, max_bytes, limit_offset, wait) or EMPTY_SLICE
            return self._read_older(offset, max_bytes, limit_offset, wait)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self._segments.active is not active:
                # The partition has moved to another log directory meanwhile.
                return self.read(offset, max_bytes, limit_offset, wait=wait)
            self.tell(error)
            raise

    def _read_older(self, offset: int, max_bytes: int, limit_offset: int, wait: bool) -> LogSlice:
        changes = self._changes
        try:
            for segment in self._segments.from_offset(offset):
                found = segment.read(offset, max_bytes, limit_offset, wait)
                if found is not None:
                    return found
        except FileNotFoundError:
            # The segment was taken away between our look at the list and the opening of its file.
            if offset < self.log_start_offset:
                raise OffsetOutOfRange(f"{self.topic_partition}: offset {offset} was deleted") from None
            if not wait:
                raise WouldBlock from None
            if not self._changed_since(changes):
                raise
            return self.read(offset, max_bytes, limit_offset, wait=wait)
        return EMPTY_SLICE

    @contextlib.contextmanager
    def _taking_away(self) -> Generator[None]:
        """While segments are deleted, cut or replaced; one such change at a time."""
        with self._changing:
            try:
                yield
            finally:
                self._changes += 1

    def _changed_since(self, changes: int) -> bool:
        """Blocking: whether segments were taken away since then; one that is under way is waited for."""
        with self._changing:
            return self._changes != changes

    @telling
    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """See `PartitionStore.add_aborted`."""
        segment = self._segments.from_offset(aborted.last_offset)[0]
        if segment.aborted.append(aborted):
            self._durability.files_created()
        if self.mirror is not None:
            self.mirror.add_aborted(aborted)

    @telling
    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """See `PartitionStore.aborted_transactions`."""
        changes = self._changes
        found: list[AbortedTransaction] = []
        try:
            for segment in self._segments.from_offset(from_offset):
                if segment.aborted.last_offset < from_offset:
                    continue
                more = segment.aborted.search(from_offset, to_offset, found, wait=wait)
                segment.check_there()
                if not more:
                    break
        except FileNotFoundError:
            if not wait:
                raise WouldBlock from None
            if not self._changed_since(changes):
                raise
            return self.aborted_transactions(from_offset, to_offset, wait=wait)
        return found

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """See `PartitionStore.batch_at_timestamp`."""

        def look(segments: Sequence[Segment]) -> bytes | None:
            for segment in segments:
                place = segment.find_timestamp(timestamp_ms)
                if place is not None:
                    return segment.read_batch(place)
            return None

        return self._look_at_what_is_left(look)

    def batch_of_max_timestamp(self) -> bytes | None:
        """See `PartitionStore.batch_of_max_timestamp`."""

        def look(segments: Sequence[Segment]) -> bytes | None:
            segment = max(segments, key=_max_timestamp_if_filled)
            place = segment.find(segment.max_timestamp_offset, segment.size, wait=True)
            return None if place is None else segment.read_batch(place)

        return self._look_at_what_is_left(look)

    @telling
    def _look_at_what_is_left(self, look: Callable[[Sequence[Segment]], bytes | None]) -> bytes | None:
        """Look at all segments, again when one was deleted before its file could be opened."""
        while True:
            changes = self._changes
            try:
                return look(self._segments.all)
            except FileNotFoundError:
                if not self._changed_since(changes):
                    raise

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """See `PartitionStore.headers`."""
        while True:
            changes = self._changes
            try:
                for segment in self._segments.from_offset(from_offset):
                    for header in segment.headers(max(from_offset, segment.base_offset)):
                        yield header
                        from_offset = header.next_offset
                return
            except FileNotFoundError:
                if not self._changed_since(changes):
                    raise

    def segments(self) -> Sequence[SegmentView]:
        """See `PartitionStore.segments`."""
        segments = self._segments.all
        last = len(segments) - 1
        return [segment.view(active=index == last) for index, segment in enumerate(segments)]

    def configure(self, config: TopicConfig) -> None:
        """See `PartitionStore.configure`."""
        self._config = config
        self._policy = RollPolicy.of(config)
        self._segments.active.configure(config.segment_index_bytes)

    @telling
    def truncate_to(self, offset: int) -> None:
        """See `PartitionStore.truncate_to`."""
        if offset >= self.log_end_offset:
            return
        self._touched = True
        self._give_mirror_up()
        # Of the segment that is cut nothing counts as durable from now on, and that is written down first: so
        # what is appended in place of what goes will be checked after a crash.
        lowest = min(offset, self._segments.from_offset(offset)[0].base_offset)
        with self._taking_away(), self._durability.cutting(lowest):
            self._services.write_recovery_points()
            self._cut(offset)
            self._durability.sync_cut(self._segments.active)
        disk.sync_directory(self.directory)

    def _cut(self, offset: int) -> None:
        if offset < self.first_segment_offset:
            new = create_segment(self.directory, offset, self._settings())
            self._durability.files_created()
            dropped = self._segments.begin_anew(new)
        else:
            dropped = self._segments.take_after(offset)
        # The newest goes first: a crash in between leaves no hole.
        for segment in reversed(dropped):
            segment.remove_files()
        self._segments.active.truncate_to(offset)
        self._log_start = min(self._log_start, self.log_end_offset)

    @telling
    def delete_segments_before(self, offset: int) -> int:
        """See `PartitionStore.delete_segments_before`."""
        with self._taking_away():
            return self._delete_before(offset)

    def _delete_before(self, offset: int) -> int:
        taken = self._segments.take_before(offset)
        for index, segment in enumerate(taken):
            try:
                self._mark_deleted(segment)
            except OSError:
                for kept in taken[index:]:
                    kept.removed = False
                self._segments.put_back(taken[index:])
                raise
        if taken:
            disk.sync_directory(self.directory)
        return len(taken)

    def _mark_deleted(self, segment: Segment) -> None:
        segment.removed = True
        renamed: list[str] = []
        for suffix in segment.suffixes:
            path = segment.path(suffix)
            try:
                disk.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            renamed.append(path + DELETED_SUFFIX)
        self._services.delete_later(renamed, self._config.file_delete_delay_ms)

    @telling
    def draft_segment(self, base_offset: int) -> FileSegmentDraft:
        """See `PartitionStore.draft_segment`."""
        return FileSegmentDraft(self.directory, base_offset, self._settings())

    @telling
    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """See `PartitionStore.replace_segments`."""
        mine = [draft for draft in drafts if isinstance(draft, FileSegmentDraft)]
        if len(mine) < len(drafts):
            raise ValueError("a draft is not of this store")
        with self._taking_away():
            replacement = Replacement(self.directory, self._segments, mine, replaced)
            replacement.prepare()
            try:
                replacement.complete(self._mark_deleted)
            except OSError as error:
                self._durability.fail(error)
                self._segments.active.byte_limit = ALWAYS
                raise

    def raise_log_start(self, offset: int) -> None:
        """See `PartitionStore.raise_log_start`."""
        self._log_start = max(self._log_start, offset)
        if self.mirror is not None:
            self.mirror.copy.raise_log_start(offset)

    def flush(self) -> int:
        """See `PartitionStore.flush`; after a failure the partition takes no appends until a restart."""
        mirror = self.mirror
        flushed = self._flush(lambda segments: segments.all, growing=True)
        if mirror is not None:
            mirror.do("flush", mirror.copy.flush)
        return flushed

    def _flush_inactive(self) -> None:
        self._flush(lambda segments: segments.all[:-1], growing=False)

    @telling
    def _flush(self, choose: Callable[[SegmentList], Sequence[Segment]], *, growing: bool) -> int:
        segments, directory = self._segments, self.directory
        try:
            return self._durability.flush(lambda: choose(segments), directory, growing=growing)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.directory != directory:
                # The partition has moved to another log directory meanwhile.
                return self._flush(choose, growing=growing)
            # The next append goes the careful way and learns of it there.
            self._segments.active.byte_limit = ALWAYS
            raise

    def side_files(self) -> Sequence[str]:
        """See `PartitionStore.side_files`."""
        return self._side_files.names()

    @telling
    def read_side_file(self, name: str) -> bytes | None:
        """See `PartitionStore.read_side_file`."""
        return self._side_files.read(name)

    @telling
    def write_side_file(self, name: str, content: bytes) -> None:
        """See `PartitionStore.write_side_file`."""
        self._check()
        with self._beside() as copies:
            for side_files in copies:
                side_files.write(name, content)

    @telling
    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """See `PartitionStore.delete_side_file`."""
        self._check()
        with self._beside() as copies:
            for side_files in copies:
                side_files.delete(name, durable=durable)

    @contextlib.contextmanager
    def _beside(self) -> Generator[Sequence[SideFiles]]:
        """The side files, and while a mirror is being kept also those of the copy."""
        with self._writing_beside:
            mirror = self.mirror
            if mirror is None or mirror.broken:
                yield [self._side_files]
            else:
                yield [self._side_files, mirror.copy._side_files]

    @property
    def config(self) -> TopicConfig:
        """The configuration that it goes by."""
        return self._config

    def use_services(self, services: Services) -> None:
        """Have background work done by others."""
        self._services = services

    def keep_mirror(self, copy: FilePartitionStore) -> None:
        """Change `copy`, which has all that is here, along with this from now on."""
        self.mirror = Mirror(copy)
        self._segments.active.byte_limit = ALWAYS

    def _give_mirror_up(self) -> None:
        if self.mirror is not None:
            self.mirror.broken = True
            self.mirror = None

    def copy_side_files(self) -> None:
        """Blocking: give the mirror's copy the side files that are here.

        Raises:
            OSError: a disk refused.
        """
        mirror = self.mirror
        if mirror is None:
            return
        for name in self._side_files.names():
            with self._writing_beside:
                content = self._side_files.read(name)
                if content is not None:
                    mirror.copy.write_side_file(name, content)

    def become(self, directory: str, services: Services) -> bool:
        """Go on as the mirror's copy, under its final name `directory`; False when now is no good time.

        Called on the event loop, so that it comes between two appends.

        Raises:
            OSError: the disk refused the name; nothing has changed.
        """
        mirror = self.mirror
        if mirror is None or mirror.broken:
            return False
        with contextlib.ExitStack() as stack:
            for lock in (self._changing, mirror.copy._changing, self._writing_beside):
                if not lock.acquire(blocking=False):
                    return False
                stack.callback(lock.release)
            disk.rename(mirror.copy.directory, directory)
            self._take_over(mirror.copy, directory, services)
        return True

    def _take_over(self, copy: FilePartitionStore, directory: str, services: Services) -> None:
        for segment in copy._segments.all:
            place = IndexPlace(directory, segment.base_offset)
            segment.index.relocate(place)
            segment.place = segment.aborted.place = place
        copy._durability.parent_changed()
        self._log_start = max(self._log_start, copy._log_start)
        self._segments, self._durability, self._policy = copy._segments, copy._durability, copy._policy
        self._side_files = SideFiles(directory, copy._side_files.names())
        # Jobs that the copy has begun go on under the new name.
        self.directory = copy.directory = directory
        self._services = services
        self.mirror = None
        self._touched = True
        self._changes += 1

    def release_idle(self) -> None:
        """Let go of descriptors and mappings of segments that were not used since the last call."""
        for segment in self._segments.all:
            segment.sleep_if_idle()

    def retire(self) -> None:
        """The partition is to be deleted: nothing of it has to be made durable any more."""
        self._durability.retire()
        self._touched = False

    def delete_later(self, path: str) -> None:
        """Remove the partition's directory, which was renamed to `path`, after the topic's delay."""
        self._services.delete_later([path], self._config.file_delete_delay_ms)
        for segment in self._segments.all:
            segment.sleep()

    def _check(self) -> None:
        if self._failure is not None:
            raise OSError(self._failure.errno, str(self._failure.strerror))

    def close(self) -> None:
        """See `PartitionStore.close`."""
        if self._failure is not None:
            return
        active = self._segments.active
        if self._touched:
            active.close_indexes()
            active.trim_log()
            active.indexes_durable = False
            self._touched = False
        self._flush(lambda segments: segments.all, growing=False)
        for segment in self._segments.all:
            segment.sleep()
