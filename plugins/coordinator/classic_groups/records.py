"""The durable change of a classic group: the record of its generation in `__consumer_offsets`.

    key    key type int16 (2), group string
    value  version int16, then `GroupMetadataValue` in that version; without a value the group is removed

Source: Apache Kafka 4.4's `GroupMetadataKey` and `GroupMetadataValue`; KIP-345 (version 3, static members).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import Final, Self

import attrs

from tidelog.kernel.pace import each_in_steps, run_to_end
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.members import NONE_REPLACED, ClassicGroupMember, Replaced
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.runtime.batches import StateRecord
from tidelog.plugins.coordinator.runtime.durable_change import DurableChange, VersionedValue
from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    byte_string,
    int32,
    int64,
    string,
    struct,
)

CURRENT_VERSION: Final = 3
"""The version that Apache Kafka 4.4 writes: the newest one that older brokers read as well."""
NO_TIMESTAMP: Final = -1


@struct(VersionSpan(0, 0))
class GroupMetadataKey:
    """The group."""

    group: str = string()


@struct()
class StoredMember:
    """A member: its metadata in the group's protocol, and its assignment; times in milliseconds."""

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
    members: list[StoredMember] = array(StoredMember)


@attrs.frozen
class GenerationChange(DurableChange[ClassicGroup]):
    """A generation whose assignment is known, or a group without members; None: the group is removed."""

    key_type = 2
    key_schema = GroupMetadataKey
    value_schema = GroupMetadataValue

    group_id: str
    metadata: GroupMetadataValue | None

    @classmethod
    def of(
        cls,
        group: ClassicGroup,
        timestamp_ms: int,
        assignments: Mapping[str, bytes] | None = None,
        replaced: Replaced = NONE_REPLACED,
    ) -> Self:
        """Return the change that records a group as it is now, with other assignments or members if given.

        `timestamp_ms` is when the group enters its state, in milliseconds since the epoch.
        """
        return run_to_end(cls.of_in_steps(group, timestamp_ms, assignments, replaced))

    @classmethod
    def of_in_steps(
        cls,
        group: ClassicGroup,
        timestamp_ms: int,
        assignments: Mapping[str, bytes] | None = None,
        replaced: Replaced = NONE_REPLACED,
    ) -> Generator[None, None, Self]:
        """Return the same; yield after some members. What it returns is of use only if none has changed."""
        members, leader = group.members.all_with(replaced), group.members.leader
        value = GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol_name,
            leader=replaced[leader].member_id if leader and leader in replaced else leader,
            current_state_timestamp=timestamp_ms,
            members=(yield from each_in_steps(members, partial(_metadata, group, assignments))),
        )
        return cls(group.group_id, value)

    @property
    def timestamp_ms(self) -> int | None:
        """Return when the group entered its state, None if the record has no time."""
        timestamp_ms = NO_TIMESTAMP if self.metadata is None else self.metadata.current_state_timestamp
        return None if timestamp_ms < 0 else timestamp_ms

    def key(self) -> GroupMetadataKey:
        """Return the group."""
        return GroupMetadataKey(group=self.group_id)

    def value(self) -> VersionedValue | None:
        """Return the generation in version 3, None for a tombstone."""
        return None if self.metadata is None else VersionedValue(CURRENT_VERSION, self.metadata)

    def to_record_in_steps(self) -> Generator[None, None, StateRecord]:
        """Return the record to append; yield after some of the members."""
        return self.record_in_steps(self.value())

    def apply(self, state: ClassicGroup) -> None:
        """Make a new group the one of the record; its members' sessions are not started."""
        metadata = self.metadata
        if metadata is None:
            state.become(GroupState.DEAD)
            return
        for member in metadata.members:
            state.add(_member(member, metadata.protocol), metadata.protocol_type)
        state.restore(metadata.generation, metadata.protocol_type or None, metadata.protocol, metadata.leader)

    @classmethod
    def from_messages(cls, key: GroupMetadataKey, value: GroupMetadataValue | None) -> Self:
        """Return the change of a record."""
        return cls(key.group, value)


def tombstone_of(group_id: str) -> StateRecord:
    """Return the record that removes a group: one of the classic protocol, or one that only has offsets."""
    return GenerationChange(group_id, None).to_record()


def _metadata(
    group: ClassicGroup, assignments: Mapping[str, bytes] | None, member: ClassicGroupMember
) -> StoredMember:
    assignment = member.assignment if assignments is None else assignments.get(member.member_id, b"")
    return StoredMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=group.metadata_of(member),
        assignment=assignment,
    )


def _member(metadata: StoredMember, protocol: str | None) -> ClassicGroupMember:
    timeout_ms = metadata.rebalance_timeout
    return ClassicGroupMember(
        metadata.member_id,
        metadata.group_instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.session_timeout,
        metadata.session_timeout if timeout_ms < 0 else timeout_ms,
        {} if protocol is None else {protocol: metadata.subscription},
        metadata.assignment,
    )
