"""An open file of a log: reads that do not wait for a device, and a scan of its batches' headers."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel import disk
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_V2, BatchHeader
from tidelog.kernel.records.stored import LEAST_BYTES, whole_header
from tidelog.kernel.seams.storage import WouldBlock

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.disk_errors import DiskErrorReporter

_log = logging.getLogger(__name__)

PROBE_STRIDE_BYTES = 64 * 1024
"""Residency is sampled: the system reads ahead and evicts in runs much longer than this."""
PREFETCH_CHUNK_BYTES = 256 * 1024

_CANNOT_NOWAIT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
CHUNK_BYTES = 4096
"""Bytes of one read: the default distance of index entries, so that one read ends most lookups."""

# baseOffset, batchLength, magic and lastOffsetDelta of a batch header.
_PLACE = Struct(">qi4xb6xi")
_unpack_place = _PLACE.unpack_from
_PLACE_BYTES = _PLACE.size
_SMALLEST_MESSAGE_BYTES = LEAST_BYTES[0]


class LogFile:
    """A descriptor that is open exactly as long as this object is referenced.

    Regions that were handed out reference it, so that a file which its partition deletes or closes stays
    readable until the last send of it is done.
    """

    __slots__ = ("_close", "_flags", "fd", "path", "reported_to")

    def __init__(self, path: str, flags: int, adopted: int | None = None) -> None:
        """Open the file, with flags of `os.open`, unless `adopted` is a descriptor of it."""
        self._close = disk.close
        # For `__del__`, which runs even if the file cannot be opened.
        self.fd = -1
        self.path = path
        self._flags = disk.NOWAIT
        self.reported_to: DiskErrorReporter | None = None
        self.fd = disk.open_file(path, flags) if adopted is None else disk.adopt(path, adopted)

    def __del__(self) -> None:
        if self.fd >= 0:
            try:
                self._close(self.fd)
            except OSError as error:
                _log.error("closing %s failed: %s", self.path, error)

    def fileno(self) -> int:
        """Return the descriptor, for `sendfile` and `pread`."""
        return self.fd

    def report_error(self, error: OSError) -> None:
        """Report an error of a reader of its regions to the log."""
        if self.reported_to is not None:
            self.reported_to.report_disk_error(error)

    def read_into(self, buffer: bytearray | memoryview, position: int, wait: bool) -> int:
        """Fill `buffer` from `position` on; return the number of bytes read.

        With `wait` these are fewer than asked for only at the end of the file. Without it they may also end
        where the next page is not in memory, so a caller must not take a short read for the end.

        Raises:
            WouldBlock: not even the first byte is in memory (never with `wait`).
        """
        if wait:
            return self._fill(buffer, position)
        try:
            return disk.preadv(self.fd, [buffer], position, self._flags)
        except BlockingIOError:
            raise WouldBlock from None
        except OSError as error:
            if not self._flags or error.errno not in _CANNOT_NOWAIT:
                raise
            # This file system does not support the flag; memory file systems do not, and never wait.
            self._flags = 0
            return disk.preadv(self.fd, [buffer], position, 0)

    def _fill(self, buffer: bytearray | memoryview, position: int) -> int:
        size = len(buffer)
        filled = disk.preadv(self.fd, [buffer], position, 0)
        if 0 < filled < size:
            rest = memoryview(buffer)
            while filled < size and (count := disk.preadv(self.fd, [rest[filled:]], position + filled, 0)):
                filled += count
        return filled

    def read_exactly(self, position: int, size: int) -> bytes:
        """Blocking: return `size` bytes from `position` on.

        Raises:
            OSError: the file ends before.
        """
        content = disk.read_up_to(self.fd, size, position)
        if len(content) < size:
            raise OSError(errno.ENODATA, f"{self.path} ends before byte {position + size}")
        return content

    def resident(self, position: int, size: int) -> bool:
        """Return whether these bytes seem to be in memory; a sample of them is probed without waiting."""
        if not self._flags:
            return True
        last = position + size - 1
        byte = bytearray(1)
        try:
            for at in range(position, last, PROBE_STRIDE_BYTES):
                self.read_into(byte, at, wait=False)
            self.read_into(byte, last, wait=False)
        except WouldBlock:
            return False
        return True

    def prefetch(self, position: int, size: int) -> None:
        """Blocking: read these bytes into the page cache."""
        buffer = bytearray(min(size, PREFETCH_CHUNK_BYTES))
        end = position + size
        while position < end:
            count = disk.preadv(self.fd, [buffer], position)
            if not count:
                return
            position += count


class BatchPlace(NamedTuple):
    """The position of a batch in its segment file, and the offsets that it holds."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int = MAGIC_V2
    """With 0 or 1 it is a message, whose base offset is its last one even if it holds others."""


def find_batch(log: LogFile, position: int, end: int, offset: int, wait: bool) -> BatchPlace | None:
    """Return the first batch in `[position, end)` that holds `offset` or lies beyond it, None without one.

    `position` starts a batch.

    Raises:
        WouldBlock: a header is not in memory (never with `wait`).
        CorruptBatch: what is there is no batch.
    """
    buffer = bytearray(CHUNK_BYTES)
    while position < end:
        available = min(log.read_into(buffer, position, wait), end - position)
        at = 0
        while at + _PLACE_BYTES <= available:
            base_offset, length, magic, delta = _unpack_place(buffer, at)
            if magic != MAGIC_V2 or length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                message = _header_of_message(log, position, buffer, at, available)
                if message is None:
                    break
                base_offset, length, magic, delta = *message[:2], message.magic, 0
            size = length + LOG_OVERHEAD_BYTES
            if base_offset + delta >= offset:
                return BatchPlace(position + at, size, base_offset, base_offset + delta, magic)
            at += size
        # Nothing in the buffer was whole: a message that is shorter than the fields that are read of a batch,
        # the end of what is in memory, or no batch.
        if not at:
            message = _smallest_message(log, position, buffer, end, available)
            if message is None:
                _short_header(log, position, end, wait)
            elif message.base_offset >= offset:
                return BatchPlace(
                    position, message.size, message.base_offset, message.last_offset, message.magic
                )
            at = _SMALLEST_MESSAGE_BYTES
        # Maybe beyond the buffer: of a batch that is larger, only the head is read.
        position += at
    return None


def iter_headers(log: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Blocking: iterate over position and header of every batch in `[position, end)`.

    `position` starts a batch.

    Raises:
        CorruptBatch: what is there is no batch.
    """
    buffer = bytearray(CHUNK_BYTES)
    while position < end:
        available = min(log.read_into(buffer, position, wait=True), end - position)
        at = 0
        while (header := _whole_header(log, position, buffer, at, available)) is not None:
            yield position + at, header
            at += header.size
        if not at:
            raise not_a_batch(log, position)
        position += at


def _header_of_message(
    log: LogFile, position: int, buffer: bytearray, at: int, available: int
) -> BatchHeader | None:
    """Return the header of a message of format 0 or 1, None if its head is not in the buffer."""
    header = _whole_header(log, position, buffer, at, available)
    if header is not None and header.magic == MAGIC_V2:
        raise not_a_batch(log, position + at)
    return header


def _smallest_message(
    log: LogFile, position: int, buffer: bytearray, end: int, available: int
) -> BatchHeader | None:
    """Return the header of a message that ends the segment and is shorter than the place of a batch."""
    if available != _SMALLEST_MESSAGE_BYTES or position + available != end:
        return None
    return _header_of_message(log, position, buffer, 0, available)


def _whole_header(
    log: LogFile, position: int, buffer: bytearray, at: int, available: int
) -> BatchHeader | None:
    try:
        return whole_header(buffer, at, available)
    except CorruptBatch as error:
        raise not_a_batch(log, position + at) from error


def _short_header(log: LogFile, position: int, end: int, wait: bool) -> None:
    if not wait and position + _PLACE_BYTES <= end:
        raise WouldBlock
    raise not_a_batch(log, position)


def not_a_batch(log: LogFile, position: int) -> CorruptBatch:
    """Return the error for bytes that are no batch where one should start."""
    return CorruptBatch(f"{log.path} holds no record batch at byte {position}")
