"""The headers of many batches as columns: for work on whole files, where objects would cost too much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from tidelog.kernel.checksum import crc32c
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    CODEC_MASK,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    parse_header,
)
from tidelog.kernel.records.columns import Column, Mask

Headers: TypeAlias = npt.NDArray[np.void]

_FIELD_TYPES: Final = "i8 i4 i4 i1 u4 i2 i4 i8 i8 i8 i2 i4 i4"
_HEADER: Final = np.dtype(
    [(name, f">{type_}") for name, type_ in zip(BatchHeader._fields, _FIELD_TYPES.split(), strict=True)]
)
_OUTLINE: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("record_count", ">i4"),
    ]
)
OUTLINE_BYTES: Final = _OUTLINE.itemsize
"""Of what `PlacedBatches` has as columns: a third of a header."""
_LENGTH_AT: Final = 8
_CRC_AT: Final = 17


class PlacedBatch(NamedTuple):
    """The header of a batch, and the position of its first byte in the bytes that it was found in."""

    header: BatchHeader
    position: int


class PlacedBatches(Sequence[PlacedBatch]):
    """Batches in some bytes or in a segment, in the order of their positions.

    `position` is where each one begins, `size` its bytes with the header, `base_offset` and `last_offset`
    are its offsets, `attributes` and `record_count` the fields of those names.
    """

    __slots__ = (
        "_headers",
        "attributes",
        "base_offset",
        "last_offset",
        "position",
        "record_count",
        "size",
    )

    def __init__(self, headers: Headers, position: Column) -> None:
        """`headers` has an element for each batch, with the fields of `BatchHeader`."""
        self._headers = headers
        self.position = position
        self.base_offset = self.column("base_offset")
        self.last_offset: Column = self.base_offset + self.column("last_offset_delta")
        self.size: Column = self.column("batch_length") + LOG_OVERHEAD_BYTES
        self.attributes = self.column("attributes")
        self.record_count = self.column("record_count")

    @classmethod
    def read(cls, content: bytes, positions: Sequence[int]) -> PlacedBatches:
        """Read the headers that start at these positions, each with 61 bytes.

        Raises:
            CorruptBatch: a magic byte is none of 0, 1 and 2.
            UnsupportedMessageFormat: a magic byte is 0 or 1.
        """
        packed = b"".join([content[at : at + HEADER_BYTES] for at in positions])
        headers: Headers = np.frombuffer(packed, _HEADER)
        wrong = np.flatnonzero(headers["magic"] != MAGIC_V2)
        if wrong.size:
            # Raises: it composes the error that a single header gets.
            parse_header(content, positions[int(wrong[0])])
        return cls(headers, np.array(positions, np.int64))

    @classmethod
    def following(cls, outlines: bytes, position: int = 0) -> PlacedBatches:
        """Return the batches with these outlines, which lie one behind the other from `position` on.

        They have no other fields of the header.
        """
        placed = cls(np.frombuffer(outlines, _OUTLINE), np.zeros(0, np.int64))
        placed.position = np.cumsum(placed.size) - placed.size + position
        return placed

    @classmethod
    def of(cls, batches: Iterable[PlacedBatch]) -> PlacedBatches:
        """Return the same batches as columns."""
        if isinstance(batches, PlacedBatches):
            return batches
        batches = list(batches)
        headers: Headers = np.array([tuple(batch.header) for batch in batches], _HEADER)
        return cls(headers, np.array([batch.position for batch in batches], np.int64))

    def __len__(self) -> int:
        return len(self._headers)

    @overload
    def __getitem__(self, index: int) -> PlacedBatch: ...
    @overload
    def __getitem__(self, index: slice) -> PlacedBatches: ...
    def __getitem__(self, index: int | slice) -> PlacedBatch | PlacedBatches:
        if isinstance(index, slice):
            return PlacedBatches(self._headers[index], self.position[index])
        return PlacedBatch(self.header(index), int(self.position[index]))

    @property
    def codec(self) -> Column:
        """Return the compression codec id of each batch."""
        return self.attributes & CODEC_MASK

    def column(self, field: str) -> Column:
        """Return a field of `BatchHeader` of each batch."""
        return self._headers[field].astype(np.int64)

    def header(self, index: int) -> BatchHeader:
        """Return the header of one batch."""
        return BatchHeader(*self._headers[index].item())

    def select(self, chosen: Mask | Column) -> PlacedBatches:
        """Return the batches in a mask, or with these indexes."""
        return PlacedBatches(self._headers[chosen], self.position[chosen])

    def headers(self, **fields: Column) -> Headers:
        """Return a copy of all headers with some fields replaced."""
        headers = self._headers.copy()
        for name, column in fields.items():
            headers[name] = column
        return headers

    def outlines(self) -> bytes:
        """Return the columns alone, in `OUTLINE_BYTES` for each batch."""
        outlines = np.empty(len(self), _OUTLINE)
        for name in _OUTLINE.names or ():
            outlines[name] = self._headers[name]
        return outlines.tobytes()

    def check_crcs(self, content: bytes) -> None:
        """Compare the checksum of each batch with its bytes in `content`.

        Raises:
            CorruptBatch: one is wrong.
        """
        view = memoryview(content)
        begins = (self.position + CRC_COVERS_FROM).tolist()
        ends = (self.position + self.size).tolist()
        found = [crc32c(view[begin:end]) for begin, end in zip(begins, ends, strict=True)]
        wrong = np.flatnonzero(np.array(found, np.int64) != self.column("crc"))
        if wrong.size:
            raise CorruptBatch(f"the batch at offset {self.base_offset[wrong[0]]} has a wrong checksum")


def pack_batches(headers: Headers, records: Iterable[Buffer]) -> list[bytes]:
    """Return batches of these header fields and (compressed) records, each with its length and CRC.

    `headers` comes from `PlacedBatches.headers`. As `pack_batch`, in less time for many. The records of a
    batch are asked for when those before are packed, so that an iterator need not have all of them at once.
    """
    packed = headers.tobytes()
    batches: list[bytes] = []
    for at, content in zip(range(0, len(packed), HEADER_BYTES), records, strict=True):
        length = (len(content) + HEADER_BYTES - LOG_OVERHEAD_BYTES).to_bytes(LOG_OVERHEAD_BYTES - _LENGTH_AT)
        between = packed[at + LOG_OVERHEAD_BYTES : at + _CRC_AT]
        covered = packed[at + CRC_COVERS_FROM : at + HEADER_BYTES]
        crc = crc32c(content, crc32c(covered)).to_bytes(CRC_COVERS_FROM - _CRC_AT)
        batches.append(b"".join((packed[at : at + _LENGTH_AT], length, between, crc, covered, content)))
    return batches
