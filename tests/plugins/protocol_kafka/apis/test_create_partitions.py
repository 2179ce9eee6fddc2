"""CreatePartitions: a topic grows, and never shrinks."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch, OffsetToCommit
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages.api import CREATE_PARTITIONS
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .topics import fill, new_topic

Brokers = list[list[int]] | None


def request(*topics: tuple[str, int, Brokers], validate_only: bool = False) -> CreatePartitionsRequest:
    """Grow each topic to a count, with the brokers of the new partitions or without."""
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if brokers is None
                else [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers],
            )
            for name, count, brokers in topics
        ],
        timeout_ms=1000,
        validate_only=validate_only,
    )


def codes(answer: Any) -> list[tuple[str, int]]:
    """What became of each topic."""
    return [(result.name, result.error_code) for result in answer.results]


@pytest.mark.parametrize("version", versions_of(CREATE_PARTITIONS))
async def test_create_partitions_adds_partitions_in_every_version(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker, partitions=2)
    fill(topic, 0, [3])
    answer = await client.ask(CREATE_PARTITIONS, version, request(("flights", 4, None), ("own", 2, None)))
    assert codes(answer) == [("flights", 0), ("own", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert [partition.log.log_end_offset for partition in topic.partitions] == [3, 0, 0, 0]
    assert topic.partitions[3].log.append_nowait(make_batch([b"new"])).base_offset == 0


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
async def test_create_partitions_refuses_internal_topics(
    client: Client, broker: Broker, name: str, validate_only: bool
) -> None:
    """The state of a group or of a transactional id is in a partition that depends on how many there are."""
    groups = [f"group-{number}" for number in range(20)]
    await new_topic(broker)
    await broker.coordinator.prepare_groups()
    topic = await broker.topics.ensure(name)
    for group in groups:
        broker.coordinator.offsets.commit(OffsetCommit(group, [OffsetToCommit("flights", 0, 1)]))
    before = len(topic.partitions)
    growth = request((name, before + 2, None), validate_only=validate_only)
    answer = await client.ask(CREATE_PARTITIONS, 3, growth)
    assert codes(answer) == [(name, ErrorCode.INVALID_REQUEST)]
    assert f"{name!r} is internal" in answer.results[0].error_message
    assert len(topic.partitions) == before
    for group in groups:
        assert broker.coordinator.offsets.fetch(OffsetFetch(group, None))["flights"]


@pytest.mark.parametrize(
    ("count", "brokers", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
        (4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1]], 0),
    ],
)
async def test_create_partitions_refuses_invalid_counts_and_assignments(
    client: Client, broker: Broker, count: int, brokers: Brokers, code: int
) -> None:
    topic = await new_topic(broker, partitions=2)
    answer = await client.ask(CREATE_PARTITIONS, 3, request(("flights", count, brokers)))
    assert codes(answer) == [("flights", code)]
    assert len(topic.partitions) == (2 if code else count)


async def test_create_partitions_with_validate_only_adds_nothing(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    answer = await client.ask(CREATE_PARTITIONS, 3, request(("flights", 2, None), validate_only=True))
    assert codes(answer) == [("flights", 0)]
    assert len(topic.partitions) == 1


async def test_create_partitions_refuses_a_duplicate_topic(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    answer = await client.ask(CREATE_PARTITIONS, 3, request(("flights", 2, None), ("flights", 3, None)))
    assert codes(answer) == [("flights", ErrorCode.INVALID_REQUEST)]
    assert len(topic.partitions) == 1


async def test_create_partitions_limits_the_partitions_of_a_request(client: Client, broker: Broker) -> None:
    for name in ("a", "b"):
        await new_topic(broker, name)
    as_many_as_may_be = [("a", 5001, None), ("b", 5001, None), ("missing", 9000, None)]
    answer = await client.ask(CREATE_PARTITIONS, 3, request(*as_many_as_may_be, validate_only=True))
    assert codes(answer) == [("a", 0), ("b", 0), ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    one_more = [("a", 5001, None), ("b", 5002, None), ("missing", 3, None)]
    answer = await client.ask(CREATE_PARTITIONS, 3, request(*one_more))
    assert codes(answer) == [(name, ErrorCode.POLICY_VIOLATION) for name in ("a", "b", "missing")]
    assert answer.results[1].error_message == (
        "a request may create 10000 partitions at most, and this one asks for 10001; create them with "
        "several requests"
    )
    assert len(broker.topics.get("a").partitions) == 1


async def test_create_partitions_adds_10000_to_those_of_a_topic(client: Client, broker: Broker) -> None:
    await new_topic(broker)
    answer = await client.ask(CREATE_PARTITIONS, 3, request(("flights", 10_001, None), validate_only=True))
    assert codes(answer) == [("flights", 0)]
