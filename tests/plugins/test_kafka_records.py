"""Every type of record in the internal topics and in the metadata log, against Apache Kafka's own classes.

Kafka writes each sample of each version, and both codecs have to read that and to write the same bytes.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, NamedTuple

from tests.peers import ask_kafka_messages
from tests.peers.kafka_samples import Sample, field_names, kafka_json, samples_of
from tests.tables import for_each
from tidelog.kernel.seams.coordination.transactions import TransactionState
from tidelog.plugins.coordinator.classic_groups import records as classic_groups
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.consumer_groups import group_records, member_records
from tidelog.plugins.coordinator.consumer_groups.records import CHANGES, read_change
from tidelog.plugins.coordinator.offsets.records import KEY_TYPES as OFFSET_KEY_TYPES
from tidelog.plugins.coordinator.offsets.records import OffsetChange, OffsetCommitKey, OffsetCommitValue
from tidelog.plugins.coordinator.transactions.records import (
    STATUS_AT,
    TransactionChange,
    TransactionLogKey,
    TransactionLogValue,
)
from tidelog.plugins.metadata_kraft.records.control import CONTROL_TYPES
from tidelog.plugins.metadata_kraft.records.types import RECORD_TYPES
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tidelog.plugins.schema import decode, decoder, encode
from tidelog.plugins.schema.reference import reference_decode, reference_encode

GROUP: Final = "org.apache.kafka.coordinator.group.generated"
TRANSACTION: Final = "org.apache.kafka.coordinator.transaction.generated"
METADATA: Final = "org.apache.kafka.common.metadata"
MESSAGE: Final = "org.apache.kafka.common.message"

# Fields of our declarations whose names are not those of Kafka's schemas.
NAMES: Final = {
    "kraft_version": "k_raft_version",
    "kraft_version_feature": "k_raft_version_feature",
}
LEFT_ALONE: Final = {
    10: "SHARE_GROUP_MEMBER_METADATA",
    11: "SHARE_GROUP_METADATA",
    12: "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA",
    13: "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER",
    14: "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    15: "SHARE_GROUP_STATE_PARTITION_METADATA",
    17: "STREAMS_GROUP_METADATA",
    19: "STREAMS_GROUP_MEMBER_METADATA",
    20: "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA",
    21: "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER",
    22: "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    23: "STREAMS_GROUP_TOPOLOGY",
}
"""Types of keys in `__consumer_offsets` that belong to kinds of groups that this broker does not have."""


class Schema(NamedTuple):
    """A message of ours, and Kafka's class of the same schema; its version is ours plus `offset`."""

    message: type[Any]
    kafka: str
    offset: int = 0


def _kafka_class(package: str, message: type[Any]) -> Schema:
    return Schema(message, f"{package}.{message.__name__}")


_MEMBER_KEYS = ("MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment")
_GROUP_KEYS = ("Metadata", "PartitionMetadata", "TargetAssignmentMetadata")
SCHEMAS: Final = [
    Schema(OffsetCommitKey, f"{GROUP}.OffsetCommitKey"),
    Schema(OffsetCommitKey, f"{GROUP}.LegacyOffsetCommitKey"),
    Schema(OffsetCommitValue, f"{GROUP}.OffsetCommitValue"),
    Schema(classic_groups.GroupMetadataKey, f"{GROUP}.GroupMetadataKey"),
    Schema(classic_groups.GroupMetadataValue, f"{GROUP}.GroupMetadataValue"),
    *(Schema(group_records.GroupKey, f"{GROUP}.ConsumerGroup{name}Key") for name in _GROUP_KEYS),
    *(Schema(member_records.MemberKey, f"{GROUP}.ConsumerGroup{name}Key") for name in _MEMBER_KEYS),
    Schema(group_records.RegularExpressionKey, f"{GROUP}.ConsumerGroupRegularExpressionKey"),
    _kafka_class(GROUP, group_records.ConsumerGroupMetadataValue),
    _kafka_class(GROUP, member_records.ConsumerGroupMemberMetadataValue),
    _kafka_class(GROUP, group_records.ConsumerGroupTargetAssignmentMetadataValue),
    _kafka_class(GROUP, member_records.ConsumerGroupTargetAssignmentMemberValue),
    _kafka_class(GROUP, member_records.ConsumerGroupCurrentMemberAssignmentValue),
    _kafka_class(GROUP, group_records.ConsumerGroupRegularExpressionValue),
    _kafka_class(TRANSACTION, TransactionLogKey),
    _kafka_class(TRANSACTION, TransactionLogValue),
    _kafka_class(MESSAGE, ConsumerProtocolSubscription),
    _kafka_class(MESSAGE, ConsumerProtocolAssignment),
    *(_kafka_class(METADATA, kind.message) for kind in RECORD_TYPES),
    *(_kafka_class(MESSAGE, message) for message in CONTROL_TYPES),
]


def _samples(schema: Schema) -> list[Sample]:
    return list(samples_of(schema.message))


@cache
def _written_by_kafka() -> dict[str, list[str]]:
    """For each class of Kafka's what it makes of each sample, all out of one process."""
    requests = [
        ("write", schema.kafka, sample.version + schema.offset, kafka_json(sample, NAMES))
        for schema in SCHEMAS
        for sample in _samples(schema)
    ]
    answers: dict[str, list[str]] = {}
    for (_, kafka, _, _), answer in zip(requests, ask_kafka_messages(requests), strict=True):
        answers.setdefault(kafka, []).append(answer)
    return answers


@for_each("schema", SCHEMAS, ids=lambda schema: schema.kafka.rpartition(".")[2])
def test_decode_and_encode_keep_records_of_kafka_byte_for_byte(schema: Schema) -> None:
    samples = _samples(schema)
    assert samples
    for (message, version), written in zip(samples, _written_by_kafka()[schema.kafka], strict=True):
        assert not written.startswith("error"), (message, written)
        encoded = bytes.fromhex(written)
        assert decode(schema.message, version, encoded) == message
        assert encode(message, version) == encoded, message
        assert reference_decode(schema.message, version, encoded) == (message, len(encoded))
        assert reference_encode(message, version) == encoded


def _values(message: type[Any], version: int | None = None) -> list[bytes]:
    """Values as they are in a log, with their version, out of what Kafka wrote."""
    (schema,) = (schema for schema in SCHEMAS if schema.message is message)
    return [
        sample.version.to_bytes(2) + bytes.fromhex(written)
        for sample, written in zip(_samples(schema), _written_by_kafka()[schema.kafka], strict=True)
        if version in (None, sample.version)
    ]


CONSUMER_GROUP_VALUES: Final = {
    3: group_records.ConsumerGroupMetadataValue,
    5: member_records.ConsumerGroupMemberMetadataValue,
    6: group_records.ConsumerGroupTargetAssignmentMetadataValue,
    7: member_records.ConsumerGroupTargetAssignmentMemberValue,
    8: member_records.ConsumerGroupCurrentMemberAssignmentValue,
    16: group_records.ConsumerGroupRegularExpressionValue,
}


@for_each("kind", CONSUMER_GROUP_VALUES)
def test_read_change_returns_the_same_consumer_group_change_after_to_record(kind: int) -> None:
    key = kind.to_bytes(2) + b"\0\1g" + (b"" if kind in (3, 6) else b"\0\1m")
    values = _values(CONSUMER_GROUP_VALUES[kind])
    same = 0
    for value in values:
        change = read_change(key, value)
        again = change.to_record()
        assert (again.key, read_change(again.key, again.value)) == (key, change)
        same += again.value == value
    # The others have partitions out of order, a member state that does not exist, or the like.
    assert same > len(values) / 2


def test_offset_change_reads_and_rewrites_committed_offsets_of_kafka() -> None:
    for value in _values(OffsetCommitValue, 4):
        assert OffsetChange("g", ("t", 0), OffsetChange.read_value(value)).to_record().value == value
    for value in _values(OffsetCommitValue, 1):
        read = OffsetChange.read_value(value)
        again = OffsetChange("g", ("t", 0), read).to_record().value
        assert read.expire_timestamp_ms == -1 or again == value


def test_transaction_change_reads_and_rewrites_transactions_of_kafka() -> None:
    states: set[TransactionState] = set()
    for version in (0, 1):
        for value in _values(TransactionLogValue, version):
            if value[STATUS_AT] not in TransactionState.__members__.values():
                continue
            change = TransactionChange.from_record(b"\0\0\0\1t", value)
            assert change.transaction is not None
            states.add(change.transaction.state)
            raw, _ = decoder(TransactionLogValue, version)(value, 2)
            written = change.value()
            assert written is not None
            again = version.to_bytes(2) + encode(written.message, version)
            # Kafka has a field for the next epoch, and neither broker ever writes it; an id that is empty
            # has no partitions, and the samples have duplicates.
            if raw.next_producer_epoch == -1 and raw.transaction_status and _is_plain(raw):
                assert again == value
            read = TransactionChange.from_record(b"\0\0\0\1t", again).transaction
            assert read is not None
            assert read.state is change.transaction.state
    assert states >= {TransactionState.EMPTY, TransactionState.ONGOING}


def _is_plain(value: TransactionLogValue) -> bool:
    topics = [topic.topic for topic in value.transaction_partitions or ()]
    return (
        value.transaction_partitions is not None
        and topics == sorted(set(topics))
        and all(
            topic.partition_ids and topic.partition_ids == sorted(set(topic.partition_ids))
            for topic in value.transaction_partitions
        )
    )


def test_generation_change_reads_and_rewrites_classic_groups_of_kafka() -> None:
    settings = GroupSettings(lambda prefix: prefix)
    same = 0
    values = _values(classic_groups.GroupMetadataValue, classic_groups.CURRENT_VERSION)
    for value in values:
        change = classic_groups.GenerationChange.from_record(b"\0\2\0\1g", value)
        read = change.metadata
        assert read is not None
        if len({member.member_id for member in read.members}) < len(read.members):
            continue
        group = ClassicGroup("g", settings)
        change.apply(group)
        again = classic_groups.GenerationChange.of(group, read.current_state_timestamp)
        assert group.generation == read.generation
        same += again.to_record().value == value
    # The others have members without a protocol, a leader that is no member, or the like.
    assert same > len(values) / 2


def test_kafka_records_have_every_field_of_the_kafka_schemas() -> None:
    answers = ask_kafka_messages([("fields", schema.kafka) for schema in SCHEMAS])
    for schema, answer in zip(SCHEMAS, answers, strict=True):
        ours = sorted(map(sorted, field_names(schema.message, NAMES).values()))
        assert ours == sorted(map(sorted, json.loads(answer).values())), schema.kafka


def test_record_types_are_all_of_kafka_except_share_and_streams_groups() -> None:
    enumerations = [f"{GROUP}.CoordinatorRecordType", f"{TRANSACTION}.CoordinatorRecordType"]
    asked = [("types", name) for name in (*enumerations, f"{METADATA}.MetadataRecordType")]
    of_groups, of_transactions, of_metadata = (json.loads(answer) for answer in ask_kafka_messages(asked))
    known = {*OFFSET_KEY_TYPES, classic_groups.GenerationChange.key_type, *CHANGES}
    assert {int(number) for number in of_groups} == known | LEFT_ALONE.keys()
    assert LEFT_ALONE.items() <= {int(number): name for number, name in of_groups.items()}.items()
    assert of_transactions == {str(TransactionChange.key_type): "TRANSACTION_LOG"}
    assert of_metadata == {str(kind.api_key): kind.name for kind in RECORD_TYPES}
