"""What was set while a broker ran is in force with the other one too: configuration, quotas, credentials."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType

from tests.deadlines import DEADLINE_S
from tests.plugins.metadata_kraft.hands import Client, kafka_on, tidelog_on
from tests.plugins.protocol_kafka.against_kafka.asking import Asker
from tidelog.plugins.protocol_kafka.messages import alter_client_quotas
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_CLIENT_QUOTAS,
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    INCREMENTAL_ALTER_CONFIGS,
)
from tidelog.plugins.protocol_kafka.messages.describe_client_quotas import DescribeClientQuotasRequest
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    GROUP_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

BROKER = "1"
RATE = "producer_byte_rate"
SESSION = "consumer.session.timeout.ms"
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


class Kept:
    """Quotas and credentials, as requests set and read them; `see` comes last."""

    def __init__(self, bootstrap: str) -> None:
        self._asker = Asker(bootstrap)

    def set_quota(self, user: str | None, value: float | None) -> None:
        """Set the rate of a user, or remove it."""
        entry = alter_client_quotas.AlterClientQuotasEntry(
            entity=[alter_client_quotas.AlterClientQuotasEntity(entity_type="user", entity_name=user)],
            ops=[alter_client_quotas.OpData(key=RATE, value=value or 0.0, remove=value is None)],
        )
        request = alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=False)
        (result,) = self._asker.ask(ALTER_CLIENT_QUOTAS, 1, request).entries
        assert result.error_code == 0

    def set_credential(self, user: str, iterations: int) -> None:
        """Set a credential."""
        upsertion = ScramCredentialUpsertion(
            name=user, mechanism=1, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        (result,) = self._asker.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, request).results
        assert result.error_code == 0

    def delete_credential(self, user: str) -> None:
        """Delete it."""
        deletion = ScramCredentialDeletion(name=user, mechanism=1)
        request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
        (result,) = self._asker.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, request).results
        assert result.error_code == 0

    def configure_group(self, **changes: str) -> None:
        """Set keys of the group `g`."""
        configs = [
            IncrementalAlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in changes.items()
        ]
        resource = IncrementalAlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name="g", configs=configs
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (result,) = self._asker.ask(INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert result.error_code == 0

    def group_config(self) -> dict[str, str]:
        """What the group `g` sets itself."""
        resource = DescribeConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name="g", configuration_keys=None
        )
        (result,) = self._asker.ask(DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource])).results
        return {entry.name: entry.value for entry in result.configs if entry.config_source == 8}

    def see(self) -> tuple[dict[str | None, float], dict[str, int]]:
        """The rate of each user, and the iterations of each credential."""
        every = DescribeClientQuotasRequest(components=[], strict=False)
        quotas = {
            entry.entity[0].entity_name: entry.values[0].value
            for entry in self._asker.ask(DESCRIBE_CLIENT_QUOTAS, 1, every).entries
        }
        everyone = DescribeUserScramCredentialsRequest(users=None)
        results = self._asker.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, everyone).results
        self._asker.close()
        return quotas, {result.user: result.credential_infos[0].iterations for result in results}


@pytest.mark.long
def test_settings_change_hands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    try:
        tidelog.start()
        client = Client(tidelog.bootstrap)
        client.create("orders", 1, {"flush.ms": "5000"})
        alter(client.admin, ResourceType.TOPIC, "orders", segment_bytes="2000000", flush_ms=None)
        alter(client.admin, ResourceType.BROKER, BROKER, message_max_bytes="555555", num_io_threads="9")
        kept = Kept(tidelog.bootstrap)
        kept.set_quota("alice", 1000.0)
        kept.set_quota(None, 2000.0)
        kept.set_credential("alice", 4096)
        kept.set_credential("bob", 5000)
        kept.configure_group(consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="6000")
        before = kept.see()
        assert before == ({"alice": 1000.0, None: 2000.0}, {"alice": 4096, "bob": 5000})
        tidelog.stop()

        kafka.start()
        kept = Kept(kafka.bootstrap)
        assert kept.group_config() == {SESSION: "50000", "consumer.heartbeat.interval.ms": "6000"}
        kept.configure_group(consumer_heartbeat_interval_ms="7000", share_session_timeout_ms="50000")
        assert kept.see() == before
        client = Client(kafka.bootstrap)
        assert client.topic_config("orders") == {"segment.bytes": "2000000"}
        for kind, name, key in (
            (ResourceType.BROKER, BROKER, "message.max.bytes"),
            (ResourceType.TOPIC, "orders", "max.message.bytes"),
        ):
            assert told(client.admin, kind, name, key) == ("555555", ConfigSource.DYNAMIC_BROKER_CONFIG)
        threads = client.admin, ResourceType.BROKER, BROKER, "num.io.threads"
        assert told(*threads) == ("9", ConfigSource.DYNAMIC_BROKER_CONFIG)
        alter(client.admin, ResourceType.TOPIC, "orders", segment_bytes=None, retention_ms="7777")
        alter(client.admin, ResourceType.BROKER, BROKER, message_max_bytes="666666", num_io_threads="6")
        kept = Kept(kafka.bootstrap)
        kept.set_quota("alice", None)
        kept.set_quota("carl", 3000.0)
        kept.delete_credential("bob")
        kept.set_credential("alice", 6000)
        kept.see()
        kafka.stop()

        tidelog.start()
        kept = Kept(tidelog.bootstrap)
        assert kept.group_config() == {
            SESSION: "50000",
            "consumer.heartbeat.interval.ms": "7000",
            "share.session.timeout.ms": "50000",
        }
        assert kept.see() == ({None: 2000.0, "carl": 3000.0}, {"alice": 6000})
        client = Client(tidelog.bootstrap)
        assert client.topic_config("orders") == {"retention.ms": "7777"}
        inherited = told(client.admin, ResourceType.TOPIC, "orders", "max.message.bytes")
        assert inherited == ("666666", ConfigSource.DYNAMIC_BROKER_CONFIG)
        threads = client.admin, ResourceType.BROKER, BROKER, "num.io.threads"
        assert told(*threads) == ("6", ConfigSource.DYNAMIC_BROKER_CONFIG)
    finally:
        kafka.stop()
        tidelog.stop()
