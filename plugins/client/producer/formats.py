"""The bytes of a batch in the message format that the version of Produce has.

Source: Kafka protocol guide, "Record Batch" and "Message Sets"; KIP-110 for zstd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.message_set import MAGIC_V0, MAGIC_V1, Message, encode_message
from tidelog.plugins.client.batches import EncodedBatch, ProducerStamp
from tidelog.plugins.client.errors import UnsendableRequest
from tidelog.plugins.client.producer.record_encoder import encode_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.kernel.records.batch import Buffer
    from tidelog.plugins.client.producer.record_encoder import QueuedRecord

FIRST_WITH_BATCHES: Final = 3
"""First version of Produce with record batches (format 2)."""
FIRST_WITH_TIMESTAMPS: Final = 2
"""First version with format 1."""
FIRST_WITH_ZSTD: Final = 7
ZSTD: Final = 4


def encode(records: list[QueuedRecord], codec: int, level: int | None) -> EncodedBatch:
    """Return records encoded in format 2 and compressed; any thread may call it."""
    body, latest = encode_records(records)
    if codec:
        body = compress(codec, body, level)
    return EncodedBatch(body, len(records), records[0][2], latest, codec)


def packed(
    encoded: EncodedBatch,
    stamp: ProducerStamp,
    records: Sequence[QueuedRecord],
    *,
    version: int,
    level: int | None,
    where: str,
) -> Buffer:
    """Return a batch as a Produce request of that version has it.

    Raises:
        UnsendableRequest: the format has no headers, or the broker no zstd.
    """
    if encoded.codec == ZSTD and version < FIRST_WITH_ZSTD:
        raise UnsendableRequest(where, "it is too old for zstd (Kafka 2.1)")
    if version >= FIRST_WITH_BATCHES:
        return encoded.stamped(stamp)
    if any(record[3] for record in records):
        raise UnsendableRequest(where, "it is too old for headers of records (Kafka 0.11)")
    magic = MAGIC_V1 if version >= FIRST_WITH_TIMESTAMPS else MAGIC_V0
    messages = bytearray()
    for offset, (key, value, timestamp, _) in enumerate(records):
        encode_message(messages, Message(offset, timestamp, key, value), magic)
    if not encoded.codec:
        return messages
    value = compress(encoded.codec, messages, level, magic=magic)
    wrapper = bytearray()
    last = Message(len(records) - 1, encoded.max_timestamp, None, value)
    encode_message(wrapper, last, magic, attributes=encoded.codec)
    return wrapper
