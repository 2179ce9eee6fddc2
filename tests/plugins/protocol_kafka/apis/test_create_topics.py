"""CreateTopics: what is created, only checked, or refused, each topic by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.config import keys
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.protocol_kafka.messages.api import CREATE_TOPICS
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .topics import new_topic

DETAILS_SINCE = 5
IDS_SINCE = 7
NO_ID = bytes(16)


def wanted(
    name: str = "flights",
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    **config: str | None,
) -> CreatableTopic:
    """A topic to create; dots in configuration keys are written as underscores."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()
        ],
    )


def request(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    """Create these."""
    return CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)


def only(response: Any) -> CreatableTopicResult:
    """The only topic of an answer."""
    (topic,) = response.topics
    assert isinstance(topic, CreatableTopicResult)
    return topic


@pytest.mark.parametrize("version", versions_of(CREATE_TOPICS))
async def test_create_topics_creates_a_topic_in_every_version(
    client: Client, broker: Broker, version: int
) -> None:
    result = only(await client.ask(CREATE_TOPICS, version, request(wanted(partitions=3))))
    assert (result.name, result.error_code, result.error_message) == ("flights", 0, None)
    topic = broker.topics.get("flights")
    assert [partition.topic_partition for partition in topic.partitions] == [
        TopicPartition("flights", index) for index in range(3)
    ]
    detailed = version >= DETAILS_SINCE
    assert result.num_partitions == (3 if detailed else -1)
    assert result.replication_factor == (1 if detailed else -1)
    assert result.topic_id == (topic.topic_id.bytes if version >= IDS_SINCE else NO_ID)
    assert result.topic_config_error_code == 0


@pytest.mark.parametrize("version", versions_of(CREATE_TOPICS))
async def test_create_topics_uses_the_brokers_defaults_for_minus_one(
    client: Client, broker: Broker, version: int
) -> None:
    result = only(await client.ask(CREATE_TOPICS, version, request(wanted(partitions=-1, factor=-1))))
    assert result.error_code == 0
    assert len(broker.topics.get("flights").partitions) == 1


@pytest.mark.parametrize("version", versions_of(CREATE_TOPICS, 1))
async def test_create_topics_with_validate_only_creates_nothing(
    client: Client, broker: Broker, version: int
) -> None:
    await new_topic(broker, "there")
    asked = request(wanted("new", 5), wanted("there"), wanted("a/b"), validate_only=True)
    response = await client.ask(CREATE_TOPICS, version, asked)
    codes = [topic.error_code for topic in response.topics]
    assert codes == [0, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert [topic.name for topic in broker.topics] == ["there"]
    assert response.topics[0].num_partitions == (5 if version >= DETAILS_SINCE else -1)
    assert response.topics[0].topic_id == NO_ID


@pytest.mark.parametrize("version", versions_of(CREATE_TOPICS, DETAILS_SINCE))
async def test_create_topics_returns_the_configuration_with_its_sources(
    client: Client, broker: Broker, version: int
) -> None:
    asked = request(wanted(max_message_bytes="2000", message_timestamp_type="LogAppendTime"))
    result = only(await client.ask(CREATE_TOPICS, version, asked))
    configs = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert configs["max.message.bytes"] == ("2000", 1)
    assert configs["message.timestamp.type"] == ("LogAppendTime", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)
    assert not any(config.is_sensitive or config.read_only for config in result.configs or [])
    assert broker.topics.get("flights").config[keys.MAX_MESSAGE_BYTES] == 2000


async def test_create_topics_with_an_assignment_of_each_partition(client: Client, broker: Broker) -> None:
    asked = request(wanted(partitions=-1, factor=-1, assignments={1: [1], 0: [1], 2: [1]}))
    result = only(await client.ask(CREATE_TOPICS, 5, asked))
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert len(broker.topics.get("flights").partitions) == 3


REFUSED: dict[str, tuple[CreatableTopic, ErrorCode]] = {
    "no name": (wanted(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a path": (wanted("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a collision": (wanted("there_is"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "there already": (wanted("there.is"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "no partitions": (wanted(partitions=0), ErrorCode.INVALID_PARTITIONS),
    "fewer than none": (wanted(partitions=-2), ErrorCode.INVALID_PARTITIONS),
    "no replica": (wanted(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "two replicas": (wanted(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "an unknown key": (wanted(no_such_key="1"), ErrorCode.INVALID_CONFIG),
    "a bad value": (wanted(max_message_bytes="much"), ErrorCode.INVALID_CONFIG),
    "no value": (wanted(max_message_bytes=None), ErrorCode.INVALID_CONFIG),
    "partitions and assignments": (
        wanted(partitions=1, factor=-1, assignments={0: [1]}),
        ErrorCode.INVALID_REQUEST,
    ),
    "a factor and assignments": (
        wanted(partitions=-1, factor=1, assignments={0: [1]}),
        ErrorCode.INVALID_REQUEST,
    ),
    "a gap in assignments": (
        wanted(partitions=-1, factor=-1, assignments={0: [1], 2: [1]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "assignments above zero": (
        wanted(partitions=-1, factor=-1, assignments={1: [1]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "another broker": (
        wanted(partitions=-1, factor=-1, assignments={0: [2]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "a broker twice": (
        wanted(partitions=-1, factor=-1, assignments={0: [1, 1]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "no broker": (
        wanted(partitions=-1, factor=-1, assignments={0: []}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
}


@pytest.mark.parametrize("version", [0, 1, 4, 7])
@pytest.mark.parametrize(("topic", "code"), REFUSED.values(), ids=REFUSED)
async def test_create_topics_refuses_invalid_topics(
    client: Client, broker: Broker, version: int, topic: CreatableTopic, code: ErrorCode
) -> None:
    await new_topic(broker, "there.is")
    result = only(await client.ask(CREATE_TOPICS, version, request(topic)))
    assert (result.name, result.error_code) == (topic.name, code)
    assert bool(result.error_message) == (version >= 1)
    assert [there.name for there in broker.topics] == ["there.is"]


async def test_create_topics_refuses_zero_partitions(client: Client) -> None:
    result = only(await client.ask(CREATE_TOPICS, 5, request(wanted(partitions=0))))
    assert (result.error_message or "").startswith("0 partitions")


async def test_create_topics_refuses_duplicate_assignments(client: Client, broker: Broker) -> None:
    topic = wanted(partitions=-1, factor=-1, assignments={0: [1]})
    topic.assignments *= 2
    result = only(await client.ask(CREATE_TOPICS, 5, request(topic)))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert len(broker.topics) == 0


async def test_create_topics_takes_the_last_value_of_a_duplicate_key(client: Client, broker: Broker) -> None:
    topic = wanted(max_message_bytes="2000")
    topic.configs.append(CreatableTopicConfig(name="max.message.bytes", value="3000"))
    assert only(await client.ask(CREATE_TOPICS, 5, request(topic))).error_code == 0
    assert broker.topics.get("flights").overrides == {"max.message.bytes": "3000"}


async def test_create_topics_refuses_a_duplicate_topic(client: Client, broker: Broker) -> None:
    response = await client.ask(CREATE_TOPICS, 5, request(wanted("a"), wanted("b"), wanted("a", 3)))
    codes = {topic.name: topic.error_code for topic in response.topics}
    assert codes == {"a": ErrorCode.INVALID_REQUEST, "b": 0}
    assert len(response.topics) == 2
    assert [topic.name for topic in broker.topics] == ["b"]


async def test_create_topics_creates_the_others_when_one_is_refused(client: Client, broker: Broker) -> None:
    response = await client.ask(CREATE_TOPICS, 7, request(wanted("a"), wanted("b/c"), wanted("d", factor=9)))
    codes = [topic.error_code for topic in response.topics]
    assert codes == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR]
    assert [topic.name for topic in broker.topics] == ["a"]


@pytest.mark.parametrize("partitions", [(10_001,), (5_000, 5_001), (2**31 - 1, 2**31 - 1)])
async def test_create_topics_limits_the_partitions_of_a_request(
    client: Client, broker: Broker, partitions: tuple[int, ...]
) -> None:
    asked = request(*(wanted(f"topic{index}", count) for index, count in enumerate(partitions)))
    response = await client.ask(CREATE_TOPICS, 7, asked)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert {topic.error_message for topic in response.topics} == {
        f"a request may create 10000 partitions at most, and this one asks for {sum(partitions)}; create "
        "them with several requests"
    }
    assert len(broker.topics) == 0


async def test_create_topics_without_topics(client: Client) -> None:
    assert (await client.ask(CREATE_TOPICS, 7, request())).topics == []
