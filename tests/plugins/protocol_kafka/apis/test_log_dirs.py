"""DescribeLogDirs and AlterReplicaLogDirs: where partitions lie, and having them moved."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from tests.deadlines import DEADLINE_S
from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.plugins.protocol_kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    LIST_PARTITION_REASSIGNMENTS,
)
from tidelog.plugins.protocol_kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)

from .client import Client, versions_of
from .topics import fill, new_topic


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncGenerator[Broker]:
    """A broker with two log directories."""
    values = {"storage": "file", "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker(values) as broker:
        yield broker


async def describe(
    client: Client, version: int, *asked: tuple[str, int]
) -> dict[str, list[tuple[str, int, int, bool]]]:
    """Directory → (topic, partition, size, whether it is a copy) of what is asked for, or all."""
    topics = [DescribableLogDirTopic(topic=name, partitions=[index]) for name, index in asked]
    answer = await client.ask(DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=topics or None))
    assert [result.error_code for result in answer.results] == [0, 0]
    if version >= 4:
        assert all(result.total_bytes > result.usable_bytes > 0 for result in answer.results)
    return {
        Path(result.log_dir).name: [
            (topic.name, each.partition_index, each.partition_size, each.is_future_key)
            for topic in result.topics
            for each in topic.partitions
        ]
        for result in answer.results
    }


@pytest.mark.parametrize("version", versions_of(DESCRIBE_LOG_DIRS))
async def test_describe_log_dirs_in_every_version(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker, partitions=3)
    for index in range(3):
        fill(topic, index, [2, 2])
    sizes = [partition.log.store.size_bytes for partition in topic.partitions]
    everything = await describe(client, version)
    assert everything == {
        "a": [("flights", 0, sizes[0], False), ("flights", 2, sizes[2], False)],
        "b": [("flights", 1, sizes[1], False)],
    }
    some = await describe(client, version, ("flights", 1), ("nowhere", 0))
    assert some == {"a": [], "b": [("flights", 1, sizes[1], False)]}


async def alter(client: Client, version: int, path: object, *asked: tuple[str, int]) -> list[int]:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[index]) for name, index in asked]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=topics)])
    answer = await client.ask(ALTER_REPLICA_LOG_DIRS, version, request)
    return [each.error_code for topic in answer.results for each in topic.partitions]


@pytest.mark.parametrize("version", versions_of(ALTER_REPLICA_LOG_DIRS))
async def test_alter_replica_log_dirs_moves_in_every_version(
    client: Client, broker: Broker, tmp_path: Path, version: int
) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [2, 2])
    assert await alter(client, version, tmp_path / "b", ("flights", 0)) == [0]
    size = topic.partitions[0].log.store.size_bytes
    with trio.fail_after(DEADLINE_S):
        while await describe(client, 4) != {"a": [], "b": [("flights", 0, size, False)]}:
            await trio.to_thread.run_sync(time.sleep, 0.01)
    assert topic.partitions[0].log.log_end_offset == 4


async def test_alter_replica_log_dirs_refuses_unknown_directories_and_partitions(
    client: Client, broker: Broker, tmp_path: Path
) -> None:
    await new_topic(broker)
    assert await alter(client, 2, tmp_path / "c", ("flights", 0)) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert await alter(client, 2, tmp_path / "b", ("flights", 1)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await alter(client, 2, tmp_path / "b", ("nowhere", 0)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", versions_of(ALTER_PARTITION_REASSIGNMENTS))
@pytest.mark.parametrize(
    ("name", "partition", "replicas", "code"),
    [
        ("flights", 0, [1], 0),
        ("flights", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("flights", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("flights", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("flights", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("flights", 1, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_alter_partition_reassignments_accepts_this_broker_only(
    client: Client,
    broker: Broker,
    version: int,
    name: str,
    partition: int,
    replicas: list[int] | None,
    code: int,
) -> None:
    await new_topic(broker)
    asked = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[asked])])
    answer = await client.ask(ALTER_PARTITION_REASSIGNMENTS, version, request)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [code]


async def test_list_partition_reassignments_is_empty(client: Client, broker: Broker) -> None:
    await new_topic(broker)
    answer = await client.ask(LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest())
    assert (answer.error_code, answer.topics) == (0, [])
