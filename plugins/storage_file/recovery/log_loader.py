"""Opening of a log's segments: as they are after a clean stop, recovered after any other.

Source: Apache Kafka's `LogLoader`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

import attrs

from tidelog.kernel import disk
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET, IndexPlace, IndexUnusable
from tidelog.plugins.storage_file.indexes.transaction_index import CorruptTransactionIndex
from tidelog.plugins.storage_file.log_file import LogFile, iter_headers
from tidelog.plugins.storage_file.names import LOG_SUFFIX, TXN_INDEX_SUFFIX, segment_file
from tidelog.plugins.storage_file.recovery.segment_recovery import read_headers, validate_batches
from tidelog.plugins.storage_file.recovery.splitting import split_segment
from tidelog.plugins.storage_file.segments.creation import SegmentSettings
from tidelog.plugins.storage_file.segments.segment import Segment
from tidelog.plugins.storage_file.segments.segment_files import SegmentFiles

_log = logging.getLogger(__name__)


@attrs.define
class LoadedSegments:
    """Segments in order, whose files are as a clean stop leaves them, but may not be durable.

    Entries of transaction indexes may be missing from `aborted_known_until` on, None: nowhere.
    """

    segments: list[Segment]
    aborted_known_until: int | None = None

    def discard_aborted(self, segment: Segment) -> None:
        """Have the kernel find the aborted transactions of a segment, and of later ones, in the log again."""
        segment.aborted.discard()
        segment.indexes_durable = False
        if self.aborted_known_until is None:
            self.aborted_known_until = segment.base_offset


class LogLoader:
    """Opens the segments of one partition; `label` names it in the log.

    `remaining(count)` is called before each of them with the number of segments that are still to be opened.
    """

    def __init__(
        self,
        label: str,
        directory: str,
        files: SegmentFiles,
        settings: SegmentSettings,
        remaining: Callable[[int], None],
    ) -> None:
        self._label = label
        self._directory = directory
        self._files = files
        self._settings = settings
        self._remaining = remaining
        self._loaded = LoadedSegments([])

    def load(self, *, recover_from: int | None) -> LoadedSegments:
        """Blocking: open all segments; with `recover_from`, check those that reach beyond that offset.

        Raises:
            OSError: the disk refused.
            StorageError: a segment holds what cannot be served.
        """
        bases = self._files.base_offsets
        first_to_check = len(bases) if recover_from is None else _floor(bases, recover_from)
        for index, base in enumerate(bases):
            self._remaining(len(bases) - index)
            following = bases[index + 1] if index + 1 < len(bases) else None
            if index < first_to_check and self._open(base, following):
                continue
            # Only from the recovery point on: what follows a segment below it was durable up to that point,
            # whatever this one has lost.
            if self._recover(base, following) and index >= first_to_check and following is not None:
                self._drop(bases[index + 1 :])
                break
        self._remaining(0)
        return self._loaded

    def _open(self, base: int, following: int | None) -> bool:
        """Open a segment whose log is valid; return False when it has to be recovered."""
        place = IndexPlace(self._directory, base)
        if not self._settings.index_format.suffixes:
            return self._open_without_files(place, following)
        status = disk.stat(place.path(LOG_SUFFIX))
        try:
            index = self._settings.index_format.open(place, self._settings.index_bytes, status.st_size)
        except IndexUnusable as error:
            _log.warning("%s: %s; it is rebuilt", self._label, error)
            return False
        segment = self._settings.segment(place, index)
        self._take_status(segment, status)
        segment.size = status.st_size
        try:
            _load_ends(segment, following)
            _check_empty_index(segment)
        except EmptyIndexError as error:
            _log.info("%s: %s; it is rebuilt from the log", self._label, error)
            return False
        except CorruptBatch as error:
            _log.warning("%s: %s; its segment is checked and its index is rebuilt", self._label, error)
            return False
        finally:
            # A start opens thousands of logs: none keeps a descriptor before it is used.
            segment.sleep()
        return self._take_over(segment)

    def _open_without_files(self, place: IndexPlace, following: int | None) -> bool:
        """As `_open`, for a format without files: all headers are read."""
        path = place.path(LOG_SUFFIX)
        status = disk.stat(path)
        builder = self._settings.builder(place)
        try:
            read_headers(LogFile(path, os.O_RDONLY), status.st_size, builder)
        except CorruptBatch as error:
            _log.warning("%s: %s; its segment is checked", self._label, error)
            return False
        segment = self._settings.segment(place, builder.finish_index())
        segment.adopt(builder)
        segment.indexes_durable = True
        if following is not None:
            segment.next_offset = following
        self._take_status(segment, status)
        return builder.overflow_offset is None and self._take_over(segment)

    def _take_over(self, segment: Segment) -> bool:
        """Add a segment that was opened; return False when it has to be split."""
        if segment.next_offset - 1 > segment.offset_limit and _overflows(segment):
            return False
        self._load_aborted(segment)
        self._loaded.segments.append(segment)
        return True

    def _take_status(self, segment: Segment, status: os.stat_result) -> None:
        segment.modified_ms = status.st_mtime_ns // 1_000_000
        segment.created_ms = min(segment.created_ms, segment.modified_ms)

    def _load_aborted(self, segment: Segment) -> None:
        loaded = self._loaded
        if segment_file(segment.base_offset, TXN_INDEX_SUFFIX) not in self._files.names:
            return
        if loaded.aborted_known_until is None:
            try:
                segment.aborted.load(segment.next_offset)
                return
            except CorruptTransactionIndex as error:
                _log.warning("%s: %s; it is rebuilt from the log", self._label, error)
        loaded.discard_aborted(segment)

    def _recover(self, base: int, following: int | None) -> int:
        """Recover a segment and rebuild its index; return the number of bytes that were cut off its end.

        One with offsets that do not fit into its indexes is split.
        """
        place = IndexPlace(self._directory, base)
        path = place.path(LOG_SUFFIX)
        log = LogFile(path, os.O_RDWR)
        # Before the cut, which changes the time of modification.
        status = disk.stat(path)
        builder = self._settings.builder(place)
        has_markers = validate_batches(log, status.st_size, following, builder)
        cut = status.st_size - builder.size
        if cut:
            _log.warning(
                "%s: cut %d bytes that are no intact batches off %s at byte %d; the log continues at offset "
                "%d",
                self._label, cut, path, builder.size, builder.next_offset,
            )  # fmt: skip
            disk.ftruncate(log.fd, builder.size)
            # Once the log continues in another segment, no recovery looks at the end of this one again.
            disk.fsync(log.fd)
        if builder.overflow_offset is not None:
            self._split(place, log, builder.size, following)
            return cut
        segment = self._settings.segment(place, builder.finish_index())
        segment.adopt(builder)
        if has_markers:
            self._loaded.discard_aborted(segment)
        else:
            segment.aborted.discard()
        self._take_status(segment, status)
        self._loaded.segments.append(segment)
        return cut

    def _split(self, place: IndexPlace, log: LogFile, size: int, following: int | None) -> None:
        bases = split_segment(place, log, size, self._settings.index_format.suffixes)
        new = [str(base) for base in bases if base != place.base_offset]
        _log.warning(
            "%s: %s reaches beyond %d offsets, which do not fit into its indexes; it was split at %s",
            self._label, log.path, MAX_RELATIVE_OFFSET, ", ".join(new),
        )  # fmt: skip
        for base, limit in zip(bases, [*bases[1:], following], strict=True):
            self._recover(base, limit)

    def _drop(self, bases: Sequence[int]) -> None:
        """Remove the segments behind one that was truncated: their batches do not follow any more."""
        for base in bases:
            for name in sorted(self._files.names):
                if name.startswith(segment_file(base, "")):
                    size = disk.stat(f"{self._directory}/{name}").st_size
                    _log.warning("%s: removed %s (%d bytes), it lies behind the cut", self._label, name, size)
                    disk.remove_if_there(f"{self._directory}/{name}")
        # Otherwise a loss of power might bring them back, behind what is appended in their place.
        disk.sync_directory(self._directory)


def _floor(bases: Sequence[int], offset: int) -> int:
    """Return the index of the last base offset that is at most `offset`, 0 without one."""
    return max((index for index, base in enumerate(bases) if base <= offset), default=0)


def _load_ends(segment: Segment, following: int | None) -> None:
    """Load end offset and largest timestamp; in the last segment, also the first timestamp.

    Raises:
        CorruptBatch: log and index do not agree.
    """
    if following is not None:
        segment.next_offset = following
        segment.max_timestamp, segment.max_timestamp_offset = segment.index.last_timestamp()
    elif segment.size:
        segment.load_tail()
        segment.load_first_timestamp()


def _overflows(segment: Segment) -> bool:
    """Return whether a segment really has offsets that do not fit, not only a gap behind it."""
    _, start = segment.index.last_position()
    return any(
        header.last_offset > segment.offset_limit
        for _, header in iter_headers(segment.open_log(), start, segment.size)
    )


class EmptyIndexError(CorruptBatch):
    """An index without entries for a log that should have some, which need not be a fault.

    Apache Kafka writes an entry before an append, at most one for each, so that a segment that it compacted
    in one append has none.
    """


def _check_empty_index(segment: Segment) -> None:
    """Check that an index without entries belongs to a log that needs none.

    Raises:
        EmptyIndexError: it has to be rebuilt.
        CorruptBatch: the log is damaged.
    """
    index = segment.index
    knows_times = index.last_timestamp()[0] > NO_TIMESTAMP
    if not segment.size or (index.entries and knows_times):
        return
    for position, header in iter_headers(segment.open_log(), 0, segment.size):
        if position > segment.index_interval_bytes and not index.entries:
            raise EmptyIndexError(f"{index} has no entries for a log of {segment.size} bytes")
        if header.max_timestamp > NO_TIMESTAMP and not knows_times:
            raise EmptyIndexError(f"{index} has no entries for times")
        if position > segment.index_interval_bytes:
            return
