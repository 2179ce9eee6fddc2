"""Build record batches from records, with the kernel's record format and compression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.records.batch import (
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    pack_batch,
)
from tidelog.kernel.records.compression import NO_COMPRESSION, codec_named, compress, registered_codecs
from tidelog.kernel.records.record import Record, encode_record

if TYPE_CHECKING:
    from collections.abc import Sequence


@attrs.frozen
class NewRecord:
    """Record to produce; `timestamp` is in milliseconds since the epoch, None means now."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None


@attrs.frozen
class ProducerStamp:
    """Producer id, epoch and base sequence of an idempotent producer's batch."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE


def build_batch(
    records: Sequence[NewRecord],
    *,
    now_ms: int,
    compression: str = "none",
    stamp: ProducerStamp | None = None,
) -> bytearray:
    """Return a record batch v2 with base offset 0, as producers send it.

    Raises:
        ValueError: `records` is empty, or the compression is unknown.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    codec = _codec_id(compression)
    times = [now_ms if record.timestamp is None else record.timestamp for record in records]
    stamp = stamp or ProducerStamp()
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=MAGIC_V2,
        crc=0,
        attributes=codec,
        last_offset_delta=len(records) - 1,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer_id=stamp.producer_id,
        producer_epoch=stamp.producer_epoch,
        base_sequence=stamp.base_sequence,
        record_count=len(records),
    )
    return pack_batch(header, compress(codec, _encode(records, times)))


def _codec_id(compression: str) -> int:
    if compression == NO_COMPRESSION:
        return 0
    codec = codec_named(compression)
    if codec is None:
        names = ", ".join((NO_COMPRESSION, *(each.name for each in registered_codecs())))
        raise ValueError(f"compression {compression!r} is none of {names}")
    return codec.id


def _encode(records: Sequence[NewRecord], times: Sequence[int]) -> bytearray:
    out = bytearray()
    for offset, (record, time) in enumerate(zip(records, times, strict=True)):
        encode_record(out, Record(offset, time, record.key, record.value, record.headers), 0, times[0])
    return out
