"""Metadata records: the bytes are Apache Kafka's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.metadata_kraft.vectors import Vector, read_vectors
from tests.tables import for_each
from tidelog.plugins.metadata_kraft.encoding import UnreadableMetadataRecord, frame, unframe
from tidelog.plugins.metadata_kraft.records import cluster, control, settings, topics
from tidelog.plugins.metadata_kraft.records.control import CONTROL_TYPES
from tidelog.plugins.metadata_kraft.records.types import BY_API_KEY, BY_MESSAGE, RECORD_TYPES
from tidelog.plugins.schema import encode
from tidelog.plugins.schema.declare import versions_of
from tidelog.plugins.schema.reference import reference_decode, reference_encode

NODE = 1
TOPIC = bytes.fromhex("87b55653a166477cafd0880bc7317e2e")
DIRECTORY = bytes.fromhex("3f030835325048a6d5a4473f202ef36b")

TOLD: list[tuple[str, int, object]] = [
    ("010200076f726465727387b55653a166477cafd0880bc7317e2e00", 0,
     topics.TopicRecord(name="orders", topic_id=TOPIC)),
    (
        "0103020000000187b55653a166477cafd0880bc7317e2e020000000102000000010101000000010000000000000000"
        "023f030835325048a6d5a4473f202ef36b00",
        2,
        topics.PartitionRecord(
            partition_id=1, topic_id=TOPIC, replicas=[NODE], isr=[NODE], leader=NODE, leader_epoch=0,
            partition_epoch=0, directories=[DIRECTORY],
        ),
    ),
    (
        "0105020000000187b55653a166477cafd0880bc7317e2e040001010104ffffffff0605020000000107050200000001",
        2,
        topics.PartitionChangeRecord(
            partition_id=1, topic_id=TOPIC, isr=[], leader=-1, eligible_leader_replicas=[NODE],
            last_known_elr=[NODE],
        ),
    ),
    ("010c00116d657461646174612e76657273696f6e001e00", 0,
     cluster.FeatureLevelRecord(name="metadata.version", feature_level=30)),
    ("010f0000000001000000000000000d00000000000003e800", 0,
     cluster.ProducerIdsRecord(broker_id=NODE, broker_epoch=13, next_producer_id=1000)),
    ("01110000000001000000000000000d010001ff", 0,
     cluster.BrokerRegistrationChangeRecord(broker_id=NODE, broker_epoch=13, fenced=cluster.UNFENCE)),
    ("01110100000001000000000000000d01010101", 1,
     cluster.BrokerRegistrationChangeRecord(broker_id=NODE, broker_epoch=13, in_controlled_shutdown=1)),
    ("0104000401146d696e2e696e73796e632e7265706c69636173023100", 0,
     settings.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")),
    ("01170001001212426f6f747374726170207265636f726473", 0,
     control.BeginTransactionRecord(name="Bootstrap records")),
]  # fmt: skip


@for_each("vector", read_vectors(), ids=str)
def test_unframe_and_frame_keep_records_of_kafka_byte_for_byte(vector: Vector) -> None:
    record = unframe(vector.value)
    assert BY_API_KEY[record.api_key].name == vector.name
    assert record.version == vector.version
    assert frame(record.message, record.version) == vector.value
    body = encode(record.message, record.version)
    assert reference_encode(record.message, record.version) == body
    assert reference_decode(type(record.message), record.version, body) == (record.message, len(body))


@for_each(("told", "version", "message"), TOLD)
def test_unframe_and_frame_agree_with_kafka_tools_on_the_fields(
    told: str, version: int, message: object
) -> None:
    assert unframe(bytes.fromhex(told)).message == message
    assert frame(message, version).hex() == told


def test_frame_vectors_of_kafka_include_every_record_type_that_tidelog_writes() -> None:
    seen = {vector.name for vector in read_vectors()}
    written = {
        cluster.FeatureLevelRecord, cluster.RegisterBrokerRecord, cluster.BrokerRegistrationChangeRecord,
        cluster.RegisterControllerRecord, cluster.ProducerIdsRecord, topics.TopicRecord,
        topics.RemoveTopicRecord, topics.PartitionRecord, topics.PartitionChangeRecord, settings.ConfigRecord,
        control.BeginTransactionRecord, control.EndTransactionRecord,
    }  # fmt: skip
    assert {BY_MESSAGE[message].name for message in written} <= seen


def test_record_types_are_declared_once_and_flexible() -> None:
    assert len(BY_API_KEY) == len(BY_MESSAGE) == len(RECORD_TYPES)
    for message in [*BY_MESSAGE, *CONTROL_TYPES]:
        assert versions_of(message).flexible == 0


def test_unframe_returns_a_record_of_unknown_type_with_its_bytes() -> None:
    value = bytes.fromhex("016e02deadbeef")
    assert unframe(value) == (110, 2, None, value)


@for_each(
    ("value", "reason"),
    [
        ("", "frame of a record is malformed"),
        ("01", "frame of a record is malformed"),
        ("01ffffffffffff", "frame of a record is malformed"),
        ("020200", "frame version 2, not 1"),
        ("010303", "PARTITION_RECORD has version 3, this broker knows up to 2"),
        ("010500", "PARTITION_CHANGE_RECORD cannot be decoded"),
        ("0109000c6a23b96e7e4c55a28871d4625479ee0000", "REMOVE_TOPIC_RECORD cannot be decoded.*left behind"),
    ],
)
def test_unframe_refuses_malformed_records_with_a_reason(value: str, reason: str) -> None:
    with pytest.raises(UnreadableMetadataRecord, match=reason):
        unframe(bytes.fromhex(value))


@pytest.mark.parametrize("version", [0, 1])
def test_frame_in_an_older_version_drops_the_fields_it_lacks(version: int) -> None:
    partition = topics.PartitionRecord(
        topic_id=TOPIC, replicas=[1], isr=[], directories=[DIRECTORY], eligible_leader_replicas=[1]
    )
    read: Any = unframe(frame(partition, version)).message
    assert read.eligible_leader_replicas is None
    assert read.directories == ([DIRECTORY] if version else [])
