"""An open file of a log, and reads of it that do not wait for a device."""

from __future__ import annotations

import errno
import logging

from tidelog.kernel import disk
from tidelog.kernel.seams.storage import WouldBlock

_log = logging.getLogger(__name__)

PROBE_STRIDE_BYTES = 64 * 1024
"""Residency is sampled: the system reads ahead and evicts in runs much longer than this."""
PREFETCH_CHUNK_BYTES = 256 * 1024

_CANNOT_NOWAIT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class LogFile:
    """A descriptor that is open exactly as long as this object is referenced.

    Regions that were handed out reference it, so that a file which its partition deletes or closes stays
    readable until the last send of it is done.
    """

    __slots__ = ("_close", "_flags", "fd", "path")

    def __init__(self, path: str, flags: int) -> None:
        """Open the file; `flags` are those of `os.open`."""
        self._close = disk.close
        self.fd = -1
        self.path = path
        self._flags = disk.NOWAIT
        self.fd = disk.open_file(path, flags)

    def __del__(self) -> None:
        if self.fd >= 0:
            try:
                self._close(self.fd)
            except OSError as error:
                _log.error("closing %s failed: %s", self.path, error)

    def fileno(self) -> int:
        """Return the descriptor, for `sendfile` and `pread`."""
        return self.fd

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
