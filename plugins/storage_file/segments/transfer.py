"""Segments in the hands of another process: what it reads them by, and what it writes drafts by.

Both are pickled. Segments are opened by their paths, at the first use; the file of a draft is handed over
open. The process knows the `.log` alone: index entries are collected and given to the index format when the
draft takes over what was written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.kernel import disk
from tidelog.kernel.errors import InvalidRecord
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.segments.segment_builder import SegmentBuilder

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import Buffer
    from tidelog.kernel.seams.indexes import IndexBuilder, SegmentIndex
    from tidelog.kernel.seams.storage import WrittenBatch

SYNC_EVERY_BYTES = 32 * 1024 * 1024
"""So many bytes are brought to the device at once: more would keep others waiting for it."""

_ENTRY: Final = Struct("<iiqi")
"""Of an index entry: offset from the base offset, position, largest timestamp, its offset likewise."""


class FileSegmentSource:
    """`SegmentSource` of a `.log` file."""

    def __init__(self, path: str, base_offset: int, size_bytes: int, index_entries: int) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        # Each entry has a time at most, and closing the index adds one.
        self.index_bytes = index_entries * OFFSET_ENTRY_BYTES
        self.time_index_bytes = (index_entries + 1) * TIME_ENTRY_BYTES
        self._path = path
        self._log: LogFile | None = None

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position` on, or those up to the end.

        Raises:
            OSError: the disk refused, or the segment was removed.
        """
        return disk.read_up_to(self._open().fd, max(min(size, self.size_bytes - position), 0), position)

    def will_need(self, position: int, size: int) -> None:
        """Have the system begin to read `size` bytes from `position` on, or those up to the end.

        Raises:
            OSError: the disk refused, or the segment was removed.
        """
        disk.will_need(self._open().fd, min(size, self.size_bytes - position), position)

    def _open(self) -> LogFile:
        log = self._log = self._log or LogFile(self._path, os.O_RDONLY)
        return log

    def close(self) -> None:
        """Close the file."""
        self._log = None


class _Entries:
    """`IndexBuilder` that keeps the entries for a real one: packed, since a large segment has very many."""

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._packed = bytearray()

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Iterate over what `add` was given."""
        base = self._base_offset
        for last_offset, position, max_timestamp, max_timestamp_offset in _ENTRY.iter_unpack(self._packed):
            yield base + last_offset, position, max_timestamp, base + max_timestamp_offset

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Keep an entry."""
        base = self._base_offset
        self._packed += _ENTRY.pack(last_offset - base, position, max_timestamp, max_timestamp_offset - base)

    def finish(self, max_timestamp: int, max_timestamp_offset: int) -> SegmentIndex:
        """Never called: the entries go to the builder of a format."""
        raise NotImplementedError


class WrittenLog:
    """All that is known of the batches of a draft; pickled on the way back."""

    def __init__(self, base_offset: int, index_interval_bytes: int) -> None:
        self._entries = _Entries(base_offset)
        self.builder = SegmentBuilder(base_offset, index_interval_bytes, self._entries)

    def finish_index(self, builder: IndexBuilder) -> SegmentIndex:
        """Blocking: give the entries to the builder of an index; return the index."""
        for entry in self._entries:
            builder.add(*entry)
        return builder.finish(*self.builder.largest_timestamp)


class FileDraftWriter:
    """`DraftWriter` of the open `.log` file of a draft."""

    def __init__(self, log: LogFile, base_offset: int, index_interval_bytes: int) -> None:
        self._log: LogFile | None = log
        self._path = log.path
        self._base_offset = base_offset
        self._written = WrittenLog(base_offset, index_interval_bytes)
        self._synced = 0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_log": None}

    def descriptors(self) -> Sequence[int]:
        """Return the descriptor of the file."""
        return () if self._log is None else (self._log.fd,)

    def adopt(self, descriptors: Sequence[int]) -> None:
        """Write to the file with that descriptor."""
        (fd,) = descriptors
        self._log = LogFile(self._path, os.O_RDWR, fd)

    @property
    def written(self) -> WrittenLog:
        """What is known of the batches so far."""
        return self._written

    @property
    def next_offset(self) -> int:
        """The offset behind its last batch, the base offset without one."""
        return self._written.builder.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return self._written.builder.size

    def append(self, content: Buffer, batches: Sequence[WrittenBatch]) -> None:
        """Add batches. See `DraftWriter` for errors."""
        self._check(batches)
        builder = self._written.builder
        log = self._open()
        disk.write_all(log.fd, content, builder.size)
        for base_offset, last_offset, size, max_timestamp in batches:
            builder.add(base_offset, last_offset, size, max_timestamp)
        if builder.size - self._synced > SYNC_EVERY_BYTES:
            disk.fsync(log.fd)
            self._synced = builder.size

    def _open(self) -> LogFile:
        """Return the open file, unless its draft is gone: nothing would ever read what is written.

        Raises:
            OSError: the disk refused, or the draft was discarded.
        """
        log = self._log
        if log is None or not disk.stat(log.fd).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the draft was discarded", self._path)
        return log

    def _check(self, batches: Sequence[WrittenBatch]) -> None:
        next_offset = self.next_offset
        for base_offset, last_offset, _, _ in batches:
            if base_offset < next_offset:
                raise ValueError(f"offsets {base_offset} to {last_offset} do not follow {next_offset}")
            next_offset = last_offset + 1
        if next_offset - 1 - self._base_offset > MAX_RELATIVE_OFFSET:
            raise InvalidRecord(f"offset {next_offset - 1} is too far from base offset {self._base_offset}")

    def finish(self) -> WrittenLog:
        """Bring all to the device; return what the draft takes over.

        Raises:
            OSError: the disk refused, or the draft was discarded.
        """
        if self._log is not None:
            disk.fsync(self._open().fd)
            self._log = None
        return self._written
