"""Decisions about requests of members that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat.

The group's epoch is their generation, there is no leader, and a member has to rejoin only when its own
assignment changes. Source: KIP-848, "Migration path".
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, NamedTuple, TypeVar
from uuid import uuid4

from tidelog.kernel.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.groups import Joined, JoinRequest, Synced, SyncRequest
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.assigning import assign
from tidelog.plugins.coordinator.consumer_groups.draft import Decision, Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.machine.departures import depart
from tidelog.plugins.coordinator.consumer_groups.machine.transitions import (
    reconcile,
    replace_static_member,
    update_member,
)
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    ConsumerGroupMember,
    MemberProfile,
    MemberState,
)
from tidelog.plugins.coordinator.consumer_groups.migration import encoded_assignment, may_downgrade
from tidelog.plugins.coordinator.consumer_groups.settings import Context
from tidelog.plugins.coordinator.consumer_groups.topics import TopicCatalogue
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    protocol_version,
    read_subscription,
)
from tidelog.plugins.schema.errors import CodecError

AnswerT = TypeVar("AnswerT")


class ClassicAnswer(NamedTuple, Generic[AnswerT]):
    """The answer to a request of a member that speaks the classic protocol.

    With RebalanceInProgress it has to rejoin, and has its rebalance timeout for that. Errors that are raised
    have no such effect.
    """

    member: ConsumerGroupMember
    answer: AnswerT | RebalanceInProgress


def decide_join(
    group: ConsumerGroup, request: JoinRequest, context: Context
) -> Generator[None, None, Decision[Joined]]:
    """Decide about a JoinGroup request, in steps; `group` stays as it is.

    Raises:
        InconsistentGroupProtocol, GroupMaxSizeReached, MemberIdRequired, UnknownMemberId, FencedInstanceId
    """
    _check_migration(group, context)
    checks.check_size(group, request.member_id, request.group_instance_id, context.settings.max_size)
    _check_protocols(group, request)
    if request.knows_member_id_required and not request.member_id and request.group_instance_id is None:
        raise MemberIdRequired(str(uuid4()))
    subscription = _subscription(request)
    draft = Draft(group)
    member = yield from _member(draft, request)
    metadata = _metadata(request, subscription)
    changed = yield from update_member(draft, context, member, metadata)
    assign(draft, context)
    reported = _reported(subscription, context.topics)
    updated = yield from reconcile(draft, context, member.member_id, reported, subscription_changed=changed)
    name = request.protocols[0].name
    return Decision(
        Joined(updated.member_id, updated.current.epoch, CONSUMER_PROTOCOL_TYPE, name, leader=""), draft
    )


def convert_for_join(
    group: ConsumerGroup, request: JoinRequest, context: Context
) -> Generator[None, None, Decision[bool]]:
    """Decide whether the group is one of the classic protocol, or none, before this member joins; in steps.

    That is so if it is empty, or if the member replaces the last one, a static one, of the consumer protocol.
    """
    if not group.members:
        draft = Draft(group)
        yield from draft.remove_group()
        return Decision(True, draft)
    instance_id = request.group_instance_id
    holder = group.static_member(instance_id) if instance_id and not request.member_id else None
    if holder is None or holder.is_classic or not may_downgrade(group, [holder.member_id], context.settings):
        return Decision(False)
    return Decision(True, (yield from depart(group, [holder.member_id], context)))


def answer_sync(group: ConsumerGroup, request: SyncRequest, topics: TopicCatalogue) -> ClassicAnswer[Synced]:
    """Return the member's partitions, encoded as an assignment of its assignor.

    Raises:
        UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol
    """
    member, classic = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise InconsistentGroupProtocol(f"the group's protocol type is {CONSUMER_PROTOCOL_TYPE}")
    if request.protocol_name not in (None, name):
        raise InconsistentGroupProtocol(f"the member's protocol is {name!r}, not {request.protocol_name!r}")
    if group.assignment_epoch > member.current.epoch and not _is_revoking(member):
        return ClassicAnswer(member, RebalanceInProgress(f"group {group.group_id} has a new assignment"))
    assignment = encoded_assignment(member.current.assigned, protocol_version(metadata), topics)
    return ClassicAnswer(member, Synced(request.protocol_type, request.protocol_name, assignment))


def answer_heartbeat(
    group: ConsumerGroup, member_id: str, generation: int, instance_id: str | None
) -> ClassicAnswer[None]:
    """Return the member, which is alive, and whether it has to rejoin, to revoke partitions or to get some.

    Raises:
        UnknownMemberId, FencedInstanceId, IllegalGeneration
    """
    member, _ = _classic_member(group, member_id, instance_id)
    _check_generation(member, generation)
    waits = member.current.state is MemberState.UNRELEASED_PARTITIONS
    if (
        member.current.epoch < group.assignment_epoch
        or _is_revoking(member)
        or (waits and not _waits_for_others(group, member))
    ):
        return ClassicAnswer(member, RebalanceInProgress(f"there is something new for member {member_id}"))
    return ClassicAnswer(member, None)


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    if generation != member.current.epoch:
        raise IllegalGeneration(f"member {member.member_id} is in {member.current.epoch}, not {generation}")


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerGroupMember, ClassicProtocol]:
    """Return a member that speaks the classic protocol, and what it sent when it joined.

    Raises:
        UnknownMemberId: there is none of that id, or it speaks the consumer protocol.
        FencedInstanceId: another member holds the instance id.
    """
    if instance_id is None:
        member = checks.known_member(group, member_id)
    else:
        member = checks.known_static_member(group, instance_id, member_id)
    if member.metadata.classic is None:
        raise UnknownMemberId(f"member {member_id} does not speak the classic protocol")
    return member, member.metadata.classic


def _check_migration(group: ConsumerGroup, context: Context) -> None:
    if not (context.settings.upgrades or context.settings.downgrades):
        raise InconsistentGroupProtocol(
            f"group {group.group_id} speaks the consumer protocol, and group.consumer.migration.policy is "
            "disabled"
        )


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    """Check that there is a protocol that all classic members of the group support."""
    names = {protocol.name for protocol in request.protocols}
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(
        names, request.member_id
    ):
        raise InconsistentGroupProtocol(f"the protocols of {request.member_id!r} do not fit the group's")


def _subscription(request: JoinRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except CodecError as error:
        raise InconsistentGroupProtocol(f"the subscription is malformed: {error}") from None


def _member(draft: Draft, request: JoinRequest) -> Generator[None, None, ConsumerGroupMember]:
    group = draft.group
    instance_id = request.group_instance_id
    if instance_id is not None and request.member_id:
        return checks.known_static_member(group, instance_id, request.member_id)
    member_id = request.member_id or str(uuid4())
    if instance_id is not None and (holder := group.static_member(instance_id)):
        return (yield from replace_static_member(draft, holder, member_id))
    return group.members.get(member_id) or ConsumerGroupMember(member_id)


def _metadata(request: JoinRequest, subscription: ConsumerProtocolSubscription) -> MemberProfile:
    protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
    return MemberProfile(
        client_id=request.client_id,
        client_host=request.client_host,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicProtocol(request.session_timeout_ms, protocols),
    )


def _reported(subscription: ConsumerProtocolSubscription, topics: TopicCatalogue) -> PartitionsByTopic:
    return {
        entry.topic_id: frozenset(owned.partitions)
        for owned in subscription.owned_partitions
        if owned.partitions and (entry := topics.by_name(owned.topic)) is not None
    }


def _is_revoking(member: ConsumerGroupMember) -> bool:
    return member.current.state is MemberState.UNREVOKED_PARTITIONS


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether another member still owns a partition of this one's target assignment."""
    return any(
        owners.get(partition, member.member_id) != member.member_id
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        if (owners := group.owners.get(topic_id))
        for partition in partitions
    )
