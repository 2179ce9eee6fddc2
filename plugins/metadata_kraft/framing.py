"""The frame round a metadata record: what the value of a record in the log is.

    frame version   unsigned varint, 1
    api key         unsigned varint, the type of record
    api version     unsigned varint
    message

Source: KIP-631, "Record Format".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.kernel.errors import StorageError
from tidelog.plugins.protocol_kafka.codecs.compiled import decode, encode
from tidelog.plugins.protocol_kafka.codecs.declare import versions_of
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError, Malformed
from tidelog.plugins.protocol_kafka.codecs.varint import read_uvarint, uvarint
from tidelog.plugins.metadata_kraft.records.types import BY_API_KEY, BY_MESSAGE

_FRAME_VERSION = 1


class UnreadableRecord(StorageError):
    """A record of the metadata log that this broker cannot make sense of."""


class FramedRecord(NamedTuple):
    """A record out of the log; `message` is None for a type that this broker does not know."""

    api_key: int
    version: int
    message: Any
    value: bytes


def frame(message: object, version: int = 0) -> bytes:
    """A record's value in the log."""
    kind = BY_MESSAGE[type(message)]
    return bytes((_FRAME_VERSION,)) + uvarint(kind.api_key) + uvarint(version) + encode(message, version)


def unframe(value: bytes) -> FramedRecord:
    """The record in a value of the log.

    Raises:
        UnreadableRecord: it is malformed, or of a version that is newer than this broker.
    """
    try:
        frame_version, position = read_uvarint(value, 0)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except (Malformed, IndexError) as error:
        raise UnreadableRecord(f"the frame of a record is malformed: {error}") from None
    if frame_version != _FRAME_VERSION:
        raise UnreadableRecord(f"a record has frame version {frame_version}, not {_FRAME_VERSION}")
    kind = BY_API_KEY.get(api_key)
    if kind is None:
        return FramedRecord(api_key, version, None, value)
    if not versions_of(kind.message).covers(version):
        newest = versions_of(kind.message).high
        raise UnreadableRecord(f"{kind.name} has version {version}, this broker knows up to {newest}")
    try:
        return FramedRecord(api_key, version, decode(kind.message, version, value[position:]), value)
    except CodecError as error:
        raise UnreadableRecord(f"{kind.name} cannot be decoded: {error}") from None
