"""Changes of groups to records and back.

Every change has a type of key, and what a record of that type means is decided by whether it has a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from tidelog.kernel.errors import StorageError
from tidelog.plugins.coordinator.consumer_groups import changes
from tidelog.plugins.coordinator.consumer_groups.changes import Change, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    OwnedPartitions,
)
from tidelog.plugins.coordinator.log.state_log import StateRecord
from tidelog.plugins.coordinator.records import consumer_groups as records
from tidelog.plugins.protocol_kafka.codecs import decode, encode
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError

_EPOCH, _PARTITION_METADATA, _MEMBER, _ASSIGNMENT_EPOCH, _TARGET, _CURRENT, _REGEX = 3, 4, 5, 6, 7, 8, 16
KEY_TYPES: Final = frozenset((3, 4, 5, 6, 7, 8, 16))
"""The types of keys that are read here; all others belong to somebody else."""

_VALUE_VERSION = b"\0\0"


class UnreadableRecord(StorageError):
    """A record of a group that this broker cannot make sense of."""


def key_type(key: bytes) -> int:
    """The type that a key in `__consumer_offsets` begins with, -1 for none."""
    return int.from_bytes(key[:2]) if len(key) >= 2 else -1


def to_record(group_id: str, change: Change) -> StateRecord:
    """The record of a change."""
    kind, key_class, value_of = _WRITERS[type(change)]
    value = None if value_of is None else _VALUE_VERSION + encode(value_of(change), 0)
    return StateRecord(kind.to_bytes(2) + encode(_key(key_class, group_id, change), 0), value)


def from_record(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """The group's id and the change that a record tells of; the type of its key is one of `KEY_TYPES`.

    Raises:
        UnreadableRecord: it is malformed, or of a version that is newer than this broker.
    """
    reader = _READERS[key_type(key)]
    if value is not None and value[:2] != _VALUE_VERSION:
        raise UnreadableRecord(f"a record of type {key_type(key)} has version {value[:2].hex()}, not 0")
    try:
        named = decode(reader.key_class, 0, key[2:])
        if value is None:
            return named.group_id, reader.removed(named)
        told = None if reader.value_class is None else decode(reader.value_class, 0, value[2:])
    except CodecError as error:
        raise UnreadableRecord(f"a record of type {key_type(key)} cannot be decoded: {error}") from None
    return named.group_id, reader.told(named, told)


def _key(key_class: type[Any], group_id: str, change: Any) -> object:
    if key_class is records.MemberKey:
        return records.MemberKey(group_id=group_id, member_id=change.member_id)
    if key_class is records.RegularExpressionKey:
        return records.RegularExpressionKey(group_id=group_id, regular_expression=change.regex)
    return records.GroupKey(group_id=group_id)


def _epoch_value(change: changes.EpochSet) -> records.ConsumerGroupMetadataValue:
    return records.ConsumerGroupMetadataValue(epoch=change.epoch, metadata_hash=change.metadata_hash)


def _member_value(change: changes.MemberSet) -> records.ConsumerGroupMemberMetadataValue:
    member = change.metadata
    return records.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic_value(member.classic),
    )


def _read_member(value: records.ConsumerGroupMemberMetadataValue) -> MemberMetadata:
    return MemberMetadata(
        client_id=value.client_id,
        client_host=value.client_host,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=_read_classic(value.classic_member_metadata),
    )


def _classic_value(classic: ClassicProtocol | None) -> records.ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [
        records.ClassicProtocolValue(name=name, metadata=metadata) for name, metadata in classic.protocols
    ]
    return records.ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols
    )


def _read_classic(value: records.ClassicMemberMetadata | None) -> ClassicProtocol | None:
    if value is None:
        return None
    protocols = tuple((protocol.name, protocol.metadata) for protocol in value.supported_protocols)
    return ClassicProtocol(value.session_timeout_ms, protocols)


def _assignment_epoch_value(
    change: changes.AssignmentEpochSet,
) -> records.ConsumerGroupTargetAssignmentMetadataValue:
    return records.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=change.epoch, assignment_timestamp=change.timestamp_ms
    )


def _target_value(change: changes.TargetSet) -> records.ConsumerGroupTargetAssignmentMemberValue:
    return records.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            records.TargetPartitions(topic_id=topic_id, partitions=sorted(change.partitions[topic_id]))
            for topic_id in sorted(change.partitions)
        ]
    )


def _current_value(change: changes.CurrentSet) -> records.ConsumerGroupCurrentMemberAssignmentValue:
    current = change.current
    return records.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_owned_value(current.assigned),
        partitions_pending_revocation=_owned_value(current.revoking),
    )


def _owned_value(owned: OwnedPartitions) -> list[records.CurrentPartitions]:
    return [
        records.CurrentPartitions(
            topic_id=topic_id,
            partitions=sorted(owned[topic_id]),
            assignment_epochs=[owned[topic_id][partition] for partition in sorted(owned[topic_id])],
        )
        for topic_id in sorted(owned)
    ]


def _read_current(value: records.ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    known = value.state in MemberState.__members__.values()
    return CurrentAssignment(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_read_owned(value.assigned_partitions, value.member_epoch),
        revoking=_read_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _read_owned(owned: list[records.CurrentPartitions], epoch: int) -> OwnedPartitions:
    """Partitions with their epochs; without any the member's own is the latest that can be meant."""
    return {
        topic.topic_id: dict(
            zip(topic.partitions, topic.assignment_epochs or [epoch] * len(topic.partitions), strict=False)
        )
        for topic in owned
        if topic.partitions
    }


def _regex_value(change: changes.RegexSet) -> records.ConsumerGroupRegularExpressionValue:
    resolved = change.resolved
    return records.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )


_Writer: TypeAlias = tuple[int, type[Any], Callable[[Any], object] | None]

_WRITERS: Final[dict[type[Any], _Writer]] = {
    changes.EpochSet: (_EPOCH, records.GroupKey, _epoch_value),
    changes.GroupRemoved: (_EPOCH, records.GroupKey, None),
    changes.PartitionMetadataRemoved: (_PARTITION_METADATA, records.GroupKey, None),
    changes.MemberSet: (_MEMBER, records.MemberKey, _member_value),
    changes.MemberRemoved: (_MEMBER, records.MemberKey, None),
    changes.AssignmentEpochSet: (_ASSIGNMENT_EPOCH, records.GroupKey, _assignment_epoch_value),
    changes.AssignmentEpochRemoved: (_ASSIGNMENT_EPOCH, records.GroupKey, None),
    changes.TargetSet: (_TARGET, records.MemberKey, _target_value),
    changes.TargetRemoved: (_TARGET, records.MemberKey, None),
    changes.CurrentSet: (_CURRENT, records.MemberKey, _current_value),
    changes.CurrentRemoved: (_CURRENT, records.MemberKey, None),
    changes.RegexSet: (_REGEX, records.RegularExpressionKey, _regex_value),
    changes.RegexRemoved: (_REGEX, records.RegularExpressionKey, None),
}


class _Reader(NamedTuple):
    key_class: type[Any]
    value_class: type[Any] | None
    told: Callable[[Any, Any], Change]
    removed: Callable[[Any], Change]


def _told_epoch(key: records.GroupKey, value: records.ConsumerGroupMetadataValue) -> Change:
    return changes.EpochSet(value.epoch, value.metadata_hash)


def _told_partition_metadata(key: records.GroupKey, value: None) -> Change:
    return changes.PartitionMetadataSet()


def _told_member(key: records.MemberKey, value: records.ConsumerGroupMemberMetadataValue) -> Change:
    return changes.MemberSet(key.member_id, _read_member(value))


def _told_assignment_epoch(
    key: records.GroupKey, value: records.ConsumerGroupTargetAssignmentMetadataValue
) -> Change:
    return changes.AssignmentEpochSet(value.assignment_epoch, value.assignment_timestamp)


def _told_target(key: records.MemberKey, value: records.ConsumerGroupTargetAssignmentMemberValue) -> Change:
    partitions = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}
    return changes.TargetSet(key.member_id, partitions)


def _told_current(key: records.MemberKey, value: records.ConsumerGroupCurrentMemberAssignmentValue) -> Change:
    return changes.CurrentSet(key.member_id, _read_current(value))


def _told_regex(
    key: records.RegularExpressionKey, value: records.ConsumerGroupRegularExpressionValue
) -> Change:
    resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    return changes.RegexSet(key.regular_expression, resolved)


def _of_group(change: Change) -> Callable[[Any], Change]:
    """What a tombstone of the whole group means, whatever is in the key."""
    return lambda _: change


def _of_member(change: Callable[[str], Change]) -> Callable[[records.MemberKey], Change]:
    """What a tombstone of a member means."""
    return lambda key: change(key.member_id)


def _regex_removed(key: records.RegularExpressionKey) -> Change:
    return changes.RegexRemoved(key.regular_expression)


_READERS: Final[dict[int, _Reader]] = {
    _EPOCH: _Reader(
        records.GroupKey,
        records.ConsumerGroupMetadataValue,
        _told_epoch,
        _of_group(changes.GroupRemoved()),
    ),
    # What it tells is known from the topics themselves.
    _PARTITION_METADATA: _Reader(
        records.GroupKey,
        None,
        _told_partition_metadata,
        _of_group(changes.PartitionMetadataRemoved()),
    ),
    _MEMBER: _Reader(
        records.MemberKey,
        records.ConsumerGroupMemberMetadataValue,
        _told_member,
        _of_member(changes.MemberRemoved),
    ),
    _ASSIGNMENT_EPOCH: _Reader(
        records.GroupKey,
        records.ConsumerGroupTargetAssignmentMetadataValue,
        _told_assignment_epoch,
        _of_group(changes.AssignmentEpochRemoved()),
    ),
    _TARGET: _Reader(
        records.MemberKey,
        records.ConsumerGroupTargetAssignmentMemberValue,
        _told_target,
        _of_member(changes.TargetRemoved),
    ),
    _CURRENT: _Reader(
        records.MemberKey,
        records.ConsumerGroupCurrentMemberAssignmentValue,
        _told_current,
        _of_member(changes.CurrentRemoved),
    ),
    _REGEX: _Reader(
        records.RegularExpressionKey,
        records.ConsumerGroupRegularExpressionValue,
        _told_regex,
        _regex_removed,
    ),
}
