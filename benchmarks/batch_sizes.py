"""Which batches really reached the log: read from its files, whatever the client was told to do."""

from __future__ import annotations

import struct
from statistics import median
from typing import TYPE_CHECKING, BinaryIO

import attrs

if TYPE_CHECKING:
    from pathlib import Path

# Base offset, length behind it; the count of records ends the header of 61 bytes (Kafka documentation,
# "Record Batch").
_HEADER_BYTES = 61
_LENGTH = struct.Struct(">qi")
_COUNT_AT = 57
_SAMPLE = 2_000


@attrs.frozen
class BatchSizes:
    """Medians over the first batches of a partition's first segment."""

    batches: int
    median_bytes: float
    median_records: float


def batch_sizes(partition_dir: Path, skip: int = 0) -> BatchSizes | None:
    """The sizes of up to 2,000 batches behind the first `skip`; None when there are none on a disk."""
    segments = sorted(partition_dir.glob("*.log"))
    if not segments:
        return None
    with segments[0].open("rb") as log:
        found = _read_headers(log)[skip:]
    if not found:
        return None
    lengths, counts = zip(*found, strict=True)
    return BatchSizes(len(found), median(lengths), median(counts))


def _read_headers(log: BinaryIO) -> list[tuple[int, int]]:
    """Whole length and count of records of each batch, up to the end or to a preallocated rest of zeros."""
    found: list[tuple[int, int]] = []
    while len(found) < _SAMPLE:
        header = log.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            break
        _, length = _LENGTH.unpack_from(header)
        if length <= 0:
            break
        (count,) = struct.unpack_from(">i", header, _COUNT_AT)
        found.append((length + _LENGTH.size, count))
        log.seek(length + _LENGTH.size - _HEADER_BYTES, 1)
    return found
