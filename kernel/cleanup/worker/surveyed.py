"""What a survey notes of the batches that it reads: their headers, so that the copy reads only what stays."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.cleanup.worker.segments import Chunk
from tidelog.kernel.records.placed import PlacedBatches
from tidelog.kernel.seams.storage import SegmentSource

MOST_BYTES: Final = 16 * 1024 * 1024
"""Headers of so many bytes are noted: of four gigabytes in batches of 16 KB."""


class SurveyedHeaders:
    """The headers of the batches of segments, as long as they take no more than `MOST_BYTES`."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self._noted: dict[int, list[bytes]] = {}

    def note(self, source: SegmentSource, chunk: Chunk) -> None:
        """Note the next batches of a segment, which are read in order and from its begin on.

        Messages of the formats 0 and 1 have other headers, and `take` returns nothing of their segment.
        """
        if chunk.messages:
            return
        headers = chunk.batches.packed()
        if len(headers) <= self._left:
            self._left -= len(headers)
            self._noted.setdefault(source.base_offset, []).append(headers)

    def take(self, source: SegmentSource) -> PlacedBatches | None:
        """Forget the headers of a segment; return its batches if all were noted, None if not."""
        batches = PlacedBatches.following(b"".join(self._noted.pop(source.base_offset, ())))
        return batches if int(batches.size.sum()) == source.size_bytes else None
