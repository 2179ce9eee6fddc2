"""What a survey notes of the batches that it reads: their headers, so that the copy reads only what stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.kernel.cleanup.worker.segments import Chunk
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    parse_headers,
)
from tidelog.kernel.records.block import PlacedBatch
from tidelog.kernel.records.columns import Column, Mask
from tidelog.kernel.seams.storage import SegmentSource

MOST_BYTES: Final = 16 * 1024 * 1024
"""Headers of so many bytes are noted: of four gigabytes in batches of 16 KB."""
_FIELD_TYPES: Final = "i8 i4 i4 i1 u4 i2 i4 i8 i8 i8 i2 i4 i4"
_HEADER: Final = np.dtype(
    [(name, f">{type_}") for name, type_ in zip(BatchHeader._fields, _FIELD_TYPES.split(), strict=True)]
)


class HeaderColumns:
    """The headers of batches that lie one behind the other, as columns.

    `position` is where each batch begins, behind the first one; `size` its bytes with the header.
    """

    def __init__(self, content: bytes) -> None:
        """`content` has the 61 bytes of each header."""
        self._content = content
        self._fields: npt.NDArray[np.void] = np.frombuffer(content, _HEADER)
        self.base_offset = self.of("base_offset")
        self.last_offset: Column = self.base_offset + self.of("last_offset_delta")
        self.size: Column = self.of("batch_length") + LOG_OVERHEAD_BYTES
        self.position: Column = np.cumsum(self.size) - self.size

    def __len__(self) -> int:
        return len(self._fields)

    def of(self, field: str) -> Column:
        """Return a field of `BatchHeader`."""
        return self._fields[field].astype(np.int64)

    def placed(self, mask: Mask) -> Iterator[PlacedBatch]:
        """Return the batches in `mask`."""
        headers = parse_headers(self._content, (np.flatnonzero(mask) * HEADER_BYTES).tolist())
        return map(PlacedBatch, headers, self.position[mask].tolist())


class SurveyedHeaders:
    """The headers of the batches of segments, as long as they take no more than `MOST_BYTES`."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self._noted: dict[int, list[bytes]] = {}

    def note(self, source: SegmentSource, chunk: Chunk) -> None:
        """Note the next batches of a segment, which are read in order and from its begin on."""
        content = chunk.content
        headers = b"".join([content[at : at + HEADER_BYTES] for _, at in chunk.batches])
        if len(headers) <= self._left:
            self._left -= len(headers)
            self._noted.setdefault(source.base_offset, []).append(headers)

    def take(self, source: SegmentSource) -> HeaderColumns | None:
        """Forget the headers of a segment; return them if all its batches were noted, None if not."""
        columns = HeaderColumns(b"".join(self._noted.pop(source.base_offset, ())))
        return columns if int(columns.size.sum()) == source.size_bytes else None
