"""Committed offsets as records of `__consumer_offsets`.

    key    type int16 (1, or 0 in old logs), group string, topic string, partition int32
    value  version int16, then `OffsetCommitValue` in that version; without a value the offset is removed

Source: Apache Kafka 4.4's `OffsetCommitKey`, `LegacyOffsetCommitKey` and `OffsetCommitValue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeAlias

from tidelog.kernel.seams.coordination.offsets import NO_TIMESTAMP, CommittedOffset
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.durable_change import TYPE_BYTES, DurableChange
from tidelog.plugins.schema.compiled import encode
from tidelog.plugins.schema.declare import VersionSpan, int32, int64, string, struct, uuid
from tidelog.plugins.schema.types import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.offsets.table import OffsetTable
    from tidelog.plugins.schema.types import Uuid

PartitionKey: TypeAlias = tuple[str, int]
"""A topic's name and the number of a partition."""

KEY_TYPES: Final = (0, 1)
OFFSETS_PER_BATCH: Final = 300
"""Offsets of a group that are removed at once, in a millisecond or two: all may not fit into a batch."""
_TYPE: Final = b"\0\1"
_LENGTH_BYTES: Final = 2
_PARTITION_BYTES: Final = 4
EXPIRING_VERSION: Final = 1
"""The one version with an expiry time chosen by the client; leader epoch and topic id are lost in it."""
CURRENT_VERSION: Final = 4
"""The version that Apache Kafka 4.4 writes."""
_V4: Final = b"\0\4"
_V4_METADATA_AT: Final = 14
"""Position of the metadata's length in a value of version 4."""
_TIME_BYTES: Final = 8
_TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field, tag 0, 16 bytes."""
_TOPIC_ID_BYTES: Final = 3 + 16


@struct(VersionSpan(0, 0))
class OffsetCommitKey:
    """The group, and the partition that its offset is in."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@struct(VersionSpan(0, 4, flexible=4))
class OffsetCommitValue:
    """The committed offset; times are milliseconds since the epoch."""

    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(versions="1", default=-1, ignorable=True)
    topic_id: Uuid = uuid(versions="4+", tag=0, default=ZERO_UUID, ignorable=True)


class OffsetChange(DurableChange["OffsetTable"]):
    """An offset that a group commits for `topic_partition`, or its removal (`committed` is None)."""

    __slots__ = ("committed", "group_id", "topic_partition")

    key_type = int.from_bytes(_TYPE)
    key_schema = OffsetCommitKey
    value_schema = OffsetCommitValue

    def __init__(self, group_id: str, tp: PartitionKey, committed: CommittedOffset | None) -> None:
        self.group_id = group_id
        self.topic_partition = tp
        self.committed = committed

    def key(self) -> OffsetCommitKey:
        """Return group, topic and partition."""
        topic, partition = self.topic_partition
        return OffsetCommitKey(group=self.group_id, topic=topic, partition=partition)

    def value(self) -> tuple[int, OffsetCommitValue] | None:
        """Return the offset in version 4, or in version 1 where the client chose the expiry."""
        committed = self.committed
        if committed is None:
            return None
        value = OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id or ZERO_UUID,
        )
        plain = committed.expire_timestamp_ms == NO_TIMESTAMP
        return CURRENT_VERSION if plain else EXPIRING_VERSION, value

    def to_record(self) -> StateRecord:
        """Return the record to append; a request commits many, so the key is encoded without the codec."""
        group, (topic, partition) = self.group_id.encode(), self.topic_partition
        name = topic.encode()
        key = b"".join(
            (
                _TYPE,
                len(group).to_bytes(_LENGTH_BYTES, signed=True),
                group,
                len(name).to_bytes(_LENGTH_BYTES, signed=True),
                name,
                partition.to_bytes(_PARTITION_BYTES, signed=True),
            )
        )
        value = self.value()
        if value is None:
            return StateRecord(key, None)
        version, message = value
        return StateRecord(key, version.to_bytes(TYPE_BYTES) + encode(message, version))

    def apply(self, state: OffsetTable) -> None:
        """Commit or remove the offset."""
        if self.committed is None:
            state.remove(self.group_id, self.topic_partition)
        else:
            state.commit(self.group_id, self.topic_partition, self.committed)

    def apply_pending(self, state: OffsetTable, producer_id: int, record_offset: int) -> None:
        """Apply the record at `record_offset` of a transaction; a removal counts at once, as in Kafka."""
        if self.committed is None:
            state.remove(self.group_id, self.topic_partition)
        else:
            state.add_pending(producer_id, record_offset, self.group_id, self.topic_partition, self.committed)

    @classmethod
    def from_messages(cls, key: OffsetCommitKey, value: OffsetCommitValue | None) -> Self:
        """Return the change of the messages of a record."""
        committed = None if value is None else _committed_offset(value)
        return cls(key.group, (key.topic, key.partition), committed)

    @classmethod
    def read_value(cls, value: bytes) -> CommittedOffset:
        """Return the committed offset of a value alone.

        Raises:
            DecodeError: it is malformed, or of a version that this broker does not know.
        """
        return _committed_offset(cls.decode_value(value))

    @classmethod
    def check_value(cls, value: bytes) -> None:
        """Check that a value can be read, except that its metadata is UTF-8; much cheaper than reading it.

        What brokers write is recognized by its length: version 4, short metadata, no tagged field but the
        topic id.

        Raises:
            DecodeError: as `read_value`.
        """
        if len(value) > _V4_METADATA_AT and value.startswith(_V4):
            end = _V4_METADATA_AT + value[_V4_METADATA_AT] + _TIME_BYTES
            tags = len(value) - end
            if tags == 1 and not value[end]:
                return
            if tags == _TOPIC_ID_BYTES and value.startswith(_TOPIC_ID_TAG, end):
                return
        cls.decode_value(value)


def _committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        None if value.topic_id == ZERO_UUID else value.topic_id,
    )
