"""OffsetForLeaderEpoch: where each epoch ends, and who may not ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages.api import OFFSET_FOR_LEADER_EPOCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .client import Client, versions_of
from .topics import new_topic

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker

EPOCHS_SINCE, CURRENT_EPOCH_SINCE = 1, 2
CURRENT = 7


async def ask(
    client: Client, version: int, epoch: int, *, topic: str = "flights", partition: int = 0, current: int = -1
) -> EpochEndOffset:
    """The answer for one partition."""
    asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    answer = await client.ask(OFFSET_FOR_LEADER_EPOCH, version, request)
    (part,) = answer.topics[0].partitions
    assert isinstance(part, EpochEndOffset)
    assert part.partition == partition
    return part


async def filled(broker: Broker) -> None:
    """Two records of epoch 0, three of epoch 3, none since epoch 7 began."""
    topic = await new_topic(broker)
    partition = topic.partitions[0]
    for epoch, count in ((0, 2), (3, 3)):
        partition.log.leader_epoch = epoch
        partition.log.append_nowait(make_batch([b"value"] * count))
    partition.log.leader_epoch = CURRENT


@pytest.mark.parametrize("version", versions_of(OFFSET_FOR_LEADER_EPOCH))
@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, (0, 2)),
        (1, (0, 2)),
        (3, (3, 5)),
        (5, (5, 5)),
        (CURRENT, (CURRENT, 5)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
async def test_offset_for_leader_epoch_returns_end_offsets(
    client: Client, broker: Broker, version: int, epoch: int, expected: tuple[int, int]
) -> None:
    await filled(broker)
    part = await ask(client, version, epoch)
    told, end_offset = expected
    assert (part.error_code, part.end_offset) == (0, end_offset)
    assert part.leader_epoch == (told if version >= EPOCHS_SINCE else -1)


@pytest.mark.parametrize("version", versions_of(OFFSET_FOR_LEADER_EPOCH))
@pytest.mark.parametrize(
    ("topic", "partition"), [("nowhere", 0), ("a/b", 0), ("flights", 1), ("flights", -1)]
)
async def test_offset_for_leader_epoch_of_unknown_partitions(
    client: Client, broker: Broker, version: int, topic: str, partition: int
) -> None:
    await filled(broker)
    part = await ask(client, version, 0, topic=topic, partition=partition)
    assert (part.error_code, part.end_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("version", versions_of(OFFSET_FOR_LEADER_EPOCH, CURRENT_EPOCH_SINCE))
@pytest.mark.parametrize(
    ("current", "code"),
    [
        (CURRENT - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (CURRENT + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (CURRENT, 0),
    ],
)
async def test_offset_for_leader_epoch_checks_the_current_leader_epoch(
    client: Client, broker: Broker, version: int, current: int, code: int
) -> None:
    await filled(broker)
    assert (await ask(client, version, 0, current=current)).error_code == code
