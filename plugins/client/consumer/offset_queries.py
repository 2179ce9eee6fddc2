"""What a consumer asks brokers about offsets, apart from its own positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.group_offsets import NO_OFFSET, GroupOffset, committed_offsets
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.offsets import FoundOffset, list_offsets
from tidelog.plugins.client.operations.sending import or_raise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata
    from tidelog.plugins.client.steps import Session, Steps


def offsets_at(
    session: Session, settings: ConsumerSettings, partitions: Iterable[TopicPartition], timestamp: int
) -> Steps[dict[TopicPartition, int]]:
    """Return the offset of each partition at a special timestamp."""
    wanted = [TopicPartition(*each) for each in partitions]
    found = or_raise(
        (yield from list_offsets(session, wanted, timestamp, read_committed=settings.is_committed_only))
    )
    return {partition: each.offset for partition, each in found.items()}


def offsets_for_times(
    session: Session, times: Mapping[TopicPartition, int]
) -> Steps[dict[TopicPartition, FoundOffset | None]]:
    """Return the first record of each partition that is not older than its time; None if there is none."""
    wanted = {TopicPartition(*partition): time for partition, time in times.items()}
    found = or_raise((yield from list_offsets(session, wanted, wanted)))
    return {partition: None if each.offset < 0 else each for partition, each in found.items()}


def committed(
    session: Session, member: GroupMetadata, partitions: Iterable[TopicPartition]
) -> Steps[dict[TopicPartition, GroupOffset | None]]:
    """Return what the group has committed of each partition; None for nothing."""
    wanted = [TopicPartition(*each) for each in partitions]
    found = yield from committed_offsets(session, member, wanted)
    return {partition: None if each.offset == NO_OFFSET else each for partition, each in found.items()}


def partitions_of(session: Session, topic: str) -> Steps[list[int]]:
    """Return the indexes of a topic's partitions."""
    found = yield from metadata(session, [topic])
    code = found.errors.get(topic)
    if code is not None:
        raise ErrorResponse(code, f"topic {topic!r}")
    return [part.index for part in found.topics[topic].partitions]


def as_offsets(offsets: Mapping[TopicPartition, int | GroupOffset]) -> dict[TopicPartition, GroupOffset]:
    """Return what is committed: an offset is that of the next record to read."""
    return {
        TopicPartition(*partition): each if isinstance(each, GroupOffset) else GroupOffset(each)
        for partition, each in offsets.items()
    }
