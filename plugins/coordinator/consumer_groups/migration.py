"""Migration of a group between the classic and the consumer protocol, while its members work.

Upgrade: a member of the consumer protocol joins a classic group of consumers. The classic members stay, with
the partitions that their leader gave them, and rejoin one by one when theirs change. Downgrade: the last
member of the consumer protocol leaves, and the classic members continue with a leader among them.

Source: KIP-848, "Migration path".
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping

from tidelog.kernel.errors import GroupIdNotFound
from tidelog.kernel.pace import each_in_steps
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.group_records import EpochChange, TargetEpochChange
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    ConsumerGroupMember,
    CurrentAssignment,
    MemberProfile,
    OwnedPartitions,
)
from tidelog.plugins.coordinator.consumer_groups.member_records import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.consumer_groups.settings import Context, Settings
from tidelog.plugins.coordinator.consumer_groups.topics import (
    TopicCatalogue,
    metadata_hash,
    subscribed_topics,
)
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    TopicPartitions,
    protocol_version,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tidelog.plugins.schema.errors import CodecError


def upgrade(classic: ClassicGroup, context: Context) -> Generator[None, None, Draft]:
    """Return a draft of the consumer group that a classic group becomes, in steps.

    It is of use only if the classic group has not changed meanwhile.

    Raises:
        GroupIdNotFound: it cannot become one; the message says why.
    """
    _check_upgrade(classic, context.settings)
    group_id = classic.group_id
    draft = Draft(ConsumerGroup(group_id))
    try:
        taken: set[tuple[bytes, int]] = set()
        members = yield from each_in_steps(
            tuple(classic.members.values()), lambda member: _upgraded(member, classic, context.topics, taken)
        )
    except CodecError as error:
        raise GroupIdNotFound(
            f"group {classic.group_id} stays classic: what a member says is malformed ({error})"
        ) from None
    for member in members:
        draft.apply(MemberChange(group_id, member.member_id, member.metadata))
        yield
    entries = yield from subscribed_topics(draft.group, context.topics)
    draft.apply(EpochChange(group_id, classic.generation, (yield from metadata_hash(entries))))
    for member in members:
        draft.apply(TargetChange(group_id, member.member_id, _without_epochs(member)))
        yield
    draft.apply(TargetEpochChange(group_id, classic.generation))
    for member in members:
        yield from draft.apply_in_steps(CurrentChange(group_id, member.member_id, member.current))
    return draft


def _check_upgrade(classic: ClassicGroup, settings: Settings) -> None:
    reason = ""
    if not settings.upgrades:
        reason = "group.consumer.migration.policy has no upgrades"
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = f"its protocol type is {classic.protocol_type!r}"
    elif len(classic.members) > settings.max_size:
        reason = f"it has more members than group.consumer.max.size ({settings.max_size})"
    if reason:
        raise GroupIdNotFound(f"group {classic.group_id} stays classic: {reason}")


def _upgraded(
    member: ClassicGroupMember, classic: ClassicGroup, topics: TopicCatalogue, taken: set[tuple[bytes, int]]
) -> ConsumerGroupMember:
    first = next(iter(member.protocols.values()), b"")
    subscription = read_subscription(member.protocols.get(classic.protocol_name or "", first))
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise GroupIdNotFound(
            f"group {classic.group_id} stays classic: its assignor keeps data of its own in assignments"
        )
    owned = _owned(assignment, classic.generation, topics, taken)
    metadata = MemberProfile(
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocol(member.session_timeout_ms, tuple(member.protocols.items())),
    )
    current = CurrentAssignment(classic.generation, classic.generation, assigned=owned)
    return ConsumerGroupMember(member.member_id, metadata, current)


def _owned(
    assignment: ConsumerProtocolAssignment,
    generation: int,
    topics: TopicCatalogue,
    taken: set[tuple[bytes, int]],
) -> OwnedPartitions:
    """Return the existing partitions that a leader assigned to a member and to no other before (`taken`)."""
    owned: dict[bytes, dict[int, int]] = {}
    for given in assignment.assigned_partitions:
        entry = topics.by_name(given.topic)
        if entry is None:
            continue
        for partition in given.partitions:
            if partition < entry.partitions and (entry.topic_id, partition) not in taken:
                taken.add((entry.topic_id, partition))
                owned.setdefault(entry.topic_id, {})[partition] = generation
    return owned


def _without_epochs(member: ConsumerGroupMember) -> PartitionsByTopic:
    return {topic_id: frozenset(owned) for topic_id, owned in member.current.assigned.items()}


def may_downgrade(group: ConsumerGroup, leaving: Collection[str], settings: Settings) -> bool:
    """Return whether the group is a classic one once `leaving` are gone."""
    staying = len(group.members) - len(leaving)
    return (
        settings.downgrades
        and 0 < staying <= settings.classic.max_size
        and group.only_classic_members(leaving)
    )


def downgrade(
    group: ConsumerGroup, leaving: Collection[str], context: Context
) -> Generator[None, None, ClassicGroup]:
    """Return the classic group of the members that stay, in steps.

    Each has the partitions of its target assignment; the generation is the group's epoch.
    """
    classic = ClassicGroup(group.group_id, context.settings.classic)
    for member_id, member in group.members.items():
        if member_id not in leaving and member.metadata.classic is not None:
            target = group.targets.get(member_id, {})
            downgraded = _downgraded(member, member.metadata.classic, target, context.topics)
            classic.add(downgraded, CONSUMER_PROTOCOL_TYPE)
        yield
    classic.restore(group.epoch, CONSUMER_PROTOCOL_TYPE, classic.members.select_protocol())
    return classic


def _downgraded(
    member: ConsumerGroupMember, classic: ClassicProtocol, target: PartitionsByTopic, topics: TopicCatalogue
) -> ClassicGroupMember:
    version = protocol_version(classic.protocols[0][1])
    return ClassicGroupMember(
        member.member_id,
        member.metadata.instance_id,
        member.metadata.client_id,
        member.metadata.client_host,
        classic.session_timeout_ms,
        member.metadata.rebalance_timeout_ms,
        dict(classic.protocols),
        encoded_assignment(target, version, topics),
    )


def encoded_assignment(
    partitions: Mapping[bytes, Collection[int]], version: int, topics: TopicCatalogue
) -> bytes:
    """Return an assignment as classic members read it; topics that do not exist are left out."""
    named = {
        entry.name: sorted(numbers)
        for topic_id, numbers in partitions.items()
        if (entry := topics.by_id(topic_id)) is not None
    }
    assigned = [TopicPartitions(topic=name, partitions=named[name]) for name in sorted(named)]
    return write_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), version)
