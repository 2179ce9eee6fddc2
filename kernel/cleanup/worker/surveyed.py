"""What a survey notes of the batches that it reads: outlines, so that the copy reads only what stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.kernel.cleanup.worker.segments import Chunk
from tidelog.kernel.records.placed import OUTLINE_BYTES, PlacedBatches
from tidelog.kernel.seams.storage import SegmentSource

MOST_BYTES: Final = 3 * 1024 * 1024
"""Outlines of so many bytes are noted: of two gigabytes in batches of 16 KB."""
_BATCHES_AT_ONCE: Final = 2**12
"""Each has some hundred bytes in columns."""


class SurveyedBatches:
    """The outlines of the batches of segments, as long as they take no more than `MOST_BYTES`."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self._noted: dict[int, list[bytes]] = {}
        self._noted_bytes: dict[int, int] = {}
        """Base offset of a segment → bytes of the batches that were noted."""

    def note(self, source: SegmentSource, chunk: Chunk) -> None:
        """Note the next batches of a segment, which are read in order and from its begin on.

        Messages of the formats 0 and 1 have other headers: `is_complete` is false for their segment.
        """
        if chunk.messages or len(chunk.batches) * OUTLINE_BYTES > self._left:
            return
        outlines = chunk.batches.outlines()
        self._left -= len(outlines)
        self._noted.setdefault(source.base_offset, []).append(outlines)
        noted_bytes = self._noted_bytes.get(source.base_offset, 0)
        self._noted_bytes[source.base_offset] = noted_bytes + chunk.size

    def is_complete(self, source: SegmentSource) -> bool:
        """Return whether all batches of a segment were noted."""
        return self._noted_bytes.get(source.base_offset, 0) == source.size_bytes

    def take(self, source: SegmentSource) -> Iterator[PlacedBatches]:
        """Iterate over all batches of a segment, many at once, and forget them."""
        noted = self._noted.pop(source.base_offset, [])
        noted.reverse()
        position = 0
        while noted:
            outlines = noted.pop()
            while noted and len(outlines) + len(noted[-1]) <= _BATCHES_AT_ONCE * OUTLINE_BYTES:
                outlines += noted.pop()
            batches = PlacedBatches.following(outlines, position)
            position += int(batches.size.sum())
            yield batches
