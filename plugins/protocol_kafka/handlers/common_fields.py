"""Fields that several APIs have: topics by name or id, isolation level, authorized operations (KIP-430)."""

from __future__ import annotations

from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.topics import Topic, Topics
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.codecs import Uuid

# Calling the enumeration would take two Python functions for each request.
_LEVELS = {int(isolation): isolation for isolation in Isolation}


def find_topic(topics: Topics, name: str | None, topic_id: Uuid, *, by_id: bool) -> Topic:
    """Return the topic that a request names.

    Raises:
        UnknownTopicOrPartition: no topic has that name.
        UnknownTopicId: no topic has that id.
    """
    return topics.get_by_id(topic_id) if by_id else topics.get(name or "")


def isolation_of(level: int) -> Isolation:
    """Return the isolation level of a request.

    Raises:
        ProtocolViolation: there is no such level.
    """
    try:
        return _LEVELS[level]
    except KeyError:
        raise ProtocolViolation(f"isolation level {level} is neither 0 nor 1") from None


NOT_ASKED = -(2**31)
"""Value for a client that did not request authorized operations."""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
CLUSTER_OPERATIONS = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)
GROUP_OPERATIONS = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
