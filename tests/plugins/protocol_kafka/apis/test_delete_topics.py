"""DeleteTopics: by name, by id, and not at all."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import DELETE_TOPICS
from tidelog.plugins.protocol_kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .topics import fill, new_topic

IDS_SINCE = 6
NO_ID = bytes(16)


def by_name(version: int, *names: str) -> DeleteTopicsRequest:
    """Delete topics by name, as that version does."""
    if version >= IDS_SINCE:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000)
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)


def by_id(*ids: bytes) -> DeleteTopicsRequest:
    """Delete topics by id."""
    states = [DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]
    return DeleteTopicsRequest(topics=states, timeout_ms=1000)


def codes(response: Any) -> list[int]:
    """The answers' codes."""
    return [result.error_code for result in response.responses]


@pytest.mark.parametrize("version", versions_of(DELETE_TOPICS))
async def test_delete_topics_deletes_in_every_version(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker, partitions=3)
    fill(topic, 1, [5])
    await new_topic(broker, "kept")
    response = await client.ask(DELETE_TOPICS, version, by_name(version, "flights", "nope"))
    deleted, unknown = response.responses
    assert (deleted.name, deleted.error_code, deleted.error_message) == ("flights", 0, None)
    assert deleted.topic_id == (topic.topic_id.bytes if version >= IDS_SINCE else NO_ID)
    assert (unknown.name, unknown.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert bool(unknown.error_message) == (version >= 5)
    assert [topic.name for topic in broker.topics] == ["kept"]


async def test_delete_topics_by_topic_id(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    unknown = b"unknown" + bytes(9)
    response = await client.ask(DELETE_TOPICS, 6, by_id(topic.topic_id.bytes, unknown))
    first, second = response.responses
    assert isinstance(first, DeletableTopicResult)
    assert (first.name, first.topic_id, first.error_code) == ("flights", topic.topic_id.bytes, 0)
    assert (second.name, second.topic_id, second.error_code) == (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID)
    assert len(broker.topics) == 0


async def test_delete_topics_by_topic_id_keeps_a_new_topic_of_the_same_name(
    client: Client, broker: Broker
) -> None:
    old = await new_topic(broker)
    await client.ask(DELETE_TOPICS, 6, by_name(6, "flights"))
    new = await new_topic(broker)
    assert codes(await client.ask(DELETE_TOPICS, 6, by_id(old.topic_id.bytes))) == [
        ErrorCode.UNKNOWN_TOPIC_ID
    ]
    assert broker.topics.get("flights") is new
    assert new.partitions[0].log.log_end_offset == 0


async def test_delete_topics_refuses_neither_name_nor_id_or_both(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    both = DeleteTopicState(name="flights", topic_id=topic.topic_id.bytes)
    for state in (DeleteTopicState(name=None, topic_id=NO_ID), both):
        asked = DeleteTopicsRequest(topics=[state], timeout_ms=1000)
        assert codes(await client.ask(DELETE_TOPICS, 6, asked)) == [ErrorCode.INVALID_REQUEST]
    assert broker.topics.find("flights") is topic


@pytest.mark.parametrize("version", versions_of(DELETE_TOPICS))
async def test_delete_topics_refuses_a_duplicate_name(client: Client, broker: Broker, version: int) -> None:
    await new_topic(broker)
    await new_topic(broker, "other")
    response = await client.ask(DELETE_TOPICS, version, by_name(version, "flights", "other", "flights"))
    told = {result.name: result.error_code for result in response.responses}
    assert told == {"flights": ErrorCode.INVALID_REQUEST, "other": 0}
    assert [topic.name for topic in broker.topics] == ["flights"]


async def test_delete_topics_refuses_a_topic_named_by_name_and_by_id(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    asked = by_id(topic.topic_id.bytes)
    asked.topics.append(DeleteTopicState(name="flights"))
    assert set(codes(await client.ask(DELETE_TOPICS, 6, asked))) == {ErrorCode.INVALID_REQUEST}
    assert broker.topics.find("flights") is topic


@pytest.mark.parametrize("version", versions_of(DELETE_TOPICS))
async def test_delete_topics_where_deletion_is_disabled(version: int) -> None:
    async with running_broker({"delete.topic.enable": False}) as broker:
        await new_topic(broker)
        code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
        response = await Client(broker).ask(DELETE_TOPICS, version, by_name(version, "flights", "nope"))
        assert codes(response) == [code, code]
        assert len(broker.topics) == 1


async def test_delete_topics_without_topics(client: Client) -> None:
    assert codes(await client.ask(DELETE_TOPICS, 6, by_name(6))) == []
