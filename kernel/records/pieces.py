"""Reading bytes that come in pieces; what was taken is not kept."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import Buffer


class PieceReader:
    """A stream of bytes in pieces; `data` from `position` on was not taken yet."""

    def __init__(self, pieces: Iterator[Buffer]) -> None:
        self._pieces = pieces
        self.data: Buffer = b""
        self.position = 0

    def take(self, size: int) -> memoryview:
        """Take so many bytes.

        Raises:
            CorruptBatch: there are fewer.
        """
        if not self.hold(size):
            raise _beyond(size)
        start = self.position
        self.position += size
        return memoryview(self.data)[start : start + size]

    def skip(self, size: int) -> None:
        """Skip so many bytes, none if `size` is negative. Raises as `take`."""
        size = max(size, 0)
        while size > (there := len(self.data) - self.position):
            size -= there
            # Not `hold`: what is skipped is not joined, so that no more than a piece is in memory.
            self.data, self.position = next(self._pieces, b""), 0
            if not self.data and not self.hold(1):
                raise _beyond(size)
        self.position += size

    def hold(self, size: int) -> bool:
        """Hold `size` bytes if there are as many; return whether there are."""
        there = len(self.data) - self.position
        if there >= size:
            return True
        held = [self.data[self.position :]]
        while there < size and (piece := next(self._pieces, None)) is not None:
            held.append(piece)
            there += len(piece)
        self.data, self.position = b"".join(held) if len(held) > 1 else held[0], 0
        return there >= size


def _beyond(size: int) -> CorruptBatch:
    return CorruptBatch(f"a record of {size} bytes does not fit its batch")
