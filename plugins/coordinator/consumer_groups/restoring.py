"""Records of groups as changes: what a record means is decided by its type, and by whether it has a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidelog.plugins.coordinator.consumer_groups import changes, key_types
from tidelog.plugins.coordinator.consumer_groups.changes import Change, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.key_types import VALUE_VERSION, key_type
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    OwnedPartitions,
)
from tidelog.plugins.coordinator.records import consumer_groups as records
from tidelog.plugins.coordinator.records.unreadable import UnreadableRecord
from tidelog.plugins.protocol_kafka.codecs import decoder
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError

_PREFIX_BYTES: Final = 2
"""The type of a key, the version of a value."""


def from_record(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """The group's id and the change that a record tells of; the type of its key is one of `KEY_TYPES`.

    Raises:
        UnreadableRecord: it is malformed, or of a version that is newer than this broker.
    """
    reader = _READERS[key_type(key)]
    if value is not None and value[:2] != VALUE_VERSION:
        raise UnreadableRecord(f"a record of type {key_type(key)} has version {value[:2].hex()}, not 0")
    try:
        named, _ = decoder(reader.key_class, 0)(key, _PREFIX_BYTES)
        if value is None:
            return named.group_id, reader.removed(named)
        told = None if reader.value_class is None else decoder(reader.value_class, 0)(value, _PREFIX_BYTES)[0]
    except CodecError as error:
        raise UnreadableRecord(f"a record of type {key_type(key)} cannot be decoded: {error}") from None
    return named.group_id, reader.told(named, told)


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


def _read_classic(value: records.ClassicMemberMetadata | None) -> ClassicProtocol | None:
    # Earlier versions of this broker left the tag out for a member of the consumer protocol.
    if value is None or not value.supported_protocols:
        return None
    protocols = tuple((protocol.name, protocol.metadata) for protocol in value.supported_protocols)
    return ClassicProtocol(value.session_timeout_ms, protocols)


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
    key_types.EPOCH: _Reader(
        records.GroupKey,
        records.ConsumerGroupMetadataValue,
        _told_epoch,
        _of_group(changes.GroupRemoved()),
    ),
    # What it tells is known from the topics themselves.
    key_types.PARTITION_METADATA: _Reader(
        records.GroupKey,
        None,
        _told_partition_metadata,
        _of_group(changes.PartitionMetadataRemoved()),
    ),
    key_types.MEMBER: _Reader(
        records.MemberKey,
        records.ConsumerGroupMemberMetadataValue,
        _told_member,
        _of_member(changes.MemberRemoved),
    ),
    key_types.ASSIGNMENT_EPOCH: _Reader(
        records.GroupKey,
        records.ConsumerGroupTargetAssignmentMetadataValue,
        _told_assignment_epoch,
        _of_group(changes.AssignmentEpochRemoved()),
    ),
    key_types.TARGET: _Reader(
        records.MemberKey,
        records.ConsumerGroupTargetAssignmentMemberValue,
        _told_target,
        _of_member(changes.TargetRemoved),
    ),
    key_types.CURRENT: _Reader(
        records.MemberKey,
        records.ConsumerGroupCurrentMemberAssignmentValue,
        _told_current,
        _of_member(changes.CurrentRemoved),
    ),
    key_types.REGEX: _Reader(
        records.RegularExpressionKey,
        records.ConsumerGroupRegularExpressionValue,
        _told_regex,
        _regex_removed,
    ),
}
