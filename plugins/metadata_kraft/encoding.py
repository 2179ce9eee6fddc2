"""Encoding of metadata records: the frame of each, and their batches.

    frame version   unsigned varint, 1
    api key         unsigned varint, the type of record
    api version     unsigned varint
    message

Source: KIP-631, "Record Format".
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tidelog.kernel.errors import StorageError
from tidelog.kernel.records.batch import CONTROL_BIT, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, pack_batch
from tidelog.kernel.records.record import Record, encode_record
from tidelog.plugins.metadata_kraft.records.control import CONTROL_TYPES
from tidelog.plugins.metadata_kraft.records.types import BY_API_KEY, BY_MESSAGE
from tidelog.plugins.schema.compiled import decode, encode
from tidelog.plugins.schema.declare import versions_of
from tidelog.plugins.schema.errors import CodecError, Malformed
from tidelog.plugins.schema.types import read_uvarint, uvarint

_FRAME_VERSION = 1


class UnreadableMetadataRecord(StorageError):
    """A record of the metadata log that is malformed, too new or contradicts the image."""


class FramedRecord(NamedTuple):
    """A record out of the log; `message` is None for a type that this broker does not know."""

    api_key: int
    version: int
    message: Any
    value: bytes


def frame(message: object, version: int = 0) -> bytes:
    """Return a record's value in the log."""
    kind = BY_MESSAGE[type(message)]
    return bytes((_FRAME_VERSION,)) + uvarint(kind.api_key) + uvarint(version) + encode(message, version)


def unframe(value: bytes) -> FramedRecord:
    """Return the record in a value of the log.

    Raises:
        UnreadableMetadataRecord: it is malformed, or of a version that is newer than this broker.
    """
    try:
        frame_version, position = read_uvarint(value, 0)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except (Malformed, IndexError) as error:
        raise UnreadableMetadataRecord(f"the frame of a record is malformed: {error}") from None
    if frame_version != _FRAME_VERSION:
        raise UnreadableMetadataRecord(f"a record has frame version {frame_version}, not {_FRAME_VERSION}")
    kind = BY_API_KEY.get(api_key)
    if kind is None:
        return FramedRecord(api_key, version, None, value)
    if not versions_of(kind.message).covers(version):
        newest = versions_of(kind.message).high
        raise UnreadableMetadataRecord(f"{kind.name} has version {version}, this broker knows up to {newest}")
    try:
        return FramedRecord(api_key, version, decode(kind.message, version, value[position:]), value)
    except CodecError as error:
        raise UnreadableMetadataRecord(f"{kind.name} cannot be decoded: {error}") from None


MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Kafka's own limit of a batch of metadata."""

_CONTROL_KEY = struct.Struct(">hh")
_NO_PRODUCER_EPOCH = -1
_MESSAGE_VERSION = 0


def data_batch(values: Sequence[bytes], base_offset: int, epoch: int, now_ms: int) -> bytearray:
    """Return one batch of framed records; it is read whole or not at all."""
    return _batch([(None, value) for value in values], base_offset, epoch, now_ms, 0)


def data_batch_in_steps(
    values: Sequence[bytes], base_offset: int, epoch: int, now_ms: int
) -> Generator[None, None, bytearray]:
    """Return what `data_batch` does, a step for each record."""
    records = bytearray()
    for index, value in enumerate(values):
        encode_record(records, Record(base_offset + index, now_ms, None, value), base_offset, now_ms)
        yield
    return _packed(records, len(values), base_offset, epoch, now_ms, 0)


def control_batch(messages: Sequence[object], base_offset: int, epoch: int, now_ms: int) -> bytearray:
    """Return one batch of control records."""
    pairs = [
        (_CONTROL_KEY.pack(0, CONTROL_TYPES[type(message)]), encode(message, _MESSAGE_VERSION))
        for message in messages
    ]
    return _batch(pairs, base_offset, epoch, now_ms, CONTROL_BIT)


def control_type(key: bytes) -> int:
    """Return the type in a control record's key.

    Raises:
        struct.error: it is no such key.
    """
    _, number = _CONTROL_KEY.unpack(key)
    return int(number)


def in_chunks(values: Iterable[bytes], limit_bytes: int) -> Iterator[list[bytes]]:
    """Iterate over runs of values that each fit a batch of about `limit_bytes`."""
    chunk: list[bytes] = []
    size = 0
    for value in values:
        if chunk and size + len(value) > limit_bytes:
            yield chunk
            chunk, size = [], 0
        chunk.append(value)
        size += len(value)
    if chunk:
        yield chunk


def _batch(
    pairs: Sequence[tuple[bytes | None, bytes]], base_offset: int, epoch: int, now_ms: int, attributes: int
) -> bytearray:
    records = bytearray()
    for index, (key, value) in enumerate(pairs):
        encode_record(records, Record(base_offset + index, now_ms, key, value), base_offset, now_ms)
    return _packed(records, len(pairs), base_offset, epoch, now_ms, attributes)


def _packed(
    records: bytearray, count: int, base_offset: int, epoch: int, now_ms: int, attributes: int
) -> bytearray:
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=epoch,
        magic=0,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=_NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    return pack_batch(header, records)
