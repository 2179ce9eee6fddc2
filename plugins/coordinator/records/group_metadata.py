"""Classic groups as they stand in `__consumer_offsets`.

A key is its type (int16: 2) and the schema `GroupMetadataKey`; a value is its version (int16) and the schema
`GroupMetadataValue`. Source: Apache Kafka 4.3's schemas of these names; KIP-345 (version 3, static members).
"""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.codecs.compiled import decode, decoder, encode
from tidelog.plugins.protocol_kafka.codecs.declare import (
    VersionSpan,
    array,
    byte_string,
    int32,
    int64,
    string,
    struct,
    versions_of,
)
from tidelog.plugins.protocol_kafka.codecs.errors import DecodeError

KEY_TYPE: Final = 2
KEY_TYPES: Final = (KEY_TYPE,)
CURRENT_VERSION: Final = 3
"""What Apache Kafka 4.3 writes: the newest version that older brokers read as well."""
TYPE_BYTES: Final = 2
NO_TIMESTAMP: Final = -1
_KEY_PREFIX: Final = KEY_TYPE.to_bytes(TYPE_BYTES, "big")


@struct(VersionSpan(2, 2))
class GroupMetadataKey:
    """Which group."""

    group: str = string()


@struct()
class MemberMetadata:
    """A member: its metadata in the group's protocol, and its share; times in milliseconds."""

    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(versions="1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = byte_string()
    assignment: bytes = byte_string()


@struct(VersionSpan(0, 4, flexible=4))
class GroupMetadataValue:
    """A generation; protocol and leader are null when there are no members."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64(versions="2+", default=NO_TIMESTAMP, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


def group_metadata_key(group_id: str) -> bytes:
    """The key of a group."""
    return _KEY_PREFIX + encode(GroupMetadataKey(group=group_id), KEY_TYPE)


def group_metadata_value(value: GroupMetadataValue) -> bytes:
    """A value, in the version that is written today."""
    return CURRENT_VERSION.to_bytes(TYPE_BYTES, "big") + encode(value, CURRENT_VERSION)


def read_group_metadata_key(key: bytes) -> str:
    """The id of the group that a key of type 2 is about.

    Raises:
        DecodeError: it is malformed.
    """
    message: GroupMetadataKey = decode(GroupMetadataKey, KEY_TYPE, key[TYPE_BYTES:])
    return message.group


def read_group_metadata_value(value: bytes) -> GroupMetadataValue:
    """What a value says.

    Raises:
        DecodeError: it is malformed, or of a version that is newer than this broker.
    """
    version = int.from_bytes(value[:TYPE_BYTES], "big", signed=True)
    if len(value) < TYPE_BYTES or not versions_of(GroupMetadataValue).covers(version):
        raise DecodeError("GroupMetadataValue", version, "", "this broker knows versions 0 to 4")
    # Tagged fields of later brokers may stand behind what this one knows.
    message, _ = decoder(GroupMetadataValue, version)(value, TYPE_BYTES)
    return message
