"""DescribeQuorum: the metadata log of a single node, and none where the metadata is in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.kernel.testing import FakeClock
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.metadata_kraft.store import KraftMetadata
from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_QUORUM
from tidelog.plugins.protocol_kafka.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .topics import new_topic

METADATA_LOG = ("__cluster_metadata", 0)


async def describe(client: Client, version: int, *asked: tuple[str, int]) -> DescribeQuorumResponse:
    """Describe partitions."""
    topics = [
        DescribedTopic(topic_name=name, partitions=[DescribedPartition(partition_index=index)])
        for name, index in asked
    ]
    answer: DescribeQuorumResponse = await client.ask(
        DESCRIBE_QUORUM, version, DescribeQuorumRequest(topics=topics)
    )
    return answer


@pytest.mark.parametrize("version", versions_of(DESCRIBE_QUORUM))
async def test_describe_quorum_returns_this_node_as_the_only_voter(
    tmp_path: Path, clock: FakeClock, version: int
) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    for epoch in (1, 2):
        async with running_broker(settings, clock=clock) as broker:
            client = Client(broker)
            before = (await describe(client, version, METADATA_LOG)).topics[0].partitions[0]
            await new_topic(broker, f"flights-{epoch}")
            answer = await describe(client, version, METADATA_LOG)
            (topic,) = answer.topics
            (part,) = topic.partitions
            assert (topic.topic_name, part.error_code, part.leader_id) == (METADATA_LOG[0], 0, 1)
            assert (part.leader_epoch, part.observers) == (epoch, [])
            assert part.high_watermark > before.high_watermark
            (voter,) = part.current_voters
            assert (voter.replica_id, voter.log_end_offset) == (1, part.high_watermark)
            now_ms = clock() if version >= 1 else -1
            assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == now_ms
            if version >= 2:
                metadata = broker.metadata
                assert isinstance(metadata, KraftMetadata)
                assert metadata.quorum.voters == ((1, voter.replica_directory_id),)
                assert any(voter.replica_directory_id)
                assert [(node.node_id, node.listeners) for node in answer.nodes] == [(1, [])]


@pytest.mark.parametrize(
    "asked",
    [
        [("flights", 0)],
        [("__cluster_metadata", 1)],
        [METADATA_LOG, ("flights", 0)],
        [METADATA_LOG, METADATA_LOG],
    ],
)
async def test_describe_quorum_of_anything_but_the_metadata_log_alone(
    tmp_path: Path, asked: list[tuple[str, int]]
) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    async with running_broker(settings) as broker:
        answer = await describe(Client(broker), 2, *asked)
    assert (answer.error_code, answer.nodes) == (0, [])
    parts = [part for topic in answer.topics for part in topic.partitions]
    assert [part.error_code for part in parts] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(asked)
    assert [(topic.topic_name, topic.partitions[0].partition_index) for topic in answer.topics] == asked


async def test_describe_quorum_without_a_metadata_log(client: Client) -> None:
    (topic,) = (await describe(client, 2, METADATA_LOG)).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
