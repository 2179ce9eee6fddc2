"""The records of the members of a consumer group in `__consumer_offsets`: subscriptions and assignments.

    key    key type int16 (5, 7, 8), group string, member id string
    value  version int16 (0), then the schema of the type; without a value the record is a tombstone

Source: the schemas of Apache Kafka 4.4's group coordinator; KIP-848, KIP-1251 (assignment epochs).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Self

import attrs

from tidelog.kernel.pace import each_in_steps, run_to_end
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.group_records import KEY, VALUE, ConsumerGroupChange
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    CurrentAssignment,
    MemberProfile,
    MemberState,
    OwnedPartitions,
)
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.durable_change import VersionedValue
from tidelog.plugins.schema.declare import (
    array,
    byte_string,
    int8,
    int32,
    nested,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import INT32, STRING

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct(KEY)
class MemberKey:
    """A key that names a member: types 5, 7 and 8."""

    group_id: str = string()
    member_id: str = string()


@struct()
class ClassicProtocolValue:
    """A protocol of a classic member."""

    name: str = string()
    metadata: bytes = byte_string()


@struct(frozen=True)
class ClassicMemberMetadata:
    """Metadata of a member that speaks the classic protocol."""

    session_timeout_ms: int = int32(default=0)
    supported_protocols: list[ClassicProtocolValue] = array(ClassicProtocolValue, factory=list)


@struct(VALUE)
class ConsumerGroupMemberMetadataValue:
    """Type 5: what a member subscribes to.

    A member that speaks the consumer protocol has null as its classic metadata, which is written: to Kafka a
    record without that tag is of a classic member that has no protocols.
    """

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0, default=ClassicMemberMetadata()
    )


@struct()
class TargetPartitions:
    """Some partitions of a topic."""

    topic_id: Uuid = uuid()
    partitions: list[int] = array(INT32)


@struct(VALUE)
class ConsumerGroupTargetAssignmentMemberValue:
    """Type 7: the target assignment of a member."""

    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


@struct()
class CurrentPartitions:
    """Some partitions of a topic; brokers before KIP-1251 wrote no epochs."""

    topic_id: Uuid = uuid()
    partitions: list[int] = array(INT32)
    assignment_epochs: list[int] | None = array(INT32, nullable="0+", tag=0, factory=list)


@struct(VALUE)
class ConsumerGroupCurrentMemberAssignmentValue:
    """Type 8: the current assignment of a member."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentPartitions] = array(CurrentPartitions)
    partitions_pending_revocation: list[CurrentPartitions] = array(CurrentPartitions)


class MemberChangeBase(ConsumerGroupChange):
    """A change of the member `member_id`."""

    __slots__ = ()

    key_schema = MemberKey

    member_id: str

    def key(self) -> MemberKey:
        """Return the group and the member."""
        return MemberKey(group_id=self.group_id, member_id=self.member_id)


class PartitionsChange(MemberChangeBase, ABC):
    """A change of partitions of a member, which may be very many: the record is made in steps."""

    __slots__ = ()

    def value(self) -> VersionedValue | None:
        """Return the partitions, None for a tombstone."""
        return run_to_end(self.value_in_steps())

    @abstractmethod
    def value_in_steps(self) -> Generator[None, None, VersionedValue | None]:
        """Return the partitions, None for a tombstone; yield after each small piece."""

    def to_record_in_steps(self) -> Generator[None, None, StateRecord]:
        """Return the record to append; yield after each small piece."""
        return (yield from self.record_in_steps((yield from self.value_in_steps())))


@attrs.frozen
class MemberChange(MemberChangeBase):
    """A member joins or changes its subscription; None: it is gone, its assignments were removed before."""

    key_type = 5
    value_schema = ConsumerGroupMemberMetadataValue

    group_id: str
    member_id: str
    metadata: MemberProfile | None

    def value(self) -> VersionedValue | None:
        """Return the subscription, None for a tombstone."""
        metadata = self.metadata
        if metadata is None:
            return None
        value = ConsumerGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=sorted(metadata.topic_names),
            subscribed_topic_regex=metadata.topic_regex,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            server_assignor=metadata.server_assignor,
            classic_member_metadata=_classic_value(metadata.classic),
        )
        return VersionedValue(0, value)

    def apply(self, state: ConsumerGroup) -> None:
        """Add, change or remove the member."""
        if self.metadata is None:
            state.remove_member(self.member_id)
        else:
            state.set_metadata(self.member_id, self.metadata)

    @classmethod
    def from_messages(cls, key: MemberKey, value: ConsumerGroupMemberMetadataValue | None) -> Self:
        """Return the change of a record."""
        if value is None:
            return cls(key.group_id, key.member_id, None)
        metadata = MemberProfile(
            client_id=value.client_id,
            client_host=value.client_host,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=_classic_protocol(value.classic_member_metadata),
        )
        return cls(key.group_id, key.member_id, metadata)


@attrs.frozen
class TargetChange(PartitionsChange):
    """The target assignment of a member; None: it has none."""

    key_type = 7
    value_schema = ConsumerGroupTargetAssignmentMemberValue

    group_id: str
    member_id: str
    partitions: PartitionsByTopic | None

    def value_in_steps(self) -> Generator[None, None, VersionedValue | None]:
        """Return the partitions, None for a tombstone."""
        partitions = self.partitions
        if partitions is None:
            return None
        topics = yield from each_in_steps(
            sorted(partitions),
            lambda topic_id: TargetPartitions(topic_id=topic_id, partitions=sorted(partitions[topic_id])),
        )
        return VersionedValue(0, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))

    def apply(self, state: ConsumerGroup) -> None:
        """Set or remove the target assignment."""
        if self.partitions is None:
            state.targets.pop(self.member_id, None)
        else:
            state.targets[self.member_id] = self.partitions

    @classmethod
    def from_messages(cls, key: MemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None) -> Self:
        """Return the change of a record."""
        if value is None:
            return cls(key.group_id, key.member_id, None)
        partitions = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}
        return cls(key.group_id, key.member_id, partitions)


@attrs.frozen
class CurrentChange(PartitionsChange):
    """The current assignment of a member, with its epoch; None: it has none any more."""

    key_type = 8
    value_schema = ConsumerGroupCurrentMemberAssignmentValue

    group_id: str
    member_id: str
    current: CurrentAssignment | None

    def value_in_steps(self) -> Generator[None, None, VersionedValue | None]:
        """Return the assignment, None for a tombstone."""
        current = self.current
        if current is None:
            return None
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state,
            assigned_partitions=(yield from _owned_value(current.assigned)),
            partitions_pending_revocation=(yield from _owned_value(current.revoking)),
        )
        return VersionedValue(0, value)

    def apply(self, state: ConsumerGroup) -> None:
        """Set or remove the assignment, and with it the owner of its partitions."""
        run_to_end(self.apply_in_steps(state))

    def apply_in_steps(self, state: ConsumerGroup) -> Generator[None, None, None]:
        """Set or remove the assignment in steps."""
        return state.set_current(self.member_id, self.current)

    @classmethod
    def from_messages(cls, key: MemberKey, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> Self:
        """Return the change of a record; a state of later brokers is unknown."""
        if value is None:
            return cls(key.group_id, key.member_id, None)
        known = value.state in MemberState.__members__.values()
        current = CurrentAssignment(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_owned_partitions(value.assigned_partitions, value.member_epoch),
            revoking=_owned_partitions(value.partitions_pending_revocation, value.member_epoch),
        )
        return cls(key.group_id, key.member_id, current)


def _classic_value(classic: ClassicProtocol | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [ClassicProtocolValue(name=name, metadata=metadata) for name, metadata in classic.protocols]
    return ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols)


def _classic_protocol(value: ClassicMemberMetadata | None) -> ClassicProtocol | None:
    # Earlier versions of this broker left the tag out for a member of the consumer protocol.
    if value is None or not value.supported_protocols:
        return None
    protocols = tuple((protocol.name, protocol.metadata) for protocol in value.supported_protocols)
    return ClassicProtocol(value.session_timeout_ms, protocols)


def _owned_value(owned: OwnedPartitions) -> Generator[None, None, list[CurrentPartitions]]:
    def of_topic(topic_id: bytes) -> CurrentPartitions:
        epochs = owned[topic_id]
        partitions = sorted(epochs)
        return CurrentPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=list(map(epochs.__getitem__, partitions)),
        )

    return each_in_steps(sorted(owned), of_topic)


def _owned_partitions(owned: list[CurrentPartitions], epoch: int) -> OwnedPartitions:
    """Return partitions with their epochs; without any the member's own is the latest possible."""
    return {
        topic.topic_id: dict(
            zip(topic.partitions, topic.assignment_epochs or [epoch] * len(topic.partitions), strict=False)
        )
        for topic in owned
        if topic.partitions
    }
