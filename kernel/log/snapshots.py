"""Producer snapshots: the producer table of a partition at one offset, in Kafka's file layout.

    file `<20-digit offset>.snapshot`
    byte 0  version        int16    1
         2  crc            uint32   CRC-32C of everything from byte 6 on
         6  entry count    int32
        10  entries, 46 bytes each:
            0 producerId int64, 8 epoch int16, 10 lastSequence int32, 14 lastOffset int64,
            22 offsetDelta int32, 26 timestamp int64, 34 coordinatorEpoch int32,
            38 currentTxnFirstOffset int64 (-1: none)

Of the last five batches only the newest is kept, as in Kafka. Source: Apache Kafka's `ProducerStateManager`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tidelog.kernel.checksum import crc32c
from tidelog.kernel.errors import StorageError
from tidelog.kernel.log.producers import NO_OFFSET, ProducerEntry, SentBatch
from tidelog.kernel.records.batch import NO_SEQUENCE

SUFFIX = ".snapshot"
VERSION = 1
MAX_SEQUENCE = 0x7FFFFFFF

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(StorageError):
    """A snapshot's bytes are not what was written; it is removed and the log is read instead."""


def snapshot_name(offset: int) -> str:
    """Return the file name of the snapshot taken at `offset`."""
    return f"{offset:020d}{SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of all snapshots among those file names, ascending."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def encode_snapshot(entries: dict[int, ProducerEntry]) -> bytes:
    """Return the file's content for a producer table."""
    body = bytearray(_COUNT.pack(len(entries)))
    for producer_id, entry in entries.items():
        body += _encode_entry(producer_id, entry)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _encode_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        producer_id,
        entry.epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else NO_OFFSET,
        last.last_offset - last.base_offset if last else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def decode_snapshot(content: bytes) -> dict[int, ProducerEntry]:
    """Parse the producer table in a snapshot file.

    Raises:
        CorruptSnapshot: wrong version, length or CRC.
    """
    if len(content) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(content)} bytes are no producer snapshot")
    version, crc = _HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshot(f"producer snapshot version {version} is not {VERSION}")
    body = memoryview(content)[_HEAD.size :]
    if crc32c(body) != crc:
        raise CorruptSnapshot("the producer snapshot's CRC does not match")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"a producer snapshot of {count} entries cannot have {len(content)} bytes")
    rows = _ENTRY.iter_unpack(body[_COUNT.size :])
    return {row[0]: _decode_entry(row[1:]) for row in rows}


def _decode_entry(row: tuple[int, ...]) -> ProducerEntry:
    epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_first_offset = row
    entry = ProducerEntry(
        epoch,
        last_timestamp=timestamp,
        coordinator_epoch=coordinator_epoch,
        current_txn_first_offset=txn_first_offset,
    )
    # A producer may be known by its epoch alone, as after a marker.
    if last_offset != NO_OFFSET:
        # The file has no base sequence. A batch may have begun before the sequences wrapped around to 0,
        # which the mask undoes.
        base_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE if last_sequence >= 0 else NO_SEQUENCE
        entry.batches.append(
            SentBatch(base_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)
        )
    return entry
