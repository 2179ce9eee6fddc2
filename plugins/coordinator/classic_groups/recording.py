"""Between a group and its record in the log."""

from __future__ import annotations

from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.images import GroupImage, MemberImage
from tidelog.plugins.coordinator.classic_groups.member import Member
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
    group_metadata_key,
    group_metadata_value,
)


def record_of(image: GroupImage, timestamp_ms: int) -> StateRecord:
    """The record of a group that got into this state at that time, in milliseconds since the epoch."""
    value = GroupMetadataValue(
        protocol_type=image.protocol_type or "",
        generation=image.generation,
        protocol=image.protocol_name,
        leader=image.leader,
        current_state_timestamp=timestamp_ms,
        members=[_member_metadata(member) for member in image.members],
    )
    return StateRecord(group_metadata_key(image.group_id), group_metadata_value(value))


def tombstone_of(group_id: str) -> StateRecord:
    """The record that takes a group away."""
    return StateRecord(group_metadata_key(group_id), None)


def _member_metadata(member: MemberImage) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )


def restored(group_id: str, value: GroupMetadataValue, settings: GroupSettings) -> ClassicGroup:
    """The group that a record tells of. Its members' sessions have not begun."""
    group = ClassicGroup(group_id, settings)
    for member in value.members:
        group.add(_restored_member(member, value.protocol), value.protocol_type)
    group.restore(value.generation, value.protocol_type or None, value.protocol, value.leader)
    return group


def _restored_member(member: MemberMetadata, protocol: str | None) -> Member:
    timeout_ms = member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
    return Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout,
        timeout_ms,
        {} if protocol is None else {protocol: member.subscription},
        member.assignment,
    )
