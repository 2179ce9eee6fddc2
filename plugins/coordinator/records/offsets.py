"""Committed offsets as they stand in `__consumer_offsets`.

A key is its type (int16: 1, or 0 in old logs) and the schema of that name; a value is its version (int16) and
the schema. Source: Apache Kafka 4.3's `OffsetCommitKey` and `OffsetCommitValue`; seed 000, section 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernel.seams.coordination.offsets import NO_TIMESTAMP, CommittedOffset
from tidelog.plugins.protocol_kafka.codecs.compiled import decode, decoder, encode
from tidelog.plugins.protocol_kafka.codecs.declare import (
    VersionSpan,
    int32,
    int64,
    string,
    struct,
    uuid,
    versions_of,
)
from tidelog.plugins.protocol_kafka.codecs.errors import DecodeError
from tidelog.plugins.protocol_kafka.codecs.types import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.codecs.types import Uuid

KEY_TYPES: Final = (0, 1)
KEY_TYPE: Final = 1
EXPIRING_VERSION: Final = 1
"""The one version with room for an expiry time of the client's own; leader epoch and id are lost in it."""
CURRENT_VERSION: Final = 4
TYPE_BYTES: Final = 2
_KEY_PREFIX: Final = KEY_TYPE.to_bytes(TYPE_BYTES, "big")
_V4: Final = b"\0\4"
_V4_METADATA_AT: Final = 14
"""Where the length of the metadata is in a value of version 4."""
_TIME_BYTES: Final = 8
_TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field, tag 0, 16 bytes."""
_TOPIC_ID_BYTES: Final = 3 + 16
_VERSION_PREFIXES: Final = tuple(
    version.to_bytes(TYPE_BYTES, "big") for version in range(CURRENT_VERSION + 1)
)


@struct(VersionSpan(0, 1))
class OffsetCommitKey:
    """What was committed, and by which group."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@struct(VersionSpan(0, 4, flexible=4))
class OffsetCommitValue:
    """What was committed; times are milliseconds since the epoch."""

    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(versions="1", default=-1, ignorable=True)
    topic_id: Uuid = uuid(versions="4+", tag=0, default=ZERO_UUID, ignorable=True)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of what a group has committed in a partition."""
    return _KEY_PREFIX + encode(OffsetCommitKey(group=group_id, topic=topic, partition=partition), KEY_TYPE)


def offset_value(committed: CommittedOffset) -> bytes:
    """The value, in the version that Apache Kafka 4.3 writes: 4, or 1 where the client chose the expiry."""
    version = CURRENT_VERSION if committed.expire_timestamp_ms == NO_TIMESTAMP else EXPIRING_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id or ZERO_UUID,
    )
    return _VERSION_PREFIXES[version] + encode(value, version)


def read_offset_key(key: bytes) -> OffsetCommitKey:
    """What a key of type 0 or 1 says.

    Raises:
        DecodeError: it is malformed.
    """
    message: OffsetCommitKey = decode(OffsetCommitKey, KEY_TYPE, key[TYPE_BYTES:])
    return message


def check_offset_value(value: bytes) -> None:
    """Check that a value can be read, except that its metadata is UTF-8; much cheaper than to read it.

    What brokers write is known by its length: version 4, short metadata, no tagged field but the topic id.

    Raises:
        DecodeError: it is malformed, or of a version that is not known.
    """
    if len(value) > _V4_METADATA_AT and value.startswith(_V4):
        end = _V4_METADATA_AT + value[_V4_METADATA_AT] + _TIME_BYTES
        tags = len(value) - end
        if tags == 1 and not value[end]:
            return
        if tags == _TOPIC_ID_BYTES and value.startswith(_TOPIC_ID_TAG, end):
            return
    read_offset_value(value)


def read_offset_value(value: bytes) -> CommittedOffset:
    """What a value of any version says.

    Raises:
        DecodeError: it is malformed, or of a version that is not known.
    """
    version = int.from_bytes(value[:TYPE_BYTES], "big", signed=True)
    if len(value) < TYPE_BYTES or not versions_of(OffsetCommitValue).covers(version):
        raise DecodeError("OffsetCommitValue", version, "", f"the newest known version is {CURRENT_VERSION}")
    message, _ = decoder(OffsetCommitValue, version)(value, TYPE_BYTES)
    return CommittedOffset(
        message.offset,
        message.leader_epoch,
        message.metadata,
        message.commit_timestamp,
        message.expire_timestamp,
        None if message.topic_id == ZERO_UUID else message.topic_id,
    )
