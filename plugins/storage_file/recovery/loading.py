"""Opening a partition's segments: as they are after a clean stop, recovered after any other.

Source: seed 002, "Crash recovery & startup: LogLoader".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import attrs

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.indexes.index_builder import IndexBuilder
from tidelog.plugins.storage_file.indexes.offset_index import OffsetIndex
from tidelog.plugins.storage_file.indexes.time_index import TimeIndex
from tidelog.plugins.storage_file.indexes.transaction_index import CorruptTransactionIndex
from tidelog.plugins.storage_file.names import LOG_SUFFIX, TXN_INDEX_SUFFIX, segment_file
from tidelog.plugins.storage_file.recovery.recovery import scan_segment
from tidelog.plugins.storage_file.segments.batch_scan import iter_headers
from tidelog.plugins.storage_file.segments.log_file import LogFile
from tidelog.plugins.storage_file.segments.segment import Segment
from tidelog.plugins.storage_file.segments.segment_files import SegmentFiles

_log = logging.getLogger(__name__)


@attrs.frozen
class LoadSettings:
    """How segments are opened: index sizes and interval in bytes, the clock's time in milliseconds."""

    index_bytes: int
    index_interval_bytes: int
    now_ms: int
    preallocate_bytes: int = 0


@attrs.define
class LoadedSegments:
    """Segments in order, and whether any file was changed while opening them.

    Entries of transaction indexes may be missing from `aborted_known_until` on, None: nowhere.
    """

    segments: list[Segment]
    changed: bool = False
    aborted_known_until: int | None = None

    def forget_aborted(self, segment: Segment) -> None:
        """Let the kernel find what was aborted in a segment, and in all behind it, in the log again."""
        segment.aborted.discard()
        segment.indexes_durable = False
        if self.aborted_known_until is None:
            self.aborted_known_until = segment.base_offset


def create_segment(directory: str, base_offset: int, settings: LoadSettings) -> Segment:
    """Create the files of an empty segment.

    Raises:
        OSError: the disk refused; no file is left behind.
    """
    offsets = OffsetIndex(directory, base_offset, 0, settings.index_bytes)
    times = TimeIndex(directory, base_offset, 0, settings.index_bytes, NO_TIMESTAMP)
    segment = Segment(directory, base_offset, offsets, times, settings.now_ms, settings.index_interval_bytes)
    try:
        segment.log = log = LogFile(segment.path(), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if settings.preallocate_bytes:
            disk.preallocate(log.fd, settings.preallocate_bytes)
        offsets.trim()
        times.trim()
    except OSError:
        segment.remove_files()
        raise
    segment.indexes_durable = False
    return segment


class SegmentLoader:
    """Opens the segments of one partition; `label` names it in the log."""

    def __init__(self, label: str, directory: str, files: SegmentFiles, settings: LoadSettings) -> None:
        self._label = label
        self._directory = directory
        self._files = files
        self._settings = settings

    def load(self, *, recover_from: int | None) -> LoadedSegments:
        """Blocking: open all segments; with `recover_from`, check those that reach beyond that offset.

        Raises:
            OSError: the disk refused.
            StorageError: a segment holds what cannot be served.
        """
        bases = self._files.base_offsets
        first_to_check = len(bases) if recover_from is None else _floor(bases, recover_from)
        loaded = LoadedSegments([])
        for index, base in enumerate(bases):
            following = bases[index + 1] if index + 1 < len(bases) else None
            if index >= first_to_check:
                cut = self._recover(loaded, base, following)
                if cut and following is not None:
                    self._drop(bases[index + 1 :], cut)
                    break
            elif not self._open(loaded, base, following):
                self._recover(loaded, base, following)
        return loaded

    def _open(self, loaded: LoadedSegments, base: int, following: int | None) -> bool:
        """Open a segment whose log is good; False when its indexes have to be made anew."""
        segment = self._with_indexes(base)
        if segment is None:
            return False
        status = disk.stat(segment.path())
        segment.size = status.st_size
        segment.modified_ms = status.st_mtime_ns // 1_000_000
        segment.created_ms = min(segment.created_ms, segment.modified_ms)
        try:
            if following is None:
                self._open_active(segment)
            else:
                segment.next_offset = following
                segment.max_timestamp, segment.max_timestamp_offset = segment.times.last_entry()
            _check_empty_indexes(segment)
        except CorruptBatch as error:
            _log.warning("%s: %s; its segment is checked and its indexes are made anew", self._label, error)
            return False
        finally:
            segment.sleep()
        self._load_aborted(loaded, segment)
        loaded.segments.append(segment)
        return True

    def _load_aborted(self, loaded: LoadedSegments, segment: Segment) -> None:
        if segment_file(segment.base_offset, TXN_INDEX_SUFFIX) not in self._files.names:
            return
        if loaded.aborted_known_until is not None:
            loaded.forget_aborted(segment)
            return
        try:
            segment.aborted.load(segment.next_offset)
        except CorruptTransactionIndex as error:
            _log.warning("%s: %s; it is made anew from the log", self._label, error)
            loaded.forget_aborted(segment)

    def _open_active(self, segment: Segment) -> None:
        if segment.size:
            segment.load_tail()
            segment.load_first_timestamp()
        elif segment.offsets.entries or segment.times.entries:
            raise CorruptBatch(f"{segment.path()} is empty, its indexes are not")

    def _with_indexes(self, base: int) -> Segment | None:
        settings = self._settings
        entries: list[int] = []
        for kind in (OffsetIndex, TimeIndex):
            name = segment_file(base, kind.SUFFIX)
            size = disk.stat(f"{self._directory}/{name}").st_size if name in self._files.names else -1
            if size < 0 or size % kind.ENTRY.size:
                state = "is missing" if size < 0 else f"has {size} bytes, no multiple of {kind.ENTRY.size},"
                _log.warning("%s: %s %s and is made anew", self._label, name, state)
                return None
            entries.append(size // kind.ENTRY.size)
        offsets = OffsetIndex(self._directory, base, entries[0], settings.index_bytes)
        times = TimeIndex(self._directory, base, entries[1], settings.index_bytes, NO_TIMESTAMP)
        times.last_timestamp = times.last_entry()[0]
        return Segment(self._directory, base, offsets, times, settings.now_ms, settings.index_interval_bytes)

    def _recover(self, loaded: LoadedSegments, base: int, following: int | None) -> int:
        """Check a segment and make its indexes anew; the number of bytes that were cut off its end."""
        settings = self._settings
        path = f"{self._directory}/{segment_file(base, LOG_SUFFIX)}"
        log = LogFile(path, os.O_RDWR)
        status = disk.stat(path)
        builder = IndexBuilder(base, settings.index_interval_bytes)
        scan = scan_segment(log, status.st_size, base, following, builder)
        cut = status.st_size - scan.valid_bytes
        if cut:
            _log.warning(
                "%s: cut %d bytes that are no intact batches off %s at byte %d; the log goes on at offset %d",
                self._label, cut, path, scan.valid_bytes, scan.next_offset,
            )  # fmt: skip
            disk.ftruncate(log.fd, scan.valid_bytes)
        offsets, times = builder.write(self._directory, settings.index_bytes)
        segment = Segment(
            self._directory, base, offsets, times, settings.now_ms, settings.index_interval_bytes
        )
        segment.adopt(scan, builder)
        if scan.has_markers:
            loaded.forget_aborted(segment)
        else:
            segment.aborted.discard()
        segment.modified_ms = status.st_mtime_ns // 1_000_000
        segment.created_ms = min(segment.created_ms, segment.modified_ms)
        loaded.segments.append(segment)
        loaded.changed = True
        return cut

    def _drop(self, bases: Sequence[int], cut: int) -> None:
        """Remove the segments behind one that was cut: what they hold does not follow any more."""
        for base in bases:
            for name in sorted(self._files.names):
                if name.startswith(segment_file(base, "")):
                    size = disk.stat(f"{self._directory}/{name}").st_size
                    _log.warning("%s: removed %s (%d bytes), it lies behind the cut", self._label, name, size)
                    disk.remove_if_there(f"{self._directory}/{name}")


def _floor(bases: Sequence[int], offset: int) -> int:
    """Index of the last base offset that is at most `offset`, 0 without one."""
    return max((index for index, base in enumerate(bases) if base <= offset), default=0)


def _check_empty_indexes(segment: Segment) -> None:
    """Refuse indexes without entries for a log that calls for some: their files were emptied by something.

    Raises:
        CorruptBatch: they have to be made anew, or the log is damaged.
    """
    if not segment.size or (segment.offsets.entries and segment.times.entries):
        return
    for position, header in iter_headers(segment.open_log(), 0, segment.size):
        if position > segment.index_interval_bytes and not segment.offsets.entries:
            raise CorruptBatch(f"{segment.offsets.path} has no entries")
        if header.max_timestamp > NO_TIMESTAMP and not segment.times.entries:
            raise CorruptBatch(f"{segment.times.path} has no entries")
        if position > segment.index_interval_bytes:
            return
