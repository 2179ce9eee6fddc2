"""Groups, client metrics and telemetry: Apache Kafka and tidelog give the same answers, field by field.

Kafka has keys of share and streams groups too, which are left out here.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.deadlines import wait_until
from tidelog.kernel.records.batch import HEADER_BYTES, pack_batch, parse_header
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages.api import (
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    INCREMENTAL_ALTER_CONFIGS,
    PRODUCE,
    PUSH_TELEMETRY,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    DELETE,
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.push_telemetry import PushTelemetryRequest

from .asking import Asker, message, plain, same_answers
from .prepared import producing

CONSUMER_KEYS = [
    f"consumer.{key}" for key in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
]
SESSION, HEARTBEAT, ASSIGNMENT = CONSUMER_KEYS
INTERVAL_MS = 3_600_000


def described(kind: int, name: str) -> tuple[Api, int, Any]:
    """Describe a resource with everything."""
    resource = DescribeConfigsResource(
        resource_type=kind,
        resource_name=name,
        configuration_keys=CONSUMER_KEYS if kind == GROUP_RESOURCE else None,
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    return DESCRIBE_CONFIGS, 4, request


def altered(kind: int, name: str, **changes: str | None) -> tuple[Api, int, Any]:
    """Set keys, and delete those that are None."""
    configs = [
        IncrementalAlterableConfig(
            name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value
        )
        for key, value in changes.items()
    ]
    resource = IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return INCREMENTAL_ALTER_CONFIGS, 1, request


def create_topic(asker: Asker, name: str) -> None:
    """Create a topic with the defaults."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    (result,) = asker.ask(CREATE_TOPICS, 5, request).topics
    assert result.error_code == 0


def entries(asker: Asker, kind: int, name: str) -> dict[str, dict[str, Any]]:
    """The keys of a resource, with everything that describes them."""
    api, version, request = described(kind, name)
    (result,) = asker.ask(api, version, request).results
    assert result.error_code == 0
    return {entry.name: plain(entry) for entry in result.configs}


def differing(expected: Mapping[str, Any], found: Mapping[str, Any]) -> set[str]:
    """The names whose entries are not the same, or that are missing."""
    return {name for name in expected if found.get(name) != expected[name]}


def test_every_topic_key_of_kafka_is_described_with_its_type_and_source(kafka: Asker, tidelog: Asker) -> None:
    for asker in (kafka, tidelog):
        create_topic(asker, "described")
    expected, found = (entries(asker, TOPIC_RESOURCE, "described") for asker in (kafka, tidelog))
    # Kafka sets it for all brokers when it formats a directory with eligible leader replicas.
    assert differing(expected, found) <= {"min.insync.replicas"}


def gzipped(*values: bytes) -> bytearray:
    """A batch of these records, compressed with gzip."""
    plain_batch = make_batch(values)
    header = parse_header(plain_batch)
    return pack_batch(header._replace(attributes=1), gzip.compress(plain_batch[HEADER_BYTES:]))


def test_max_decompressed_message_bytes_limits_compressed_records_as_in_kafka(
    kafka: Asker, tidelog: Asker
) -> None:
    """A record has six bytes besides its value here, without its length."""
    batches = [make_batch([bytes(100)]), gzipped(bytes(14), bytes(14)), gzipped(bytes(14), bytes(15))]
    codes: list[list[int]] = []
    for asker in (kafka, tidelog):
        create_topic(asker, "decompressed")
        changed = altered(TOPIC_RESOURCE, "decompressed", max_decompressed_message_bytes="20")
        assert asker.ask(*changed).responses[0].error_code == 0
        # Kafka leads a partition, and applies a change, soon after it has acknowledged it.
        wait_until(lambda asker=asker: produced(asker, batches[2]) == ErrorCode.INVALID_RECORD, "the limit")  # type: ignore[misc]
        codes.append([produced(asker, batch) for batch in batches])
    assert codes == [[0, 0, ErrorCode.INVALID_RECORD]] * 2


def produced(asker: Asker, batch: bytearray) -> int:
    """Append a batch; the error code."""
    request = message(PRODUCE.request_class, producing(batch, "decompressed"))
    code: int = asker.ask(PRODUCE, 9, request).responses[0].partition_responses[0].error_code
    return code


SECURITY_KEYS = re.compile(r"ssl\..*|sasl\.(jaas|enabled|mechanism|kerberos)\..*|principal\.builder\.class")
OTHER_KEYS = {
    "cordoned.log.dirs": "no directory can be cordoned here",
    "config.providers": "a class in Java",
    "listener.security.protocol.map": "there is no TLS",
    "listeners": "opened at the start",
    "max.connections.per.ip.overrides": "read at the start",
    "metric.reporters": "a class in Java",
}
"""Kafka's dynamic keys that tidelog describes in another way or lacks, and why."""


def test_every_dynamic_broker_key_of_kafka_is_described_as_dynamic(kafka: Asker, tidelog: Asker) -> None:
    expected, found = (entries(asker, BROKER_RESOURCE, "1") for asker in (kafka, tidelog))
    dynamic = {name: entry for name, entry in expected.items() if not entry["read_only"]}
    assert {
        name for name in differing(dynamic, found) if not SECURITY_KEYS.fullmatch(name)
    } == OTHER_KEYS.keys()


def test_incremental_alter_configs_of_a_group_is_as_in_kafka(kafka: Asker, tidelog: Asker) -> None:
    changes: list[dict[str, str | None]] = [
        {SESSION: "50000", HEARTBEAT: "6000"},
        {SESSION: "44999"},
        {SESSION: "60001"},
        {HEARTBEAT: "4999"},
        {HEARTBEAT: "15001"},
        {HEARTBEAT: "soon"},
        {"no.such.key": "1"},
        {ASSIGNMENT: "0", SESSION: None, "no.such.key": None},
        {HEARTBEAT: None, ASSIGNMENT: None},
    ]
    script = [described(GROUP_RESOURCE, "g"), described(GROUP_RESOURCE, "")]
    for change in changes:
        script += [altered(GROUP_RESOURCE, "g", **change), described(GROUP_RESOURCE, "g")]
    same_answers(kafka, tidelog, [*script, altered(GROUP_RESOURCE, "", **{SESSION: "50000"})])


def test_client_metrics_configs_are_as_in_kafka(kafka: Asker, tidelog: Asker) -> None:
    """For one thing, an interval out of range is INVALID_REQUEST there and INVALID_CONFIG here."""
    changes: list[dict[str, str | None]] = [
        {"interval.ms": "3600000", "metrics": "a.,b."},
        {"interval.ms": "x"},
        {"metrics": "a,,b"},
        {"match": "client_id=never.*"},
        {"match": "color=blue"},
        {"match": "client_id"},
        {"match": "client_id=(a"},
        {"match": "client_id=a=b"},
        {"color": "blue"},
        {"metrics": None},
        {"interval.ms": None, "match": None},
    ]
    script = [described(CLIENT_METRICS_RESOURCE, "m"), described(CLIENT_METRICS_RESOURCE, "")]
    for change in changes:
        script += [altered(CLIENT_METRICS_RESOURCE, "m", **change), described(CLIENT_METRICS_RESOURCE, "m")]
    same_answers(kafka, tidelog, [*script, altered(CLIENT_METRICS_RESOURCE, "", match="client_id=a")])


@pytest.mark.parametrize("broker", ["kafka", "tidelog"])
def test_get_telemetry_subscriptions_and_push_telemetry_are_as_in_kafka(
    request: pytest.FixtureRequest, broker: str
) -> None:
    """Error codes of requests in this order; ids are random."""
    asker: Asker = request.getfixturevalue(broker)
    changed = altered(CLIENT_METRICS_RESOURCE, "t", metrics="b.,a.", interval_ms=str(INTERVAL_MS))
    asker.ask(*changed)
    new = GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16))
    # Kafka applies a change soon after it is acknowledged.
    wait_until(
        lambda: len(asker.ask(GET_TELEMETRY_SUBSCRIPTIONS, 0, new).requested_metrics) == 2, "subscription"
    )
    found = asker.ask(GET_TELEMETRY_SUBSCRIPTIONS, 0, new)
    assert sorted(found.requested_metrics) == ["a.", "b."]
    assert (found.accepted_compression_types, found.delta_temporality) == ([4, 3, 1, 2], True)
    # Without another subscription of the broker, the shortest interval is the default.
    assert (found.push_interval_ms, found.telemetry_max_bytes) == (300_000, 1024 * 1024)
    again = GetTelemetrySubscriptionsRequest(client_instance_id=found.client_instance_id)

    def push(instance_id: bytes, subscription_id: int, *, terminating: bool = False, codec: int = 0) -> Any:
        message = PushTelemetryRequest(
            client_instance_id=instance_id,
            subscription_id=subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=b"",
        )
        return PUSH_TELEMETRY, 0, message

    own, subscription = found.client_instance_id, found.subscription_id
    script: list[tuple[Api, int, Any]] = [
        (GET_TELEMETRY_SUBSCRIPTIONS, 0, again),
        push(bytes(16), subscription),
        push(own, subscription + 1),
        push(own, subscription),
        (GET_TELEMETRY_SUBSCRIPTIONS, 0, again),
        push(own, subscription, terminating=True, codec=9),
        push(own, subscription, terminating=True),
    ]
    codes = [asker.ask(*each).error_code for each in script]
    assert codes == [89, 42, 117, 89, 89, 76, 42]


MIN_INSYNC = "min.insync.replicas"


def test_min_insync_replicas_is_as_in_kafka_on_one_node(kafka: Asker, tidelog: Asker) -> None:
    """With eligible leader replicas it is one value for all brokers; on one node none has an effect."""

    def shown(kind: int, name: str) -> tuple[Api, int, Any]:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=[MIN_INSYNC]
        )
        return DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource], include_synonyms=True)

    for asker in (kafka, tidelog):
        create_topic(asker, "insync")
    places = [(TOPIC_RESOURCE, "insync"), (BROKER_RESOURCE, "1"), (BROKER_RESOURCE, "")]
    script = [altered(BROKER_RESOURCE, "", **{MIN_INSYNC: "1"})]
    for kind, name, value in (
        (TOPIC_RESOURCE, "insync", "3"),
        (TOPIC_RESOURCE, "insync", "0"),
        (TOPIC_RESOURCE, "insync", "few"),
        (BROKER_RESOURCE, "1", "2"),
        (BROKER_RESOURCE, "", "2"),
        (BROKER_RESOURCE, "", None),
        (TOPIC_RESOURCE, "insync", None),
        (BROKER_RESOURCE, "", "1"),
    ):
        script += [altered(kind, name, **{MIN_INSYNC: value}), *(shown(*place) for place in places)]
    same_answers(kafka, tidelog, script)


@pytest.mark.parametrize("key", ["max.connections", "max.connection.creation.rate"])
def test_limits_of_a_listener_are_altered_as_in_kafka(kafka: Asker, tidelog: Asker, key: str) -> None:
    name = f"listener.name.plaintext.{key}"
    changes: list[tuple[str, str | None]] = [
        ("1", "2000"),
        ("", "3000"),
        ("1", "-1"),
        ("1", "many"),
        ("1", None),
        ("", None),
    ]
    script = [altered(BROKER_RESOURCE, broker, **{name: value}) for broker, value in changes]
    same_answers(kafka, tidelog, script[:2])
    for asker in (kafka, tidelog):
        for broker, value in changes[:2]:
            wait_until(lambda: _set_value(asker, broker, name) == value, name)  # noqa: B023 - called at once
    same_answers(kafka, tidelog, script[2:])


def _set_value(asker: Asker, broker: str, name: str) -> str | None:
    """What a key of this broker, or of all, is set to."""
    found = entries(asker, BROKER_RESOURCE, broker).get(name)
    return None if found is None else found["value"]
