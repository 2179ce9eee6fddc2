"""Checks of requests by members of a consumer group: heartbeats, commits, fetches.

Source: KIP-848, "ConsumerGroupHeartbeat API" and "OffsetCommit API"; KIP-1251: the epoch of a commit may be
behind, as long as the partition has been the member's since.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.kernel.errors import (
    BrokerError,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    IllegalGeneration,
    InvalidRequest,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
)
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat
from tidelog.kernel.seams.coordination.groups import LeavingMember
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    OwnedPartitions,
    partition_epoch,
)
from tidelog.plugins.coordinator.consumer_groups.topics import TopicCatalogue


def check_request(request: ConsumerGroupHeartbeat, assignors: Collection[str]) -> None:
    """Check a request without its group.

    Raises:
        InvalidRequest: it lacks something, or contradicts itself.
        UnsupportedAssignor: it requests an assignor that no plugin offers.
    """
    epoch = request.member_epoch
    if not request.member_id and (request.brings_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH):
        raise InvalidRequest("the member id is empty")
    for what, text in (
        ("group id", request.group_id),
        ("instance id", request.instance_id),
        ("rack id", request.rack_id),
    ):
        if text is not None and not text.strip():
            raise InvalidRequest(f"the {what} is empty")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise InvalidRequest("only a member with an instance id can leave temporarily (epoch -2)")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequest(f"{epoch} is no member epoch")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"assignor {request.server_assignor!r} is not offered; there are {', '.join(assignors)}"
        )


def _check_join(request: ConsumerGroupHeartbeat) -> None:
    if request.rebalance_timeout_ms is None:
        raise InvalidRequest("a member that joins has to send its rebalance timeout")
    if request.owned is None or request.owned:
        raise InvalidRequest("a member that joins owns no partitions, and has to say so")
    if request.topic_names is None and request.topic_regex is None:
        raise InvalidRequest("a member that joins has to send its subscription")


def check_size(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    """Check that the group has less than its maximum of members, unless this is one or replaces a static one.

    Raises:
        GroupMaxSizeReached
    """
    known = member_id in group.members or instance_id in group.static_members
    if not known and len(group.members) >= max_size:
        raise GroupMaxSizeReached(f"group {group.group_id} has its maximum of {max_size} members")


def check_epoch(member: ConsumerGroupMember, epoch: int, reported: PartitionsByTopic | None) -> None:
    """Check the epoch of a heartbeat: the member's, or the one before if it owns nothing but its assignment.

    Raises:
        FencedMemberEpoch
    """
    current = member.current
    if epoch in (JOIN_EPOCH, current.epoch):
        return
    if epoch == current.previous_epoch and epoch < current.epoch and _is_part_of(reported, current.assigned):
        return
    raise FencedMemberEpoch(
        f"member {member.member_id} is in epoch {current.epoch}, not {epoch}; it has to give up its "
        "partitions and join again"
    )


def _is_part_of(reported: PartitionsByTopic | None, assigned: OwnedPartitions) -> bool:
    return reported is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in reported.items()
    )


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    """Return the member of that id.

    Raises:
        UnknownMemberId
    """
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def known_static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerGroupMember:
    """Return the member that holds an instance id, whose member id has to be the given one.

    Raises:
        UnknownMemberId: no member holds it.
        FencedInstanceId: another member does.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId(f"no member of group {group.group_id} has the instance id {instance_id!r}")
    if member.member_id != member_id:
        raise FencedInstanceId(f"the instance id {instance_id!r} belongs to member {member.member_id}")
    return member


def check_released(member: ConsumerGroupMember, instance_id: str) -> None:
    """Check that an instance id is free: its member has left temporarily.

    Raises:
        UnreleasedInstanceId
    """
    if member.current.epoch != LEAVE_STATIC_EPOCH:
        raise UnreleasedInstanceId(f"the instance id {instance_id!r} is in use by {member.member_id}")


def leaving_member(group: ConsumerGroup, identity: LeavingMember) -> ConsumerGroupMember:
    """Return the member that leaves by LeaveGroup; a static one can be named by its instance id alone.

    Raises:
        UnknownMemberId, FencedInstanceId
    """
    if identity.group_instance_id is None:
        return known_member(group, identity.member_id)
    holder = group.static_member(identity.group_instance_id)
    member_id = identity.member_id or (holder.member_id if holder else "")
    return known_static_member(group, identity.group_instance_id, member_id)


def check_commit(group: ConsumerGroup, commit: OffsetCommit, topics: TopicCatalogue) -> None:
    """Check a commit: any client may while the group is empty, else its members, for their partitions.

    Raises:
        UnknownMemberId: it is no member.
        UnsupportedVersion: a member of the consumer protocol asks in a version that knows no epochs.
        StaleMemberEpoch, IllegalGeneration: it is not the member's epoch (in the member's protocol).
    """
    if commit.generation < 0 and not group.members:
        return
    if commit.is_transactional and commit.generation < 0 and not commit.member_id:
        # Clients older than KIP-447 do not send their member id when they commit in a transaction.
        return
    member = known_member(group, commit.member_id)
    if not member.is_classic and not commit.knows_epochs:
        raise UnsupportedVersion("members of the consumer protocol commit with version 9 of OffsetCommit")
    if commit.generation == member.current.epoch:
        return
    if commit.generation > member.current.epoch:
        raise _wrong_epoch(member, commit.generation)
    for offset in commit.offsets:
        entry = topics.by_name(offset.topic)
        topic_id = offset.topic_id or (entry.topic_id if entry else b"")
        epoch = partition_epoch(member.current.assigned, topic_id, offset.partition)
        if epoch is None:
            epoch = partition_epoch(member.current.revoking, topic_id, offset.partition)
        if epoch is None or commit.generation < epoch:
            raise _wrong_epoch(member, commit.generation)


def check_fetch(group: ConsumerGroup, fetch: OffsetFetch) -> None:
    """Check a fetch: any client may that does not claim to be a member.

    Raises:
        UnknownMemberId, StaleMemberEpoch, IllegalGeneration
    """
    if fetch.member_id is None and fetch.member_epoch < 0:
        return
    member = known_member(group, fetch.member_id or "")
    if fetch.member_epoch != member.current.epoch:
        raise _wrong_epoch(member, fetch.member_epoch)


def _wrong_epoch(member: ConsumerGroupMember, epoch: int) -> BrokerError:
    kind = IllegalGeneration if member.is_classic else StaleMemberEpoch
    return kind(f"member {member.member_id} is in epoch {member.current.epoch}, not {epoch}")
