"""One record batch, encoded once and sent again and again with the next sequence number.

The CRC covers the base sequence (Kafka documentation, "Record Batch"). CRC-32C is linear, so the CRC that
belongs to a sequence is the CRC for sequence 0 XORed with one value per bit that is set: four table look-ups
instead of a pass over a whole batch.
"""

from __future__ import annotations

import io
import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import crc32c
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

if TYPE_CHECKING:
    from collections.abc import Sequence

CRC_AT, ATTRIBUTES_AT, BASE_SEQUENCE_AT = 17, 21, 53
_U32 = struct.Struct(">I")
_SEQUENCES = 1 << 31
# A record's lengths, deltas and attributes are 9 to 11 bytes of varints (Kafka documentation, "Record").
_BATCH_OVERHEAD_BYTES, _RECORD_OVERHEAD_BYTES = 61, 11


def records_per_batch(value_bytes: int, batch_bytes: int) -> int:
    """How many records of `value_bytes` fit into a batch of `batch_bytes`; at least one."""
    return max(1, (batch_bytes - _BATCH_OVERHEAD_BYTES) // (value_bytes + _RECORD_OVERHEAD_BYTES))


def encode_batch(values: Sequence[bytes], producer_id: int, producer_epoch: int) -> bytes:
    """An uncompressed batch v2 of `values` without keys, with base sequence 0."""
    # Whole seconds, since kio computes milliseconds by floating point.
    now = TZAwareMicros.parse(datetime.now(UTC).replace(microsecond=0))
    records = tuple(
        Record(attributes=i8(0), timestamp=now, offset=i64(n), key=None, value=value, headers=())
        for n, value in enumerate(values)
    )
    with io.BytesIO() as buffer:
        write_new_batch(
            buffer,
            NewRecordBatch(
                producer_id=i64(producer_id),
                producer_epoch=i16(producer_epoch),
                base_sequence=i32(0),
                records=records,
                attributes=i16(0),
            ),
        )
        return buffer.getvalue()


class SequencePatcher:
    """Sets the base sequence of the batch that starts at `batch_at` in `frame`, and the CRC with it."""

    def __init__(self, frame: bytearray, batch_at: int, batch_bytes: int) -> None:
        self._frame = frame
        self._crc_at = batch_at + CRC_AT
        self._sequence_at = batch_at + BASE_SEQUENCE_AT
        covered = bytearray(frame[batch_at + ATTRIBUTES_AT : batch_at + batch_bytes])
        _U32.pack_into(covered, BASE_SEQUENCE_AT - ATTRIBUTES_AT, 0)
        self._crc_of_zero = crc32c.crc32c(covered)
        flips = [self._flip_of_bit(covered, bit) for bit in range(32)]
        self._tables = [_xor_table(flips[shift : shift + 8]) for shift in (0, 8, 16, 24)]

    def _flip_of_bit(self, covered: bytearray, bit: int) -> int:
        _U32.pack_into(covered, BASE_SEQUENCE_AT - ATTRIBUTES_AT, 1 << bit)
        return crc32c.crc32c(covered) ^ self._crc_of_zero

    def patch(self, sequence: int) -> None:
        """Make the batch one whose first record has `sequence`, which wraps at 2^31."""
        sequence %= _SEQUENCES
        lowest, low, high, highest = self._tables
        crc = (
            self._crc_of_zero
            ^ lowest[sequence & 0xFF]
            ^ low[sequence >> 8 & 0xFF]
            ^ high[sequence >> 16 & 0xFF]
            ^ highest[sequence >> 24]
        )
        _U32.pack_into(self._frame, self._sequence_at, sequence)
        _U32.pack_into(self._frame, self._crc_at, crc)


def _xor_table(flips: Sequence[int]) -> list[int]:
    """For every byte, the XOR of the flips of its set bits, lowest bit first."""
    table = [0]
    for flip in flips:
        table += [entry ^ flip for entry in table]
    return table
