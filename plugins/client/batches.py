"""Build record batches from records, with the kernel's record format and compression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tidelog.kernel.records.batch import (
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    pack_batch,
)
from tidelog.kernel.records.compression import NO_COMPRESSION, codec_named, compress, registered_codecs
from tidelog.kernel.records.record import Record, encode_record

if TYPE_CHECKING:
    from collections.abc import Sequence

FetchedBatch: TypeAlias = tuple[BatchHeader, memoryview]
"""Header of a record batch, and the bytes of the batch, which begin with that header."""


@attrs.frozen
class NewRecord:
    """Record to produce; `timestamp` is in milliseconds since the epoch, None means now."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None


@attrs.frozen
class ProducerStamp:
    """Producer id, epoch, base sequence of an idempotent producer's batch, and if it is transactional."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


NO_PRODUCER: Final = ProducerStamp()


@attrs.frozen
class EncodedBatch:
    """Records of a batch v2 without the header, which needs the stamp of its producer.

    Attributes:
        records: the encoded records, compressed as `codec` says; offset deltas are 0, 1, 2...
        record_count: at least one
        base_timestamp: the timestamp that the records' deltas refer to, in milliseconds since the epoch
        max_timestamp: the largest one of a record
        codec: codec id
    """

    records: Buffer
    record_count: int
    base_timestamp: int
    max_timestamp: int
    codec: int

    def stamped(self, stamp: ProducerStamp = NO_PRODUCER) -> bytearray:
        """Return the batch with base offset 0, as producers send it."""
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC_V2,
            crc=0,
            attributes=self.codec | (TRANSACTIONAL_BIT if stamp.is_transactional else 0),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.producer_epoch,
            base_sequence=stamp.base_sequence,
            record_count=self.record_count,
        )
        return pack_batch(header, self.records)


def encode_batch(records: Sequence[NewRecord], *, now_ms: int, compression: str = "none") -> EncodedBatch:
    """Return the records encoded and compressed.

    Raises:
        ValueError: `records` is empty, or the compression is unknown.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    codec = codec_of(compression)
    times = [now_ms if record.timestamp is None else record.timestamp for record in records]
    return EncodedBatch(compress(codec, _encode(records, times)), len(records), times[0], max(times), codec)


def codec_of(compression: str) -> int:
    """Return the codec id of a compression by its name.

    Raises:
        ValueError: there is no such compression.
    """
    if compression == NO_COMPRESSION:
        return 0
    codec = codec_named(compression)
    if codec is None:
        names = ", ".join((NO_COMPRESSION, *(each.name for each in registered_codecs())))
        raise ValueError(f"compression {compression!r} is none of {names}")
    return codec.id


def build_batch(
    records: Sequence[NewRecord],
    *,
    now_ms: int,
    compression: str = "none",
    stamp: ProducerStamp = NO_PRODUCER,
) -> bytearray:
    """Return a record batch v2 with base offset 0, as producers send it. Raises as `encode_batch`."""
    return encode_batch(records, now_ms=now_ms, compression=compression).stamped(stamp)


def _encode(records: Sequence[NewRecord], times: Sequence[int]) -> bytearray:
    out = bytearray()
    for offset, (record, time) in enumerate(zip(records, times, strict=True)):
        encode_record(out, Record(offset, time, record.key, record.value, record.headers), 0, times[0])
    return out
