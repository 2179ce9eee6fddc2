"""Files of new segments: created when a log rolls, or ahead of that in a thread.

Created ahead, so that rolling on the event loop only renames them:

    00000000000000000000.log.<16 hex digits>.next.deleted
    00000000000000000000.index.<16 hex digits>.next.deleted
    00000000000000000000.timeindex.<16 hex digits>.next.deleted

The base offset is not known yet. A broker that finds such files at its start, this one or Apache Kafka,
removes them like all that end in `.deleted`. The digits keep the files of a deleted partition apart from
those of a new one of the same name.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel import disk
from tidelog.kernel.seams.indexes import IndexFormat, IndexPlace, SegmentIndex
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.names import DELETED_SUFFIX, LOG_SUFFIX
from tidelog.plugins.storage_file.segments.segment import Segment
from tidelog.plugins.storage_file.segments.segment_builder import SegmentBuilder

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.log_config import LogConfig

_log = logging.getLogger(__name__)


class SegmentSettings(NamedTuple):
    """Settings of new and opened segments: the indexes' format, their sizes and interval in bytes.

    `now_ms` is the clock's time in milliseconds.
    """

    index_format: IndexFormat
    index_bytes: int
    index_interval_bytes: int
    now_ms: int
    preallocate_bytes: int = 0

    @classmethod
    def of(cls, config: LogConfig, index_format: IndexFormat, now_ms: int) -> SegmentSettings:
        """Return the settings of a topic for a segment that is created or opened now."""
        return cls(
            index_format,
            config.segment_index_bytes,
            config.index_interval_bytes,
            now_ms,
            config.segment_bytes if config.preallocate else 0,
        )

    def builder(self, place: IndexPlace) -> SegmentBuilder:
        """Return what rebuilds a segment's index."""
        index_builder = self.index_format.build(place, self.index_bytes)
        return SegmentBuilder(place.base_offset, self.index_interval_bytes, index_builder)

    def segment(self, place: IndexPlace, index: SegmentIndex) -> Segment:
        """Return a segment over existing files, of which nothing was read yet."""
        return Segment(place, self.index_format, index, self.now_ms, self.index_interval_bytes)


def create_files(place: IndexPlace, settings: SegmentSettings) -> tuple[LogFile, SegmentIndex]:
    """Blocking: create the files of an empty segment.

    Raises:
        OSError: the disk refused; no file is left behind.
    """
    index_format = settings.index_format
    try:
        log = LogFile(place.path(LOG_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if settings.preallocate_bytes:
            disk.preallocate(log.fd, settings.preallocate_bytes)
        return log, index_format.create(place, settings.index_bytes)
    except OSError:
        for suffix in (LOG_SUFFIX, *index_format.suffixes):
            disk.remove_if_there(place.path(suffix))
        raise


def create_segment(directory: str, base_offset: int, settings: SegmentSettings) -> Segment:
    """Blocking: create an empty segment.

    Raises:
        OSError: the disk refused; no file is left behind.
    """
    place = IndexPlace(directory, base_offset)
    log, index = create_files(place, settings)
    segment = settings.segment(place, index)
    segment.log = log
    segment.indexes_durable = False
    return segment


class _Files(NamedTuple):
    """Files that were created: names end in `mark`; `suffixes` are those of all files, the log first."""

    mark: str
    suffixes: tuple[str, ...]
    segment_index: SegmentIndex

    def remove(self, place: IndexPlace) -> None:
        """Blocking: unlink those that are at `place`."""
        for suffix in self.suffixes:
            with contextlib.suppress(OSError):
                disk.unlink(place.path(suffix))


class SpareSegment:
    """The next segment of one log. The event loop requests and takes it, a thread creates it.

    It is wanted until it is requested, and again after it was taken.
    """

    __slots__ = ("_closed", "_lock", "_ready", "is_wanted")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: _Files | None = None
        self._closed = False
        self.is_wanted = True

    @property
    def is_ready(self) -> bool:
        """Whether the files are there."""
        return self._ready is not None

    def create(self, directory: str, settings: SegmentSettings) -> None:
        """Blocking: create the files.

        Raises:
            OSError: the disk refused; no file is left.
        """
        mark = f".{os.urandom(8).hex()}.next{DELETED_SUFFIX}"
        log, index = create_files(IndexPlace(directory, 0, mark), settings)
        # Only its name is needed until it is taken: descriptors are scarce.
        del log
        files = _Files(mark, (LOG_SUFFIX, *settings.index_format.suffixes), index)
        # The log may have been closed meanwhile, or have got a segment by `create_spare`.
        with self._lock:
            if not self._closed and self._ready is None:
                self._ready = files
                return
        files.remove(IndexPlace(directory, 0, mark))

    def take(self, directory: str, base_offset: int, settings: SegmentSettings) -> Segment | None:
        """Give the files their final names; return None when there are none and they have to be created now.

        Raises:
            OSError: they cannot be opened; they are as before.
        """
        with self._lock:
            files, self._ready = self._ready, None
        self.is_wanted = True
        if files is None:
            return None
        place, before = IndexPlace(directory, base_offset), IndexPlace(directory, 0, files.mark)
        try:
            log = LogFile(before.path(LOG_SUFFIX), os.O_RDWR)
        except FileNotFoundError:
            return None
        except OSError:
            self._ready, self.is_wanted = files, False
            raise
        try:
            # The log first: one without indexes is recovered at start, indexes without a log are removed.
            for suffix in files.suffixes:
                disk.rename(before.path(suffix), place.path(suffix))
        except OSError as error:
            _log.warning("%s cannot be used, new files are created: %s", before.path(LOG_SUFFIX), error)
            for each in (before, place):
                files.remove(each)
            return None
        files.segment_index.relocate(place)
        files.segment_index.resize(settings.index_bytes)
        segment = settings.segment(place, files.segment_index)
        segment.indexes_durable = False
        log.path = place.path(LOG_SUFFIX)
        segment.log = log
        return segment

    def close(self) -> None:
        """Create no more, and leave what was created: its directory is or will be removed."""
        with self._lock:
            self._closed = True
            self._ready = None
        self.is_wanted = False

    def remove(self, directory: str) -> None:
        """Blocking: close it and unlink what was created."""
        with self._lock:
            files = self._ready
        self.close()
        if files is not None:
            files.remove(IndexPlace(directory, 0, files.mark))
