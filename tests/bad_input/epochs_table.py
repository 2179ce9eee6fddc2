"""Leader epochs that never were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .case import ALL_VERSIONS, CLOSED, NOTHING, OK, Case, Differs
from .raw_client import RawClient
from .requests import Sent, ask

if TYPE_CHECKING:
    from .case import Sends

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"


def _sends(
    epoch: int = 0,
    version: int = 4,
    *,
    topic: str | None = None,
    partition: int = 0,
    current: int = -1,
    times: int = 1,
) -> Sends:
    def build(client: RawClient) -> Sent:
        asked = OffsetForLeaderPartition(
            partition=partition, leader_epoch=epoch, current_leader_epoch=current
        )
        named = OffsetForLeaderTopic(
            topic=client.topic if topic is None else topic, partitions=[asked] * times
        )
        return ask(apis.OFFSET_FOR_LEADER_EPOCH, version, OffsetForLeaderEpochRequest(topics=[named]))

    return build


EPOCHS = (
    Case("an epoch that is to come", _sends(99), OK),
    Case("no epoch", _sends(-1), OK),
    Case("a negative epoch", _sends(-7), OK),
    Case("a current epoch that is to come", _sends(current=99), "UNKNOWN_LEADER_EPOCH"),
    Case("a current epoch that is long gone", _sends(current=-2), "FENCED_LEADER_EPOCH"),
)

TARGETS = (
    Case("a topic that is not there", _sends(topic="nowhere"), UNKNOWN),
    Case("a topic name with a slash", _sends(topic="a/b"), UNKNOWN),
    Case("a partition that is not there", _sends(partition=9), UNKNOWN),
    Case("a negative partition", _sends(partition=-1), UNKNOWN),
    Case("a partition twice", _sends(times=2), f"{OK},{OK}"),
    Case("a topic without partitions", _sends(times=0), NOTHING),
)

VERSIONS = tuple(
    Case(f"version {version}", _sends(version=version), CLOSED, tidelog=Differs(OK, ALL_VERSIONS))
    for version in (0, 1)
)

CASES = (*EPOCHS, *TARGETS, *VERSIONS)
