"""The transaction index: the aborted transactions whose marker is in the segment.

    byte 0  version           int16   0
         2  producerId        int64
        10  firstOffset       int64   of the transaction; may lie in an earlier segment
        18  lastOffset        int64   of the marker; grows from entry to entry
        26  lastStableOffset  int64   when the marker had been written

34 bytes an entry. There is no file as long as nothing was aborted, and nothing of it is kept in memory but
the number of entries and the last marker. Source: KIP-98.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from struct import Struct

from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.kernel.seams.storage import AbortedTransaction, WouldBlock
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.names import TXN_INDEX_SUFFIX

VERSION = 0
ENTRY = Struct(">hqqqq")
ENTRIES_AT_ONCE = 120
"""About a page of the file: most transactions that overlap a fetch lie close together."""
NO_OFFSET = -1

_LAST_OFFSET_BYTES = 8
_LAST_OFFSET_AT = 18


class CorruptTransactionIndex(StorageError):
    """The file is corrupt; the kernel finds the transactions in the log again."""


class TransactionIndex:
    """`.txnindex` of one segment. One thread adds entries, any thread looks them up.

    `durable`: all entries are durable.
    """

    __slots__ = ("_entries", "durable", "last_offset", "place")

    def __init__(self, place: IndexPlace) -> None:
        """Create an index without entries, which needs no file."""
        self.place = place
        self._entries = 0
        self.durable = True
        self.last_offset = NO_OFFSET

    @property
    def path(self) -> str:
        """The index file."""
        return self.place.path(TXN_INDEX_SUFFIX)

    def load(self, end_offset: int) -> None:
        """Blocking: check the file that is there; its markers have to be in the segment, below `end_offset`.

        Raises:
            CorruptTransactionIndex: it cannot be right.
        """
        content = disk.read_file(self.path) or b""
        if len(content) % ENTRY.size:
            raise CorruptTransactionIndex(
                f"{self.path} has {len(content)} bytes, no multiple of {ENTRY.size}"
            )
        last_offset = self.place.base_offset - 1
        for version, _, first, last, _ in ENTRY.iter_unpack(content):
            if version != VERSION or not last_offset < last < end_offset or first > last:
                raise CorruptTransactionIndex(f"{self.path} has an entry that cannot be, for offset {last}")
            last_offset = last
        self._entries = len(content) // ENTRY.size
        self.last_offset = last_offset if content else NO_OFFSET

    def append(self, aborted: AbortedTransaction) -> bool:
        """Add an entry unless it is known; return whether the file was created for it.

        Raises:
            OSError: the disk refused; the index is as before.
        """
        # After a crash the kernel finds transactions in the log again, of which some may be here.
        if aborted.last_offset <= self.last_offset:
            return False
        entry = ENTRY.pack(
            VERSION,
            aborted.producer_id,
            aborted.first_offset,
            aborted.last_offset,
            aborted.last_stable_offset,
        )
        position = self._entries * ENTRY.size
        fd = disk.open_file(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            disk.write_all(fd, entry, position)
        except OSError:
            with contextlib.suppress(OSError):
                # A torn entry would make the whole file corrupt at the next start.
                disk.ftruncate(fd, position)
            raise
        finally:
            disk.close(fd)
        # After the write, so that a flush which had begun before it does not count for this entry. The number
        # comes last, since readers in other threads go by it.
        self.durable = False
        self._entries += 1
        self.last_offset = aborted.last_offset
        return not position

    def search(
        self, from_offset: int, to_offset: int, found: list[AbortedTransaction], *, wait: bool
    ) -> bool:
        """Add what overlaps `[from_offset, to_offset)` to `found`; return whether to search later segments.

        Raises:
            WouldBlock: not all of it is in memory (never with `wait`); `found` may have some of the entries.
            FileNotFoundError: the segment was deleted meanwhile.
            OSError: the disk refused, or the file is shorter than its entries.
        """
        file = LogFile(self.path, os.O_RDONLY)
        for aborted in self._entries_from(file, self._first_not_below(file, from_offset, wait), wait):
            if aborted.first_offset < to_offset:
                found.append(aborted)
            # Every transaction that ends behind this marker began at its last stable offset or above, so none
            # of them overlaps. Apache Kafka's `TransactionIndex` stops here, too.
            if aborted.last_stable_offset >= to_offset:
                return False
        return True

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the entries whose marker is at `offset` or behind it."""
        if self.last_offset < offset:
            return
        file = LogFile(self.path, os.O_RDWR)
        keep = self._first_not_below(file, offset, wait=True)
        self.last_offset = self._last_offset_of(file, keep - 1, wait=True) if keep else NO_OFFSET
        self._entries = keep
        disk.ftruncate(file.fd, keep * ENTRY.size)
        self.durable = False

    def discard(self) -> None:
        """Drop all entries and remove the file."""
        disk.remove_if_there(self.path)
        self._entries = 0
        self.last_offset = NO_OFFSET

    def _entries_from(self, file: LogFile, slot: int, wait: bool) -> Iterator[AbortedTransaction]:
        buffer = bytearray(ENTRIES_AT_ONCE * ENTRY.size)
        end = self._entries
        while slot < end:
            available = file.read_into(buffer, slot * ENTRY.size, wait) // ENTRY.size
            if not available:
                raise _short_read(file, slot, wait)
            for at in range(min(available, end - slot)):
                _, producer_id, first, last, stable = ENTRY.unpack_from(buffer, at * ENTRY.size)
                yield AbortedTransaction(producer_id, first, last, stable)
            slot += available

    def _first_not_below(self, file: LogFile, offset: int, wait: bool) -> int:
        """Return the slot of the first entry whose marker is at `offset` or behind it."""
        low, high = 0, self._entries
        while low < high:
            middle = (low + high) // 2
            if self._last_offset_of(file, middle, wait) < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _last_offset_of(self, file: LogFile, slot: int, wait: bool) -> int:
        field = bytearray(_LAST_OFFSET_BYTES)
        if file.read_into(field, slot * ENTRY.size + _LAST_OFFSET_AT, wait) < _LAST_OFFSET_BYTES:
            raise _short_read(file, slot, wait)
        return int.from_bytes(field, "big", signed=True)


def _short_read(file: LogFile, slot: int, wait: bool) -> WouldBlock | OSError:
    """Return the error for an entry that exists and was not read whole.

    Without waiting the rest of it lies in a page that is not in memory; it never means that there are no more
    entries.
    """
    if not wait:
        return WouldBlock()
    return OSError(errno.ENODATA, f"{file.path} ends before the end of entry {slot}")
