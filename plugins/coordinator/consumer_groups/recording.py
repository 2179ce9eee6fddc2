"""Changes of groups as records: every change has a type of key, and a removal has no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidelog.plugins.coordinator.consumer_groups import changes, key_types
from tidelog.plugins.coordinator.consumer_groups.changes import Change
from tidelog.plugins.coordinator.consumer_groups.key_types import VALUE_VERSION
from tidelog.plugins.coordinator.consumer_groups.member import ClassicProtocol, OwnedPartitions
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.records import consumer_groups as records
from tidelog.plugins.protocol_kafka.codecs import encode


def to_record(group_id: str, change: Change) -> StateRecord:
    """The record of a change."""
    kind, key_class, value_of = _WRITERS[type(change)]
    value = None if value_of is None else VALUE_VERSION + encode(value_of(change), 0)
    return StateRecord(kind.to_bytes(2) + encode(_key(key_class, group_id, change), 0), value)


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


def _classic_value(classic: ClassicProtocol | None) -> records.ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [
        records.ClassicProtocolValue(name=name, metadata=metadata) for name, metadata in classic.protocols
    ]
    return records.ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols
    )


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


def _regex_value(change: changes.RegexSet) -> records.ConsumerGroupRegularExpressionValue:
    resolved = change.resolved
    return records.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )


_Writer: TypeAlias = tuple[int, type[Any], Callable[[Any], object] | None]


_WRITERS: Final[dict[type[Any], _Writer]] = {
    changes.EpochSet: (key_types.EPOCH, records.GroupKey, _epoch_value),
    changes.GroupRemoved: (key_types.EPOCH, records.GroupKey, None),
    changes.PartitionMetadataRemoved: (key_types.PARTITION_METADATA, records.GroupKey, None),
    changes.MemberSet: (key_types.MEMBER, records.MemberKey, _member_value),
    changes.MemberRemoved: (key_types.MEMBER, records.MemberKey, None),
    changes.AssignmentEpochSet: (key_types.ASSIGNMENT_EPOCH, records.GroupKey, _assignment_epoch_value),
    changes.AssignmentEpochRemoved: (key_types.ASSIGNMENT_EPOCH, records.GroupKey, None),
    changes.TargetSet: (key_types.TARGET, records.MemberKey, _target_value),
    changes.TargetRemoved: (key_types.TARGET, records.MemberKey, None),
    changes.CurrentSet: (key_types.CURRENT, records.MemberKey, _current_value),
    changes.CurrentRemoved: (key_types.CURRENT, records.MemberKey, None),
    changes.RegexSet: (key_types.REGEX, records.RegularExpressionKey, _regex_value),
    changes.RegexRemoved: (key_types.REGEX, records.RegularExpressionKey, None),
}
