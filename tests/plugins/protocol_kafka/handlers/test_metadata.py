"""Metadata: whom and what there is, what null and empty mean, and topics that come into being."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import METADATA
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.metadata import (
    NO_AUTHORIZED_OPERATIONS,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)

from .client import Client, versions_of
from .topics import new_topic

IDS_SINCE = 12
NO_ID = bytes(16)
ALL_OF_A_TOPIC = 3576
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: bits 3 to 8, 10 and 11."""
ALL_OF_THE_CLUSTER = 8096
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""


def by_name(*names: str, create: bool = True) -> MetadataRequest:
    """Ask for topics by name."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create
    )


def by_id(*ids: bytes) -> MetadataRequest:
    """Ask for topics by id."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids])


def only(response: Any) -> MetadataResponseTopic:
    """The only topic of an answer."""
    (topic,) = response.topics
    assert isinstance(topic, MetadataResponseTopic)
    return topic


@pytest.fixture
async def closed() -> AsyncGenerator[Broker]:
    """A broker where topics do not come into being by themselves."""
    settings = {"auto.create.topics.enable": False, "broker.rack": "r1", "node.id": 7}
    async with running_broker(settings) as broker:
        yield broker


@pytest.mark.parametrize("version", versions_of(METADATA))
async def test_whom_there_is(closed: Broker, version: int) -> None:
    response = await Client(closed).ask(METADATA, version, MetadataRequest(topics=[]))
    (broker,) = response.brokers
    host, _, port = closed.listeners["PLAINTEXT"].rpartition(":")
    assert (broker.node_id, broker.host, broker.port) == (7, host, int(port))
    assert broker.rack == ("r1" if version >= 1 else None)
    assert response.cluster_id == (closed.cluster.cluster_id if version >= 2 else None)
    assert response.controller_id == (7 if version >= 1 else -1)
    assert response.throttle_time_ms == 0
    assert response.error_code == 0


@pytest.mark.parametrize("version", versions_of(METADATA))
async def test_a_topic(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker, partitions=3)
    topic.partitions[1].leader_epoch = 5
    found = only(await client.ask(METADATA, version, by_name("flights")))
    assert (found.error_code, found.name, found.is_internal) == (0, "flights", False)
    assert found.topic_id == (topic.topic_id.bytes if version >= 10 else NO_ID)
    assert [part.partition_index for part in found.partitions] == [0, 1, 2]
    for part in found.partitions:
        assert (part.error_code, part.leader_id) == (0, 1)
        assert part.replica_nodes == part.isr_nodes == [1]
        assert part.offline_replicas == []
    assert found.partitions[1].leader_epoch == (5 if version >= 7 else -1)


@pytest.mark.parametrize("version", versions_of(METADATA))
async def test_an_empty_list_means_all_in_version_0_and_none_later(
    client: Client, broker: Broker, version: int
) -> None:
    for name in ("flights", "planes"):
        await new_topic(broker, name)
    response = await client.ask(METADATA, version, MetadataRequest(topics=[]))
    names = sorted(topic.name for topic in response.topics)
    assert names == (["flights", "planes"] if version == 0 else [])


@pytest.mark.parametrize("version", versions_of(METADATA, 1))
async def test_null_means_all(client: Client, broker: Broker, version: int) -> None:
    for name in ("flights", "planes"):
        await new_topic(broker, name)
    response = await client.ask(METADATA, version, MetadataRequest(topics=None))
    assert sorted(topic.name for topic in response.topics) == ["flights", "planes"]


@pytest.mark.parametrize("version", versions_of(METADATA))
async def test_a_missing_topic_comes_into_being(client: Client, broker: Broker, version: int) -> None:
    found = only(await client.ask(METADATA, version, by_name("new")))
    assert (found.error_code, found.name, len(found.partitions)) == (0, "new", 1)
    assert broker.topics.find("new") is not None


@pytest.mark.parametrize("version", versions_of(METADATA, 4))
async def test_unless_the_client_does_not_want_it(client: Client, broker: Broker, version: int) -> None:
    found = only(await client.ask(METADATA, version, by_name("new", create=False)))
    assert (found.error_code, found.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new")
    assert broker.topics.find("new") is None


@pytest.mark.parametrize("version", versions_of(METADATA))
async def test_unless_the_broker_does_not_want_it(closed: Broker, version: int) -> None:
    found = only(await Client(closed).ask(METADATA, version, by_name("new")))
    assert (found.error_code, found.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new")
    assert found.partitions == []
    assert len(closed.topics) == 0


@pytest.mark.parametrize("version", versions_of(METADATA))
@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 250])
async def test_names_that_cannot_be(client: Client, broker: Broker, version: int, name: str) -> None:
    found = only(await client.ask(METADATA, version, by_name(name)))
    assert (found.error_code, found.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    assert len(broker.topics) == 0


async def test_one_that_cannot_be_created_hinders_no_other(client: Client, broker: Broker) -> None:
    await new_topic(broker, "a.b")
    response = await client.ask(METADATA, 9, by_name("new", "a_b", "a.b", "a/b"))
    codes = {topic.name: topic.error_code for topic in response.topics}
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes == {"new": 0, "a_b": invalid, "a.b": 0, "a/b": invalid}


async def test_a_topic_asked_for_twice_is_told_once(client: Client) -> None:
    response = await client.ask(METADATA, 9, by_name("new", "new"))
    assert [topic.name for topic in response.topics] == ["new"]


@pytest.mark.parametrize("version", versions_of(METADATA, IDS_SINCE))
async def test_by_id(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    response = await client.ask(METADATA, version, by_id(topic.topic_id.bytes, b"unknown" + bytes(9)))
    found, unknown = response.topics
    assert (found.error_code, found.name) == (0, "flights")
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    assert unknown.topic_id == b"unknown" + bytes(9)
    assert len(broker.topics) == 1


@pytest.mark.parametrize("version", [10, 11])
async def test_by_id_before_its_time(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    found = only(await client.ask(METADATA, version, by_id(topic.topic_id.bytes)))
    assert found.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", versions_of(METADATA, IDS_SINCE))
async def test_neither_name_nor_id(client: Client, broker: Broker, version: int) -> None:
    found = only(await client.ask(METADATA, version, by_id(NO_ID)))
    assert found.error_code != 0
    assert len(broker.topics) == 0


@pytest.mark.parametrize("version", versions_of(METADATA, 8))
async def test_authorized_operations(client: Client, broker: Broker, version: int) -> None:
    await new_topic(broker)
    of_cluster = version <= 10
    request = by_name("flights")
    response = await client.ask(METADATA, version, request)
    assert response.cluster_authorized_operations == NO_AUTHORIZED_OPERATIONS
    assert only(response).topic_authorized_operations == NO_AUTHORIZED_OPERATIONS
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = of_cluster
    response = await client.ask(METADATA, version, request)
    assert only(response).topic_authorized_operations == ALL_OF_A_TOPIC
    told = ALL_OF_THE_CLUSTER if of_cluster else NO_AUTHORIZED_OPERATIONS
    assert response.cluster_authorized_operations == told


async def test_internal_topics_are_told(client: Client, broker: Broker) -> None:
    await new_topic(broker, "__consumer_offsets")
    assert only(await client.ask(METADATA, 1, by_name("__consumer_offsets"))).is_internal
