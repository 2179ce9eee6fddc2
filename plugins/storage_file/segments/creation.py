"""Making the files of a new segment."""

from __future__ import annotations

import os
from typing import NamedTuple

from tidelog.kernel.seams.indexes import IndexFormat, IndexPlace, SegmentIndex
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.indexes.entry_sampler import EntrySampler
from tidelog.plugins.storage_file.names import LOG_SUFFIX
from tidelog.plugins.storage_file.segments.log_file import LogFile
from tidelog.plugins.storage_file.segments.segment import Segment


class SegmentSettings(NamedTuple):
    """How segments are made and opened: the indexes' format, their sizes and interval in bytes.

    `now_ms` is the clock's time in milliseconds.
    """

    index_format: IndexFormat
    index_bytes: int
    index_interval_bytes: int
    now_ms: int
    preallocate_bytes: int = 0

    def sampler(self, place: IndexPlace) -> EntrySampler:
        """What makes a segment's index anew."""
        builder = self.index_format.build(place, self.index_bytes)
        return EntrySampler(place.base_offset, self.index_interval_bytes, builder)

    def segment(self, place: IndexPlace, index: SegmentIndex) -> Segment:
        """A segment over files that are there, not yet looked at."""
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
