"""Configurations as a real admin client sees them: values, where they come from, what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadedBroker]:
    with broker_in_thread({"log.segment.bytes": 2000000, "node.id": 7}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: ThreadedBroker) -> AdminClient:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic("orders", 1, 1, config={"max.message.bytes": "4321"})
    client.create_topics([topic])["orders"].result(DEADLINE_S)
    return client


def describe(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    return found


def test_a_topic_tells_its_own_values_the_brokers_and_the_defaults(admin: AdminClient) -> None:
    found = describe(admin, ResourceType.TOPIC, "orders")
    told = {
        name: (found[name].value, ConfigSource(found[name].source))
        for name in ("max.message.bytes", "segment.bytes", "index.interval.bytes")
    }
    assert told == {
        "max.message.bytes": ("4321", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "segment.bytes": ("2000000", ConfigSource.STATIC_BROKER_CONFIG),
        "index.interval.bytes": ("4096", ConfigSource.DEFAULT_CONFIG),
    }


def test_synonyms_stand_in_the_order_in_which_they_count(admin: AdminClient) -> None:
    entry = describe(admin, ResourceType.TOPIC, "orders")["max.message.bytes"]
    assert [(name, synonym.value) for name, synonym in entry.synonyms.items()] == [
        ("max.message.bytes", "4321"),
        ("message.max.bytes", "1048588"),
    ]


def test_the_broker_tells_every_key(admin: AdminClient, broker: ThreadedBroker) -> None:
    found = describe(admin, ResourceType.BROKER, "7")
    read = {key.name for key in broker.broker.config.keys.of_scope("broker")}
    assert read <= found.keys()
    # The others are those of Kafka that nothing here reads.
    assert {"process.roles", "remote.log.manager.task.interval.ms"} <= found.keys() - read
    assert all(found[name].is_read_only for name in found.keys() - read)
    assert found["log.segment.bytes"].value == "2000000"
    assert ConfigSource(found["log.segment.bytes"].source) is ConfigSource.STATIC_BROKER_CONFIG
    assert ConfigSource(found["fetch.max.bytes"].source) is ConfigSource.DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "no-such-topic", "UNKNOWN_TOPIC_OR_PART"),
        (ResourceType.TOPIC, "no/topic", "TOPIC_EXCEPTION"),
    ],
)
def test_what_has_no_configuration_is_refused(
    admin: AdminClient, kind: ResourceType, name: str, code: str
) -> None:
    with pytest.raises(KafkaException) as refused:
        describe(admin, kind, name)
    assert refused.value.args[0].name() == code
