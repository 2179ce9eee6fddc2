"""Record batches for tests: intact, uncompressed, as small or large as a test needs them."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_batch,
)
from tidelog.kernel.records.record import Record, encode_record
from tidelog.kernel.testing.clock import START_MS

NO_PRODUCER_EPOCH = -1


def make_batch(
    values: Sequence[bytes | None] = (b"value",),
    base_offset: int = 0,
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | int = START_MS,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = 0,
    last_offset_delta: int | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """Return a valid batch with one record for each value.

    `timestamps` (milliseconds) are one for all records or one each. `last_offset_delta` beyond the number of
    values makes a batch as compaction leaves them; without values it is one that lost all its records.
    """
    times = [timestamps] * len(values) if isinstance(timestamps, int) else list(timestamps)
    base_timestamp = times[0] if times else timestamps if isinstance(timestamps, int) else -1
    records = bytearray()
    for index, (value, timestamp) in enumerate(zip(values, times, strict=True)):
        key = None if keys is None else keys[index]
        encode_record(
            records, Record(base_offset + index, timestamp, key, value), base_offset, base_timestamp
        )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=0,
        crc=0,
        attributes=TRANSACTIONAL_BIT * transactional | CONTROL_BIT * control,
        last_offset_delta=len(values) - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max(times, default=base_timestamp),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(values),
    )
    return pack_batch(header, records)
