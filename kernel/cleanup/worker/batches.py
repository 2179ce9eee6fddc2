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
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Mask
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


def _largest(block: RecordBlock) -> list[int]:
    """Return the largest timestamp of each batch, `NO_TIMESTAMP` of one without records."""
    largest = np.full(len(block.headers), NO_TIMESTAMP, np.int64)
    filled = np.flatnonzero(np.diff(block.first))
    if filled.size:
        largest[filled] = np.maximum.reduceat(block.timestamp, block.first[filled])
    found: list[int] = largest.tolist()
    return found


class KeptRecords:
    """The records of a block that stay; `counts` and `tombstones` are how many of each of its batches.

    What is cut out of all batches is computed at once: there are many, with few records each.
    """

    def __init__(self, block: RecordBlock, keep: Mask) -> None:
        chosen = np.flatnonzero(keep)
        self._block = kept = block if len(chosen) == len(block) else block.select(keep)
        self._first: list[int] = kept.first.tolist()
        self.counts: list[int] = np.diff(kept.first).tolist()
        self.tombstones: list[int] = np.bincount(
            kept.batch[kept.is_tombstone], minlength=len(kept.headers)
        ).tolist()
        self._max_timestamps = _largest(kept)
        # Records that follow each other are copied in one run; none has those of two batches.
        run_begins = np.ones(len(chosen), np.bool_)
        run_begins[1:] = (np.diff(chosen) != 1) | (np.diff(kept.batch) != 0)
        runs = np.flatnonzero(run_begins)
        self._run_starts: list[int] = kept.start[runs].tolist()
        self._run_ends: list[int] = kept.end[np.append(runs[1:], len(chosen))[: len(runs)] - 1].tolist()
        self._first_run: list[int] = np.searchsorted(runs, kept.first).tolist()

    def batch(self, content: Buffer, index: int, horizon_ms: int | None) -> KeptBatch:
        """Return batch `index` with the records of it that stay, at least one.

        `content` is the batch. `horizon_ms` is the delete horizon that it gets, None to leave that as it is.

        Raises:
            CorruptBatch: the batch has a wrong checksum; it would get a right one.
        """
        header = self._block.headers[index]
        if not verify_crc(content, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
        max_timestamp = header.max_timestamp if header.is_append_time else self._max_timestamps[index]
        kept = header._replace(record_count=self.counts[index], max_timestamp=max_timestamp)
        if horizon_ms is None:
            records = self._as_they_are(index)
        else:
            records = self._with_horizon(index, horizon_ms)
            kept = kept._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms)
        packed = compress(header.codec, records) if header.codec else records
        return KeptBatch(pack_batch(kept, packed), max_timestamp)

    def _as_they_are(self, index: int) -> bytes:
        data = self._block.data
        first, after = self._first_run[index : index + 2]
        runs = zip(self._run_starts[first:after], self._run_ends[first:after], strict=True)
        return b"".join([data[start:end] for start, end in runs])

    def _with_horizon(self, index: int, horizon_ms: int) -> bytes:
        """Return the bytes of the records with timestamps that are relative to the delete horizon."""
        records = bytearray()
        block, data = self._block, self._block.data
        for each in range(*self._first[index : index + 2]):
            _, body_at = read_varint(data, int(block.start[each]))
            _, rest_at = read_varlong(data, body_at + ATTRIBUTES_BYTES)
            body = bytearray(data[body_at : body_at + ATTRIBUTES_BYTES])
            # Readers add in 64 bits, as Java does.
            delta = int(block.timestamp[each]) - horizon_ms
            write_varlong(body, (delta - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP)
            body += data[rest_at : int(block.end[each])]
            write_varlong(records, len(body))
            records += body
        return bytes(records)
