"""Control batches that end a transaction: one record that says whether it was committed or aborted.

    key    version int16 0, type int16: 0 abort, 1 commit
    value  version int16 0, coordinatorEpoch int32

The batch is transactional and a control batch, has the producer's id and epoch and no sequence. Sources:
Kafka documentation, "Record Batch" ("Control Batches"); Kafka's `EndTxnMarker` schema for the value.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    MAGIC_V2,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    pack_batch,
)
from tidelog.kernel.records.record import Record, encode_record, iter_records

VERSION = 0
ABORT = 0
COMMIT = 1
NO_LEADER_EPOCH = -1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of its coordinator."""

    commit: bool
    coordinator_epoch: int


def marker_batch(
    producer_id: int, producer_epoch: int, marker: EndMarker, timestamp_ms: int
) -> tuple[bytearray, BatchHeader]:
    """Return a batch at offset 0 with that marker, and its header."""
    key = _KEY.pack(VERSION, COMMIT if marker.commit else ABORT)
    records = bytearray()
    encode_record(
        records, Record(0, timestamp_ms, key, _VALUE.pack(VERSION, marker.coordinator_epoch)), 0, timestamp_ms
    )
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )
    return pack_batch(header, records), header


def decode_marker(batch: Buffer, header: BatchHeader) -> EndMarker | None:
    """Return the marker in a control batch, None if it was compacted away or is of another type.

    Raises:
        CorruptBatch: key or value are too short.
    """
    record = next(iter_records(batch, header), None)
    if record is None:
        return None
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        raise CorruptBatch(f"the control record at offset {record.offset} has a key of {len(key)} bytes")
    version, kind = _KEY.unpack_from(key)
    # A newer version is read as far as it is known; other types of control records are no markers.
    if version < VERSION or kind not in (ABORT, COMMIT):
        return None
    if len(value) < _VALUE.size:
        raise CorruptBatch(f"the marker at offset {record.offset} has a value of {len(value)} bytes")
    return EndMarker(kind == COMMIT, _VALUE.unpack_from(value)[1])
