"""What operators' tools show and compare: Apache Kafka and tidelog have the same keys, texts and orders."""

from __future__ import annotations

import itertools
from typing import Any

from tests.deadlines import wait_until
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.describe_configs import BROKER_RESOURCE
from tidelog.plugins.protocol_kafka.unread_keys import UNREAD_KEYS

from .asking import Asker, message
from .test_resources import create_topic, entries


def test_every_broker_key_of_kafka_is_described(kafka: Asker, tidelog: Asker) -> None:
    expected, found = (entries(asker, BROKER_RESOURCE, "1") for asker in (kafka, tidelog))
    assert expected.keys() <= found.keys()
    unread = {key.name for key in UNREAD_KEYS} & expected.keys() & found.keys()
    assert len(unread) > 150
    # Kafka 4.4 has a wider type for a key that was a short before.
    widened = {"transaction.state.log.min.isr"}
    classes = {
        "create.topic.policy.class.name",
        "alter.config.policy.class.name",
        "client.quota.callback.class",
    }
    for name in classes:
        assert found[name]["config_type"] == expected[name]["config_type"], name
    for name in unread - widened:
        assert found[name]["config_type"] == expected[name]["config_type"], name
        assert found[name]["is_sensitive"] == expected[name]["is_sensitive"], name
        assert found[name]["read_only"], name
    for name in ("broker.id", "node.id", "process.roles", "offsets.topic.replication.factor"):
        assert found[name]["value"] == expected[name]["value"]
    assert found["advertised.listeners"]["value"].startswith("PLAINTEXT://127.0.0.1:")


def ask(asker: Asker, api: Api, version: int, **fields: Any) -> Any:
    """The answer to a request with these fields."""
    return asker.ask(api, version, message(api.request_class, fields))


QUOTAS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]


def quota_keys(asker: Asker, count: int) -> dict[str, list[str]]:
    """The order in which the quotas of users `ordered-N` are described."""
    answer = ask(asker, apis.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
    named = {str(entry.entity[0].entity_name): entry for entry in answer.entries}
    found = {
        name: [value.key for value in entry.values]
        for name, entry in named.items()
        if name.startswith("ordered-")
    }
    return found if len(found) == count else {}


def test_quotas_of_an_entity_are_described_in_kafkas_order(kafka: Asker, tidelog: Asker) -> None:
    keys = [chosen for size in (1, 2, 3, 4) for chosen in itertools.combinations(QUOTAS, size)]
    changes = [
        {
            "entity": [{"entity_type": "user", "entity_name": f"ordered-{number}"}],
            "ops": [{"key": key, "value": 1.0, "remove": False} for key in chosen],
        }
        for number, chosen in enumerate(keys)
    ]
    for asker in (kafka, tidelog):
        ask(asker, apis.ALTER_CLIENT_QUOTAS, 1, entries=changes, validate_only=False)
    # Kafka applies a change soon after it is acknowledged.
    wait_until(lambda: bool(quota_keys(kafka, len(keys))), "quotas")
    assert quota_keys(tidelog, len(keys)) == quota_keys(kafka, len(keys))


def group_texts(asker: Asker) -> list[tuple[int, str | None]]:
    """The errors of requests for groups that are not there or of the other protocol."""
    create_topic(asker, "texts")
    coordinators = {"key_type": 0, "coordinator_keys": ["texts"]}
    wait_until(
        lambda: not ask(asker, apis.FIND_COORDINATOR, 4, **coordinators).coordinators[0].error_code,
        "coordinator",
    )

    def heartbeat(group_id: str, member_id: str, epoch: int) -> tuple[int, str | None]:
        answer = ask(
            asker,
            apis.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["texts"],
            topic_partitions=[],
        )
        return answer.error_code, answer.error_message

    wait_until(lambda: heartbeat("texts", "m", 0)[0] == 0, "group")
    found = [heartbeat("gone", "m", 3), heartbeat("gone", "m", -1), heartbeat("texts", "n", 5)]
    described = ask(asker, apis.DESCRIBE_GROUPS, 6, groups=["gone", "texts"])
    found += sorted((group.error_code, group.error_message) for group in described.groups)
    of_consumers = ask(asker, apis.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["gone"])
    return found + [(group.error_code, group.error_message) for group in of_consumers.groups]


def test_errors_of_missing_groups_have_kafkas_texts(kafka: Asker, tidelog: Asker) -> None:
    found = group_texts(tidelog)
    assert found == group_texts(kafka)
    assert (69, "Group gone not found.") in found
