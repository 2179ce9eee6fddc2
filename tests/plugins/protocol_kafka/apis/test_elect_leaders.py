"""ElectLeaders: every partition has the only leader that it can have, unless its disk failed."""

from __future__ import annotations

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.protocol_kafka.messages.api import ELECT_LEADERS
from tidelog.plugins.protocol_kafka.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .topics import new_topic


async def elect(
    client: Client, version: int, asked: dict[str, list[int]] | None, election_type: int = PREFERRED
) -> ElectLeadersResponse:
    """Request an election."""
    topics = None
    if asked is not None:
        topics = [
            ElectLeadersTopicPartitions(topic=name, partitions=partitions)
            for name, partitions in asked.items()
        ]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=topics)
    answer: ElectLeadersResponse = await client.ask(ELECT_LEADERS, version, request)
    return answer


def codes(answer: ElectLeadersResponse) -> dict[str, list[tuple[int, str]]]:
    """The error of each partition, by topic."""
    return {
        result.topic: [
            (part.partition_id, ErrorCode(part.error_code).name) for part in result.partition_result
        ]
        for result in answer.replica_election_results
    }


@pytest.mark.parametrize("version", versions_of(ELECT_LEADERS))
async def test_elect_leaders_is_not_needed_for_partitions_with_a_leader(
    client: Client, broker: Broker, version: int
) -> None:
    await new_topic(broker, "flights", 2)
    answer = await elect(client, version, {"flights": [1, 2, -1], "nowhere": [0]})
    assert answer.error_code == 0
    assert codes(answer) == {
        "flights": [
            (1, "ELECTION_NOT_NEEDED"),
            (2, "UNKNOWN_TOPIC_OR_PARTITION"),
            (-1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ],
        "nowhere": [(0, "UNKNOWN_TOPIC_OR_PARTITION")],
    }
    assert codes(await elect(client, version, None)) == {"flights": []}
    assert codes(await elect(client, version, {})) == {}


@pytest.mark.parametrize(
    ("election_type", "code"),
    [(PREFERRED, "PREFERRED_LEADER_NOT_AVAILABLE"), (UNCLEAN, "ELIGIBLE_LEADERS_NOT_AVAILABLE")],
)
async def test_elect_leaders_of_a_partition_whose_log_directory_failed(
    client: Client, broker: Broker, election_type: int, code: str
) -> None:
    await new_topic(broker, "flights", 2)
    broker.replicas.take_offline([TopicPartition("flights", 1)], "the disk failed")
    answer = await elect(client, 2, None, election_type)
    assert codes(answer) == {"flights": [(1, code)]}
    (result,) = answer.replica_election_results
    assert "log directory that failed" in (result.partition_result[0].error_message or "")


@pytest.mark.parametrize("election_type", [2, -1])
async def test_elect_leaders_refuses_unknown_election_types(
    client: Client, broker: Broker, election_type: int
) -> None:
    await new_topic(broker, "flights")
    answer = await elect(client, 2, {"flights": [0]}, election_type)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert codes(answer) == {"flights": [(0, "INVALID_REQUEST")]}
    assert (await elect(client, 2, None, election_type)).replica_election_results == []
