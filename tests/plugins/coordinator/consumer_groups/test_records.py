"""Every change goes into a record of Kafka's schemas and comes back."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.plugins.coordinator.consumer_groups.group import ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.group_records import (
    ConsumerGroupChange,
    EpochChange,
    PartitionMetadataChange,
    RegexChange,
    TargetEpochChange,
)
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    CurrentAssignment,
    MemberProfile,
    MemberState,
)
from tidelog.plugins.coordinator.consumer_groups.member_records import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.consumer_groups.records import CHANGES, read_change
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord

TOPIC = bytes(range(16))
MEMBER = MemberProfile(
    client_id="c",
    client_host="/127.0.0.1",
    instance_id="i",
    rack_id="r",
    topic_names=frozenset(("b", "a")),
    topic_regex="x.*",
    rebalance_timeout_ms=30_000,
    server_assignor="range",
    classic=ClassicProtocol(45_000, (("range", b"\0\1"), ("sticky", b"\0\2"))),
)
CURRENT = CurrentAssignment(
    5, 4, MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: 3, 2: 5}}, {bytes(16): {1: 4}}
)
SAMPLES: list[tuple[ConsumerGroupChange, int]] = [
    (EpochChange("g", 7, -3), 3),
    (EpochChange("g", None), 3),
    (PartitionMetadataChange("g", is_present=False), 4),
    (MemberChange("g", "m", MEMBER), 5),
    (MemberChange("g", "m", MemberProfile()), 5),
    (MemberChange("g", "m", None), 5),
    (TargetEpochChange("g", 7, 1_700_000_000_000), 6),
    (TargetEpochChange("g", None), 6),
    (TargetChange("g", "m", {TOPIC: frozenset((2, 0))}), 7),
    (TargetChange("g", "m", {}), 7),
    (TargetChange("g", "m", None), 7),
    (CurrentChange("g", "m", CURRENT), 8),
    (CurrentChange("g", "m", None), 8),
    (RegexChange("g", "x.*", ResolvedRegex(frozenset(("b", "a")), 9, 1_000)), 16),
    (RegexChange("g", "x.*", None), 16),
]


@for_each(("change", "kind"), SAMPLES, ids=lambda value: type(value).__name__)
def test_read_change_returns_the_change_that_to_record_wrote(change: ConsumerGroupChange, kind: int) -> None:
    record = change.to_record()
    assert int.from_bytes(record.key[:2]) == kind
    assert read_change(record.key, record.value) == change


def test_to_record_of_epoch_change_and_target_change_writes_the_bytes_of_kafka() -> None:
    assert EpochChange("g", 7).to_record() == (
        bytes.fromhex("0003 0001 67"),
        bytes.fromhex("0000 00000007 00"),
    )
    target = TargetChange("g", "m", {TOPIC: frozenset((0, 1))}).to_record()
    assert target.key == bytes.fromhex("0007 0001 67 0001 6d")
    assert target.value == bytes.fromhex("0000 02") + TOPIC + bytes.fromhex("03 00000000 00000001 00 00")


def test_member_change_of_the_consumer_protocol_has_null_classic_member_metadata() -> None:
    member = MemberChange("g", "m", MemberProfile(client_id="c", rebalance_timeout_ms=5)).to_record()
    body = "0000 00 00 02 63 01 01 00 00000005 00"
    assert member.value == bytes.fromhex(body + "01 00 01 00")
    # What earlier versions of this broker wrote: to Kafka that would be a classic member without protocols.
    assert read_change(member.key, bytes.fromhex(body + "00")) == read_change(member.key, member.value)


def test_read_change_skips_fields_of_later_brokers() -> None:
    member = MemberChange("g", "m", MemberProfile())
    key, value = member.to_record()
    assert value is not None
    later = value[:-4] + bytes.fromhex("02 00 01 00 07 03 010203")
    assert read_change(key + b"more", later + b"more") == member


def test_read_change_recognizes_partition_metadata_written_before_kafka_4_1() -> None:
    record = PartitionMetadataChange("g", is_present=False).to_record()
    assert read_change(record.key, bytes.fromhex("0000 01 00")) == PartitionMetadataChange(
        "g", is_present=True
    )


def test_read_change_gives_partitions_without_epochs_the_member_epoch() -> None:
    key = CurrentChange("g", "m", None).to_record().key
    owned = "02" + TOPIC.hex() + "02 00000003 00"
    value = bytes.fromhex("0000 00000005 00000004 00" + owned + "01 00")
    expected = CurrentAssignment(5, 4, MemberState.STABLE, {TOPIC: {3: 5}}, {})
    assert read_change(key, value) == CurrentChange("g", "m", expected)


def test_read_change_maps_an_unrecognized_member_state_to_unknown() -> None:
    key = CurrentChange("g", "m", None).to_record().key
    change = read_change(key, bytes.fromhex("0000 00000005 00000004 63 01 01 00"))
    assert isinstance(change, CurrentChange)
    assert change.current is not None
    assert change.current.state is MemberState.UNKNOWN


@for_each("kind", sorted(CHANGES))
@for_each("value", [b"", b"\0\1", b"\xff\xff\xff"], ids=["none", "newer", "garbage"])
def test_read_change_raises_unreadable_record_that_names_the_record_type(kind: int, value: bytes) -> None:
    with pytest.raises(UnreadableRecord, match=f"type {kind}"):
        read_change(kind.to_bytes(2) + b"\0\x01g\0\x01m", value)
