"""Requests about committed offsets, in every version's shape, and what their answers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

MANY_GROUPS_SINCE = 8
IDS_SINCE = 10
UNKNOWN_ID = b"\x07" * 16


def topic_names(topic: Topic | str) -> tuple[str, bytes]:
    """The name and the id to send; a topic that is not there has an id that nobody knows."""
    return (topic, UNKNOWN_ID) if isinstance(topic, str) else (topic.name, topic.topic_id.bytes)


def commit_request(
    offsets: Mapping[int, int], topic: Topic | str, group: str = "group", **fields: Any
) -> OffsetCommitRequest:
    """Commit offsets by partition; `metadata` and `commit_timestamp` hold for all of them."""
    metadata, timestamp = fields.pop("metadata", ""), fields.pop("commit_timestamp", -1)
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            commit_timestamp=timestamp,
            committed_metadata=metadata,
        )
        for index, offset in offsets.items()
    ]
    name, topic_id = topic_names(topic)
    topics = [OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)]
    return OffsetCommitRequest(group_id=group, topics=topics, **fields)


def commit_codes(response: Any) -> list[int]:
    """The codes of all partitions."""
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def fetch_request(
    version: int, partitions: list[int] | None, topic: Topic | str, group: str = "group", **fields: Any
) -> OffsetFetchRequest:
    """Ask for partitions of one topic, or with None for everything."""
    name, topic_id = topic_names(topic)
    if version < MANY_GROUPS_SINCE:
        asked = (
            None if partitions is None else [OffsetFetchRequestTopic(name=name, partition_indexes=partitions)]
        )
        return OffsetFetchRequest(group_id=group, topics=asked, **fields)
    topics = (
        None
        if partitions is None
        else [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=partitions)]
    )
    stable = fields.pop("require_stable", False)
    asked_group = OffsetFetchRequestGroup(group_id=group, topics=topics, **fields)
    return OffsetFetchRequest(groups=[asked_group], require_stable=stable)


def fetched(version: int, response: Any) -> tuple[int, list[tuple[int, int, str | None, int]]]:
    """The group's code, and of every partition its number, offset, metadata and code."""
    answer = response if version < MANY_GROUPS_SINCE else response.groups[0]
    return answer.error_code, [
        (found.partition_index, found.committed_offset, found.metadata, found.error_code)
        for topic in answer.topics
        for found in topic.partitions
    ]


def delete_request(
    partitions: list[int], topic: str = "flights", group: str = "group"
) -> OffsetDeleteRequest:
    """Delete the offsets of these partitions."""
    named = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=named)]
    )
