"""What was set while a broker ran, of topics and of the broker, is in force with the other one too."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType

from tests.deadlines import DEADLINE_S
from tests.plugins.metadata_kraft.hands import Client, kafka_on, tidelog_on

BROKER = "1"
SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE


def alter(admin: AdminClient, kind: ResourceType, name: str, **changes: str | None) -> None:
    """Set keys, or with None delete them."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=DELETE if value is None else SET)
        for key, value in changes.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(DEADLINE_S)


def told(admin: AdminClient, kind: ResourceType, name: str, key: str) -> tuple[str, ConfigSource]:
    """The value of a key, and where it comes from."""
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    entry = future.result(DEADLINE_S)[key]
    return str(entry.value), ConfigSource(entry.source)


def test_settings_change_hands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    try:
        tidelog.start()
        client = Client(tidelog.bootstrap)
        client.create("orders", 1, {"flush.ms": "5000"})
        alter(client.admin, ResourceType.TOPIC, "orders", segment_bytes="2000000", flush_ms=None)
        alter(client.admin, ResourceType.BROKER, BROKER, message_max_bytes="555555")
        tidelog.stop()

        kafka.start()
        client = Client(kafka.bootstrap)
        assert client.topic_config("orders") == {"segment.bytes": "2000000"}
        for kind, name, key in (
            (ResourceType.BROKER, BROKER, "message.max.bytes"),
            (ResourceType.TOPIC, "orders", "max.message.bytes"),
        ):
            assert told(client.admin, kind, name, key) == ("555555", ConfigSource.DYNAMIC_BROKER_CONFIG)
        alter(client.admin, ResourceType.TOPIC, "orders", segment_bytes=None, retention_ms="7777")
        alter(client.admin, ResourceType.BROKER, BROKER, message_max_bytes="666666")
        kafka.stop()

        tidelog.start()
        client = Client(tidelog.bootstrap)
        assert client.topic_config("orders") == {"retention.ms": "7777"}
        inherited = told(client.admin, ResourceType.TOPIC, "orders", "max.message.bytes")
        assert inherited == ("666666", ConfigSource.DYNAMIC_BROKER_CONFIG)
    finally:
        kafka.stop()
        tidelog.stop()
