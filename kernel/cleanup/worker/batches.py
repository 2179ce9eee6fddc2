"""What stays of a batch: all of it, some records, its header alone.

Offsets, sequences and the last offset of a batch never change. Sources: seed 001, "Tombstones and
delete.retention.ms"; KIP-534.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    pack_batch,
    verify_crc,
)
from tidelog.kernel.records.block import Mask, RecordBlock
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.record import ATTRIBUTES_BYTES, MIN_TIMESTAMP
from tidelog.kernel.records.varint import read_varint, read_varlong, write_varlong

_KEPT_WHEN_EMPTY = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class KeptBatch(NamedTuple):
    """A batch that is written, with the largest timestamp in its header."""

    content: Buffer
    max_timestamp: int


def without_records(header: BatchHeader) -> KeptBatch:
    """Return a batch without its records: it keeps the producer's last sequence and the last offset."""
    empty = header._replace(
        attributes=header.attributes & _KEPT_WHEN_EMPTY, base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return KeptBatch(pack_batch(empty, b""), header.max_timestamp)


def with_records(
    batch: Buffer, block: RecordBlock, index: int, keep: Mask, horizon_ms: int | None
) -> KeptBatch:
    """Return batch `index` of a block with those records of it that are in `keep`, at least one.

    `horizon_ms` is the delete horizon that it gets, None to leave that as it is.

    Raises:
        CorruptBatch: the batch has a wrong checksum; it would get a right one.
    """
    header = block.headers[index]
    if not verify_crc(batch, header):
        raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
    first, after = int(block.first[index]), int(block.first[index + 1])
    chosen = np.flatnonzero(keep[first:after]) + first
    kept = header._replace(record_count=len(chosen))
    if not header.is_append_time:
        kept = kept._replace(max_timestamp=int(block.timestamp[chosen].max()))
    if horizon_ms is None:
        records = _as_they_are(block, chosen)
    else:
        records = _with_horizon(block, chosen, horizon_ms)
        kept = kept._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms)
    packed = compress(header.codec, records) if header.codec else records
    return KeptBatch(pack_batch(kept, packed), kept.max_timestamp)


def _as_they_are(block: RecordBlock, chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytes:
    """Return the bytes of records, which are copied in runs."""
    breaks = np.flatnonzero(np.diff(chosen) != 1) + 1
    starts = block.start[chosen[np.concatenate(([0], breaks))]].tolist()
    ends = block.end[chosen[np.concatenate((breaks - 1, [-1]))]].tolist()
    data = block.data
    return b"".join([data[start:end] for start, end in zip(starts, ends, strict=True)])


def _with_horizon(
    block: RecordBlock, chosen: np.ndarray[tuple[int], np.dtype[np.int64]], horizon_ms: int
) -> bytes:
    """Return the bytes of records with timestamps that are relative to the delete horizon."""
    records = bytearray()
    data = block.data
    for index in chosen.tolist():
        _, body_at = read_varint(data, int(block.start[index]))
        _, rest_at = read_varlong(data, body_at + ATTRIBUTES_BYTES)
        body = bytearray(data[body_at : body_at + ATTRIBUTES_BYTES])
        # Readers add in 64 bits, as Java does.
        delta = int(block.timestamp[index]) - horizon_ms
        write_varlong(body, (delta - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP)
        body += data[rest_at : int(block.end[index])]
        write_varlong(records, len(body))
        records += body
    return bytes(records)
