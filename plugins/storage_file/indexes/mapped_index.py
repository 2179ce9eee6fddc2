"""The common part of offset index and time index: a file of fixed-size entries, mapped and searched.

The file of the active segment is extended to its full size with a hole and mapped. Page by page, zeros are
written ahead of the entries: the disk then has room for them, so that storing an entry is one `pack_into`,
without a system call, which can neither meet a full disk (SIGBUS) nor make the system fill a whole large page
with zeros. Once a segment is no longer active its files are cut to their entries.

Lookups search the last 8 KiB first: readers near the end of the log touch only the pages that appends keep
warm. Source: Apache Kafka's `AbstractIndex`.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import threading
from struct import Struct
from typing import ClassVar

from tidelog.kernel import disk
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.kernel.seams.storage import WouldBlock
from tidelog.plugins.storage_file.indexes.residency import is_resident

WARM_BYTES = 8192
PAGE_BYTES = mmap.PAGESIZE

_publishing = threading.Lock()
"""Held while a mapping is published, never across a file operation; one for all is enough."""

_UNMAPPED = mmap.mmap(-1, 1)

_POPULATE_READ = 22
"""`MADV_POPULATE_READ` of Linux 5.14: load the pages now and wait for them."""


class MappedIndex:
    """A sorted file of fixed-size entries that refer to a segment's offsets relative to its base offset.

    One thread adds entries; any thread looks up. A reader takes the number of entries before the mapping, and
    a writer publishes the mapping before the number, so a reader never looks past what is mapped. An entry
    can be stored as long as there are fewer than `room`.
    """

    ENTRY: ClassVar[Struct]
    KEY: ClassVar[Struct]
    SUFFIX: ClassVar[str]

    __slots__ = ("_map", "base_offset", "entries", "max_entries", "place", "room")

    def __init__(self, place: IndexPlace, entries: int, max_bytes: int) -> None:
        """Create an index whose file holds `entries` entries; nothing is opened yet."""
        self._map = _UNMAPPED
        self.room = 0
        self.place = place
        self.base_offset = place.base_offset
        self.entries = entries
        self.max_entries = max_bytes // self.ENTRY.size

    @property
    def path(self) -> str:
        """The index file."""
        return self.place.path(self.SUFFIX)

    @property
    def is_full(self) -> bool:
        """Return whether the segment has to roll before another entry."""
        return self.entries >= self.max_entries

    def resize(self, max_bytes: int) -> None:
        """Let the file hold up to `max_bytes` from now on."""
        self.max_entries = max_bytes // self.ENTRY.size

    def make_room(self) -> None:
        """Reserve room for one more entry.

        Raises:
            OSError: the disk is full; the index is as before.
        """
        if self.entries < self.room:
            return
        size = self.ENTRY.size
        capacity = max(self.max_entries, self.entries + 1) * size
        used = self.entries * size
        reserved = min(-(-(used + size) // PAGE_BYTES) * PAGE_BYTES, capacity)
        fd = disk.open_file(self.path, os.O_RDWR)
        try:
            disk.write_all(fd, bytes(reserved - used), used)
            # Without room the mapping may be one that a reader has loaded, which cannot be written to.
            if not self.room or len(self._map) < reserved:
                disk.ftruncate(fd, capacity)
                mapped = disk.map_writable(fd, capacity)
                with _publishing:
                    self._map = mapped
        finally:
            disk.close(fd)
        self.room = reserved // size

    def load(self) -> mmap.mmap:
        """Blocking: map the entries, bring them into memory, and return the mapping.

        Raises:
            FileNotFoundError: the file is not there any more, or one of the same name has taken its place.
        """
        size = self.entries * self.ENTRY.size
        mapped = self._map
        if not size:
            return mapped
        fd = disk.open_file(self.path, os.O_RDONLY)
        try:
            # A page fault would block all threads of the interpreter; this read blocks only one.
            if len(disk.read_up_to(fd, size, 0)) < size:
                raise FileNotFoundError(errno.ENOENT, "it is shorter than its entries", self.path)
            if len(mapped) >= size:
                return mapped
            mapped = disk.map_readable(fd, size)
        finally:
            disk.close(fd)
        # Enters the pages into the mapping, so that neither a lookup nor `is_resident` has to.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            mapped.madvise(_POPULATE_READ)
        with _publishing:
            # The writer's mapping, made meanwhile, reaches further than this one.
            if len(self._map) < size:
                self._map = mapped
        # Not `_map`: another thread may release that at any time.
        return mapped

    def read_last(self) -> tuple[int, ...]:
        """Blocking: return the fields of the last entry; there has to be one."""
        at = (self.entries - 1) * self.ENTRY.size
        mapped = self._map
        if len(mapped) >= at + self.ENTRY.size:
            return self.ENTRY.unpack_from(mapped, at)
        fd = disk.open_file(self.path, os.O_RDONLY)
        try:
            entry = disk.read_up_to(fd, self.ENTRY.size, at)
        finally:
            disk.close(fd)
        if len(entry) < self.ENTRY.size:
            raise OSError(errno.ENODATA, f"{self.path} ends before byte {at + self.ENTRY.size}")
        return self.ENTRY.unpack(entry)

    def release(self) -> None:
        """Release the mapping; the next use maps the file again."""
        self.room = 0
        self._map = _UNMAPPED

    def create(self) -> None:
        """Create the file of an index without entries."""
        disk.close(disk.open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))

    def trim(self) -> None:
        """Truncate the file to its entries and release the mapping.

        Raises:
            FileNotFoundError: it is not there any more.
        """
        fd = disk.open_file(self.path, os.O_WRONLY)
        try:
            disk.ftruncate(fd, self.entries * self.ENTRY.size)
        finally:
            disk.close(fd)
        self.release()

    def _floor(self, target: int, entries: int, mapped: mmap.mmap, wait: bool) -> int:
        """Return the slot of the last entry whose key is at most `target`, -1 when all are above it.

        Raises:
            WouldBlock: the pages to look at are not in memory (never with `wait`).
        """
        unpack, size = self.KEY.unpack_from, self.ENTRY.size
        low, high = 0, entries
        first_warm = max(entries - 1 - WARM_BYTES // size, 0)
        if not (wait or is_resident(mapped, first_warm * size, entries * size)):
            raise WouldBlock
        if first_warm:
            if unpack(mapped, first_warm * size)[0] <= target:
                low = first_warm
            elif wait or is_resident(mapped, 0, first_warm * size):
                high = first_warm
            else:
                raise WouldBlock
        while low < high:
            middle = (low + high) // 2
            if unpack(mapped, middle * size)[0] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _mapping(self, entries: int, wait: bool) -> mmap.mmap:
        mapped, size = self._map, entries * self.ENTRY.size
        # One that is too short was loaded while another thread stored the last entry.
        if len(mapped) < size:
            if not wait:
                raise WouldBlock
            mapped = self.load()
        # Loaded by a read: a page fault would stop all threads until the device has answered.
        elif wait and not is_resident(mapped, 0, size):
            mapped = self.load()
        return mapped
