"""DescribeTopicPartitions: topics by name, page by page."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.features import ELR_VERSION, FeatureUpdate, UpgradeType
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_TOPIC_PARTITIONS
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client
from .topics import new_topic

COUNTS = {"b": 2, "a": 3, "c": 1}
ALL = [(name, index) for name in sorted(COUNTS) for index in range(COUNTS[name])]


async def described(
    client: Client, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    """One page."""
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsTopic(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer: DescribeTopicPartitionsResponse = await client.ask(DESCRIBE_TOPIC_PARTITIONS, 0, request)
    return answer


async def create_topics(broker: Broker) -> None:
    for name, count in COUNTS.items():
        await new_topic(broker, name, count)


def pairs(page: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int]]:
    """Topics and partitions of a page."""
    return [(topic.name, part.partition_index) for topic in page.topics for part in topic.partitions]


def next_of(page: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    """The cursor of the next page."""
    cursor = page.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def test_describe_topic_partitions_has_ids_leaders_and_replicas(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker, "flights", 2)
    page = await described(client, "flights")
    (found,) = page.topics
    assert (found.error_code, found.name, found.topic_id) == (0, "flights", topic.topic_id.bytes)
    assert (found.is_internal, found.topic_authorized_operations) == (False, 3576)
    for index, part in enumerate(found.partitions):
        assert (part.error_code, part.partition_index, part.leader_id, part.leader_epoch) == (0, index, 1, 0)
        assert part.replica_nodes == part.isr_nodes == [1]
        assert part.offline_replicas == part.eligible_leader_replicas == part.last_known_elr == []
    assert page.next_cursor is None


@given(limit=st.integers(-1, 8), named=st.booleans())
async def test_describe_topic_partitions_returns_each_partition_once_over_all_pages(
    limit: int, named: bool
) -> None:
    async with running_broker() as broker:
        await create_topics(broker)
        client = Client(broker)
        seen: list[tuple[str | None, int]] = []
        cursor: tuple[str, int] | None = None
        while True:
            page = await described(client, *(COUNTS if named else ()), limit=limit, cursor=cursor)
            assert 1 <= len(pairs(page)) <= max(limit, 1)
            seen += pairs(page)
            cursor = next_of(page)
            if cursor is None:
                break
        assert seen == ALL


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected", "following"),
    [
        ((), 2000, None, ALL, None),
        (("c", "a", "a"), 2000, None, [("a", 0), ("a", 1), ("a", 2), ("c", 0)], None),
        (("a", "b"), 3, None, [("a", 0), ("a", 1), ("a", 2)], ("b", 0)),
        (("a", "b"), 4, None, [("a", 0), ("a", 1), ("a", 2), ("b", 0)], ("b", 1)),
        ((), 2, ("a", 2), [("a", 2), ("b", 0)], ("b", 1)),
        (("b",), 2000, ("b", 7), [], None),
        ((), 2000, ("bb", 0), [("c", 0)], None),
    ],
)
async def test_describe_topic_partitions_with_limits_and_cursors(
    client: Client,
    broker: Broker,
    names: tuple[str, ...],
    limit: int,
    cursor: tuple[str, int] | None,
    expected: list[tuple[str, int]],
    following: tuple[str, int] | None,
) -> None:
    await create_topics(broker)
    page = await described(client, *names, limit=limit, cursor=cursor)
    assert pairs(page) == expected
    assert next_of(page) == following


async def test_describe_topic_partitions_is_limited_by_max_request_partition_size_limit() -> None:
    async with running_broker({"max.request.partition.size.limit": "4"}) as broker:
        await create_topics(broker)
        page = await described(Client(broker))
        assert pairs(page) == ALL[:4]
        assert next_of(page) == ("b", 1)


async def test_describe_topic_partitions_of_missing_topics_and_invalid_names(client: Client) -> None:
    page = await described(client, "nowhere", "a/b")
    invalid, missing = page.topics
    assert (invalid.name, invalid.error_code) == ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert (missing.name, missing.error_code) == ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("cursor", [("c", 0), ("a", -1)])
async def test_describe_topic_partitions_refuses_an_invalid_cursor(
    client: Client, broker: Broker, cursor: tuple[str, int]
) -> None:
    await create_topics(broker)
    page = await described(client, "a", "b", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in page.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]
    assert page.next_cursor is None


@pytest.mark.parametrize(("level", "eligible"), [(0, []), (1, [1])])
async def test_describe_topic_partitions_of_a_failed_log_directory_has_the_eligible_leader(
    tmp_path: Path, level: int, eligible: list[int]
) -> None:
    async with running_broker({"storage": "file", "log.dirs": str(tmp_path)}) as broker:
        await broker.controller.update_features([FeatureUpdate(ELR_VERSION, level, UpgradeType(2 - level))])
        await new_topic(broker, "flights")
        broker.replicas.take_offline([TopicPartition("flights", 0)], "the disk failed")
        (found,) = (await described(Client(broker), "flights")).topics
        (part,) = found.partitions
        assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert part.offline_replicas == [1]
        assert part.eligible_leader_replicas == eligible
