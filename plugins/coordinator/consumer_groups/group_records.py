"""The records of a consumer group itself in `__consumer_offsets`: its epochs and its regular expressions.

    key    key type int16 (3, 4, 6, 16), group string; then regex string (type 16)
    value  version int16 (0), then the schema of the type; without a value the record is a tombstone

Source: the schemas of Apache Kafka 4.4's group coordinator; KIP-848, KIP-1101 (metadata hash), KIP-1263
(assignment timestamp).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Generator
from typing import Any, Final, Self

import attrs

from tidelog.plugins.coordinator.consumer_groups.group import (
    NO_ASSIGNMENT_EPOCH,
    ConsumerGroup,
    ResolvedRegex,
)
from tidelog.plugins.coordinator.runtime.durable_change import TYPE_BYTES, DurableChange, VersionedValue
from tidelog.plugins.schema import DecodeError, decoder
from tidelog.plugins.schema.declare import VersionSpan, array, int32, int64, string, struct
from tidelog.plugins.schema.types import STRING

KEY: Final = VersionSpan(0, 0)
VALUE: Final = VersionSpan(0, 0, flexible=0)
"""All values of consumer groups have version 0 and are flexible."""


@struct(KEY)
class GroupKey:
    """A key that names a group: types 3, 4 and 6."""

    group_id: str = string()


@struct(KEY)
class RegularExpressionKey:
    """A key that names a regular expression: type 16."""

    group_id: str = string()
    regular_expression: str = string()


@struct(VALUE)
class ConsumerGroupMetadataValue:
    """Type 3: the group's epoch."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)


@struct(VALUE)
class ConsumerGroupTargetAssignmentMetadataValue:
    """Type 6: which epoch the target assignment is for, and when it was computed."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0, ignorable=True)


@struct(VALUE)
class ConsumerGroupRegularExpressionValue:
    """Type 16: the topics that a regular expression matches."""

    topics: list[str] = array(STRING)
    version: int = int64()
    timestamp: int = int64()


class ConsumerGroupChange(DurableChange[ConsumerGroup], ABC):
    """A change of the consumer group `group_id`; there is no other way to change one."""

    __slots__ = ()

    group_id: str

    def apply_in_steps(self, state: ConsumerGroup) -> Generator[None, None, None]:
        """Make the change like `apply`; yield after each small piece of one that may be large."""
        self.apply(state)
        yield

    @classmethod
    def decode_key(cls, key: bytes) -> Any:
        """Return the message of a key; what later brokers may add behind it is skipped."""
        return decoder(cls.key_schema, 0)(key, TYPE_BYTES)[0]


@attrs.frozen
class EpochChange(ConsumerGroupChange):
    """The group's epoch, raised whenever the target assignment has to be computed; None removes the group.

    `metadata_hash` identifies the subscribed topics, with their partitions, that the epoch was raised for.
    """

    key_type = 3
    key_schema = GroupKey
    value_schema = ConsumerGroupMetadataValue

    group_id: str
    epoch: int | None
    metadata_hash: int = 0

    def key(self) -> GroupKey:
        """Return the group."""
        return GroupKey(group_id=self.group_id)

    def value(self) -> VersionedValue | None:
        """Return the epoch, None for a tombstone."""
        if self.epoch is None:
            return None
        return VersionedValue(
            0, ConsumerGroupMetadataValue(epoch=self.epoch, metadata_hash=self.metadata_hash)
        )

    def apply(self, state: ConsumerGroup) -> None:
        """Set the epoch, or mark the group as removed."""
        if self.epoch is None:
            state.removed = True
        else:
            state.epoch, state.metadata_hash = self.epoch, self.metadata_hash

    @classmethod
    def from_messages(cls, key: GroupKey, value: ConsumerGroupMetadataValue | None) -> Self:
        """Return the change of a record."""
        if value is None:
            return cls(key.group_id, None)
        return cls(key.group_id, value.epoch, value.metadata_hash)


@attrs.frozen
class PartitionMetadataChange(ConsumerGroupChange):
    """The partitions of subscribed topics, as brokers before Kafka 4.1 wrote them.

    They are known from the topics themselves. The record is only read, and removed when the group next
    changes.
    """

    key_type = 4
    key_schema = GroupKey
    value_schema = GroupKey
    """Not used: the value is not decoded."""

    group_id: str
    is_present: bool

    def key(self) -> GroupKey:
        """Return the group."""
        return GroupKey(group_id=self.group_id)

    def value(self) -> None:
        """Return None: only tombstones are written."""
        assert not self.is_present  # noqa: S101 -- there is no schema to write it in

    def apply(self, state: ConsumerGroup) -> None:
        """Note whether there is a record to remove."""
        state.has_partition_metadata = self.is_present

    @classmethod
    def from_messages(cls, key: GroupKey, value: object | None) -> Self:
        """Return the change of a record."""
        return cls(key.group_id, value is not None)

    @classmethod
    def decode_value(cls, value: bytes) -> object:
        """Check the version, and leave the rest undecoded."""
        if value[:TYPE_BYTES] != bytes(TYPE_BYTES):
            version = int.from_bytes(value[:TYPE_BYTES], signed=True)
            raise DecodeError(
                "ConsumerGroupPartitionMetadataValue", version, "", "this broker knows version 0"
            )
        return value


@attrs.frozen
class TargetEpochChange(ConsumerGroupChange):
    """The epoch of the target assignment, and when that was computed; None: there is no such assignment.

    A time of 0 lets the next one be computed at once (KIP-1263).
    """

    key_type = 6
    key_schema = GroupKey
    value_schema = ConsumerGroupTargetAssignmentMetadataValue

    group_id: str
    epoch: int | None
    timestamp_ms: int = 0

    def key(self) -> GroupKey:
        """Return the group."""
        return GroupKey(group_id=self.group_id)

    def value(self) -> VersionedValue | None:
        """Return epoch and timestamp, None for a tombstone."""
        if self.epoch is None:
            return None
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch, assignment_timestamp=self.timestamp_ms
        )
        return VersionedValue(0, value)

    def apply(self, state: ConsumerGroup) -> None:
        """Set epoch and timestamp."""
        state.assignment_epoch = NO_ASSIGNMENT_EPOCH if self.epoch is None else self.epoch
        state.assignment_timestamp_ms = self.timestamp_ms

    @classmethod
    def from_messages(cls, key: GroupKey, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> Self:
        """Return the change of a record."""
        if value is None:
            return cls(key.group_id, None)
        return cls(key.group_id, value.assignment_epoch, value.assignment_timestamp)


@attrs.frozen
class RegexChange(ConsumerGroupChange):
    """The topics that a regular expression matches; None: no member subscribes to it any more."""

    key_type = 16
    key_schema = RegularExpressionKey
    value_schema = ConsumerGroupRegularExpressionValue

    group_id: str
    regex: str
    resolved: ResolvedRegex | None

    def key(self) -> RegularExpressionKey:
        """Return the group and the regular expression."""
        return RegularExpressionKey(group_id=self.group_id, regular_expression=self.regex)

    def value(self) -> VersionedValue | None:
        """Return the topics, None for a tombstone."""
        resolved = self.resolved
        if resolved is None:
            return None
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
        return VersionedValue(0, value)

    def apply(self, state: ConsumerGroup) -> None:
        """Set or remove the topics of the regular expression."""
        if self.resolved is None:
            state.regexes.pop(self.regex, None)
        else:
            state.regexes[self.regex] = self.resolved

    @classmethod
    def from_messages(
        cls, key: RegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> Self:
        """Return the change of a record."""
        resolved: ResolvedRegex | None = None
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        return cls(key.group_id, key.regular_expression, resolved)
