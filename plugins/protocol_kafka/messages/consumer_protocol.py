"""Consumer protocol of the classic groups' opaque fields: subscriptions and assignments.

Both begin with a version (int16); a reader of an older version reads the fields that it knows.
Source: the schemas ConsumerProtocolSubscription and ConsumerProtocolAssignment of Apache Kafka; KIP-429
(owned partitions), KIP-792 (generation), KIP-881 (rack).
"""

from __future__ import annotations

from typing import Final, TypeVar

from tidelog.plugins.schema import DecodeError, decoder, encode
from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    byte_string,
    int32,
    string,
    struct,
)
from tidelog.plugins.schema.types import INT32, STRING

NEWEST_VERSION: Final = 3
CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSIONS = VersionSpan(0, NEWEST_VERSION)
_VERSION_BYTES = 2

T = TypeVar("T")


@struct()
class TopicPartitions:
    """Some partitions of a topic."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@struct(_VERSIONS)
class ConsumerProtocolSubscription:
    """A subscription, and from version 1 on the partitions that the consumer owns."""

    topics: list[str] = array(STRING)
    user_data: bytes | None = byte_string(nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(
        TopicPartitions, versions="1+", factory=list, ignorable=True
    )
    generation_id: int = int32(versions="2+", default=-1, ignorable=True)
    rack_id: str | None = string(versions="3+", nullable="3+", default=None, ignorable=True)


@struct(_VERSIONS)
class ConsumerProtocolAssignment:
    """Assignment of a consumer."""

    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = byte_string(nullable="0+", default=None)


def protocol_version(data: bytes) -> int:
    """Return the version that the bytes begin with."""
    return int.from_bytes(data[:_VERSION_BYTES], signed=True)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription in a member's metadata.

    Raises:
        CodecError: it is malformed.
    """
    return _read(ConsumerProtocolSubscription, data)


def read_topics(data: bytes) -> list[str]:
    """Return the topics of the subscription in a member's metadata, whatever version that states.

    As in Kafka: the fields of version 0 begin every version, and many clients state a later one and send no
    more than these.

    Raises:
        CodecError: it is malformed.
    """
    if len(data) < _VERSION_BYTES:
        raise _no_version(ConsumerProtocolSubscription, data)
    subscription = decoder(ConsumerProtocolSubscription, 0)(memoryview(data), _VERSION_BYTES)[0]
    return subscription.topics


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return the assignment of a member; no bytes mean no partitions.

    Raises:
        CodecError: it is malformed.
    """
    return (
        _read(ConsumerProtocolAssignment, data)
        if data
        else ConsumerProtocolAssignment(assigned_partitions=[])
    )


def write_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """Return an assignment, encoded in the version of the member's metadata."""
    known = max(0, min(version, NEWEST_VERSION))
    return known.to_bytes(_VERSION_BYTES) + encode(assignment, known)


def _read(cls: type[T], data: bytes) -> T:
    version = protocol_version(data)
    if len(data) < _VERSION_BYTES or version < 0:
        raise _no_version(cls, data)
    return decoder(cls, min(version, NEWEST_VERSION))(memoryview(data), _VERSION_BYTES)[0]


def _no_version(cls: type[object], data: bytes) -> DecodeError:
    return DecodeError(cls.__name__, protocol_version(data), "", "there is no version at the beginning")
