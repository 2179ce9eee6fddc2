"""Metadata: whom and what there is, what null and empty mean, and topics that come into being."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from tests.deadlines import until
from tidelog.kernel import pace
from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topics.auto_creation import MAX_WAITING
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
async def test_metadata_returns_brokers_and_controller(closed: Broker, version: int) -> None:
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
async def test_metadata_of_a_topic(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker, partitions=3)
    topic.partitions[1].log.leader_epoch = 5
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
async def test_metadata_of_an_empty_list_returns_all_topics_in_version_0_and_none_later(
    client: Client, broker: Broker, version: int
) -> None:
    for name in ("flights", "planes"):
        await new_topic(broker, name)
    response = await client.ask(METADATA, version, MetadataRequest(topics=[]))
    names = sorted(topic.name for topic in response.topics)
    assert names == (["flights", "planes"] if version == 0 else [])


@pytest.mark.parametrize("version", versions_of(METADATA, 1))
async def test_metadata_of_null_returns_all_topics(client: Client, broker: Broker, version: int) -> None:
    for name in ("flights", "planes"):
        await new_topic(broker, name)
    response = await client.ask(METADATA, version, MetadataRequest(topics=None))
    assert sorted(topic.name for topic in response.topics) == ["flights", "planes"]


UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def wait_for_topics(broker: Broker, count: int) -> None:
    """Wait until so many topics were created in the background."""
    await until(lambda: len(broker.topics) >= count, f"the creation of {count} topics")


@pytest.mark.parametrize("version", versions_of(METADATA))
async def test_metadata_creates_a_missing_topic_after_its_answer(
    client: Client, broker: Broker, version: int
) -> None:
    found = only(await client.ask(METADATA, version, by_name("new")))
    assert (found.error_code, found.name, found.topic_id, found.partitions) == (UNKNOWN, "new", NO_ID, [])
    assert broker.topics.find("new") is None
    await wait_for_topics(broker, 1)
    found = only(await client.ask(METADATA, version, by_name("new")))
    assert (found.error_code, found.name, len(found.partitions)) == (0, "new", 1)


async def test_metadata_of_a_deleted_topic_is_unknown(client: Client, broker: Broker) -> None:
    await new_topic(broker)
    await broker.topics.delete("flights")
    assert only(await client.ask(METADATA, 12, by_name("flights"))).error_code == UNKNOWN


async def test_metadata_creates_a_topic_once_however_often_it_is_asked_for(
    client: Client, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(10):
        await client.ask(METADATA, 9, by_name("new", "other"))
    await wait_for_topics(broker, 2)
    created = [record.getMessage() for record in caplog.records if "created topic" in record.getMessage()]
    assert len(created) == 2


async def test_metadata_limits_the_topics_that_wait_for_their_creation(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In several steps, as on a busy machine, some are created before all were asked about.
    monkeypatch.setattr(pace, "STEP_SECONDS", 3600.0)
    names = [f"new-{number}" for number in range(MAX_WAITING + 100)]
    await client.ask(METADATA, 9, by_name(*names))
    await wait_for_topics(broker, MAX_WAITING)
    assert [topic.name for topic in broker.topics] == names[:MAX_WAITING]
    await client.ask(METADATA, 9, by_name(*names))
    await wait_for_topics(broker, MAX_WAITING + 100)
    assert [topic.name for topic in broker.topics] == names


async def test_metadata_creates_nothing_while_the_broker_stops(client: Client, broker: Broker) -> None:
    broker.topics.closing = True
    assert only(await client.ask(METADATA, 9, by_name("new"))).error_code == UNKNOWN
    await wait_all_tasks_blocked()
    assert len(broker.topics) == 0


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_metadata_lists_internal_topics_before_they_exist(client: Client, name: str) -> None:
    found = only(await client.ask(METADATA, 9, by_name(name, create=False)))
    assert (found.error_code, found.is_internal) == (UNKNOWN, True)


@pytest.mark.parametrize("version", versions_of(METADATA, 4))
async def test_metadata_creates_no_topic_unless_the_client_allows_it(
    client: Client, broker: Broker, version: int
) -> None:
    found = only(await client.ask(METADATA, version, by_name("new", create=False)))
    assert (found.error_code, found.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new")
    await wait_all_tasks_blocked(0.01)
    assert broker.topics.find("new") is None


@pytest.mark.parametrize("version", versions_of(METADATA))
async def test_metadata_creates_no_topic_unless_the_broker_allows_it(closed: Broker, version: int) -> None:
    found = only(await Client(closed).ask(METADATA, version, by_name("new")))
    assert (found.error_code, found.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new")
    assert found.partitions == []
    await wait_all_tasks_blocked(0.01)  # a topic is created after the answer
    assert len(closed.topics) == 0


@pytest.mark.parametrize("version", versions_of(METADATA))
@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 250])
async def test_metadata_refuses_invalid_names(
    client: Client, broker: Broker, version: int, name: str
) -> None:
    found = only(await client.ask(METADATA, version, by_name(name)))
    assert (found.error_code, found.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    assert len(broker.topics) == 0


async def test_metadata_creates_the_others_when_one_cannot_be_created(
    client: Client, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await new_topic(broker, "a.b")
    request = by_name("a_b", "new", "a.b", "a/b", "other")
    codes = {topic.name: topic.error_code for topic in (await client.ask(METADATA, 9, request)).topics}
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes == {"a_b": UNKNOWN, "new": UNKNOWN, "a.b": 0, "a/b": invalid, "other": UNKNOWN}
    await wait_for_topics(broker, 3)
    codes = {topic.name: topic.error_code for topic in (await client.ask(METADATA, 9, request)).topics}
    assert codes == {"a_b": UNKNOWN, "new": 0, "a.b": 0, "a/b": invalid, "other": 0}
    assert "'a_b', which a client requested, is not created: topic 'a_b' collides with 'a.b'" in caplog.text


async def test_metadata_returns_a_duplicate_topic_once(client: Client) -> None:
    response = await client.ask(METADATA, 9, by_name("new", "new"))
    assert [topic.name for topic in response.topics] == ["new"]


@pytest.mark.parametrize("version", versions_of(METADATA, IDS_SINCE))
async def test_metadata_by_topic_id(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    response = await client.ask(METADATA, version, by_id(topic.topic_id.bytes, b"unknown" + bytes(9)))
    found, unknown = response.topics
    assert (found.error_code, found.name) == (0, "flights")
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    assert unknown.topic_id == b"unknown" + bytes(9)
    assert len(broker.topics) == 1


@pytest.mark.parametrize("version", [10, 11])
async def test_metadata_by_topic_id_before_version_12(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    found = only(await client.ask(METADATA, version, by_id(topic.topic_id.bytes)))
    assert found.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", versions_of(METADATA, IDS_SINCE))
async def test_metadata_refuses_neither_name_nor_id(client: Client, broker: Broker, version: int) -> None:
    found = only(await client.ask(METADATA, version, by_id(NO_ID)))
    assert found.error_code != 0
    assert len(broker.topics) == 0


@pytest.mark.parametrize("version", versions_of(METADATA, 8))
async def test_metadata_returns_authorized_operations(client: Client, broker: Broker, version: int) -> None:
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


async def test_metadata_marks_internal_topics(client: Client, broker: Broker) -> None:
    await new_topic(broker, "__consumer_offsets")
    assert only(await client.ask(METADATA, 1, by_name("__consumer_offsets"))).is_internal
