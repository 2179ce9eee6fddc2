"""Which batches really reached the log: read from its files, whatever the client was told to do."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import attrs

if TYPE_CHECKING:
    from pathlib import Path

# Base offset, length behind it (seed 000, section 5.3.1); the count of records ends the header of 61 bytes.
_HEADER_BYTES = 61
_LENGTH = struct.Struct(">qi")
_COUNT_AT = 57
_SAMPLE = 2_000


@attrs.frozen
class BatchSizes:
    """Means over the first batches of a partition's first segment."""

    batches: int
    mean_bytes: float
    mean_records: float


def batch_sizes(partition_dir: Path) -> BatchSizes | None:
    """The sizes of up to 2,000 batches; None when there is no segment file to look into."""
    segments = sorted(partition_dir.glob("*.log"))
    if not segments:
        return None
    with segments[0].open("rb") as log:
        found = _read_headers(log)
    if not found:
        return None
    lengths, counts = zip(*found, strict=True)
    return BatchSizes(len(found), sum(lengths) / len(found), sum(counts) / len(found))


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
