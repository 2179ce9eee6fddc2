"""What can be seen of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidelog.kernel.seams.coordination.consumer_groups import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedPartitions,
)
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import Member
from tidelog.plugins.coordinator.consumer_groups.settings import Settings, TopicCatalogue


def describe(group: ConsumerGroup, settings: Settings, topics: TopicCatalogue) -> DescribedConsumerGroup:
    """A group with its members, as it is now."""
    return DescribedConsumerGroup(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.preferred_assignor(settings.default_assignor, settings.assignors),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: Member, topics: TopicCatalogue) -> DescribedConsumer:
    wants = member.metadata
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=wants.instance_id,
        rack_id=wants.rack_id,
        member_epoch=member.current.epoch,
        client_id=wants.client_id,
        client_host=wants.client_host,
        topic_names=sorted(wants.topic_names),
        topic_regex=wants.topic_regex or None,
        assignment=_partitions(member.current.assigned, topics),
        target=_partitions(group.targets.get(member.member_id, {}), topics),
        is_classic=member.is_classic,
    )


def _partitions(
    partitions: Mapping[bytes, Collection[int]], topics: TopicCatalogue
) -> list[DescribedPartitions]:
    described: list[DescribedPartitions] = []
    for topic_id, numbers in partitions.items():
        entry = topics.by_id(topic_id)
        described.append(DescribedPartitions(topic_id, entry.name if entry else "", sorted(numbers)))
    return described
