"""Every change goes into a record of Kafka's schemas and comes back."""

from __future__ import annotations

import pytest

from tidelog.plugins.coordinator.consumer_groups import changes
from tidelog.plugins.coordinator.consumer_groups.changes import Change, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.key_types import KEY_TYPES, key_type
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from tidelog.plugins.coordinator.consumer_groups.recording import to_record
from tidelog.plugins.coordinator.consumer_groups.restoring import from_record
from tidelog.plugins.coordinator.records.unreadable import UnreadableRecord

TOPIC = bytes(range(16))
MEMBER = MemberMetadata(
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
CHANGES: list[tuple[Change, int]] = [
    (changes.EpochSet(7, -3), 3),
    (changes.GroupRemoved(), 3),
    (changes.PartitionMetadataRemoved(), 4),
    (changes.MemberSet("m", MEMBER), 5),
    (changes.MemberSet("m", MemberMetadata()), 5),
    (changes.MemberRemoved("m"), 5),
    (changes.AssignmentEpochSet(7, 1_700_000_000_000), 6),
    (changes.AssignmentEpochRemoved(), 6),
    (changes.TargetSet("m", {TOPIC: frozenset((2, 0))}), 7),
    (changes.TargetSet("m", {}), 7),
    (changes.TargetRemoved("m"), 7),
    (changes.CurrentSet("m", CURRENT), 8),
    (changes.CurrentRemoved("m"), 8),
    (changes.RegexSet("x.*", ResolvedRegex(frozenset(("b", "a")), 9, 1_000)), 16),
    (changes.RegexRemoved("x.*"), 16),
]


@pytest.mark.parametrize(("change", "kind"), CHANGES, ids=lambda value: type(value).__name__)
def test_a_change_comes_back_as_it_was(change: Change, kind: int) -> None:
    record = to_record("group", change)
    assert key_type(record.key) == kind
    assert from_record(record.key, record.value) == ("group", change)


def test_records_are_laid_out_as_kafka_lays_them_out() -> None:
    assert to_record("g", changes.EpochSet(7, 0)) == (
        bytes.fromhex("0003 0001 67"),
        bytes.fromhex("0000 00000007 00"),
    )
    target = to_record("g", changes.TargetSet("m", {TOPIC: frozenset((0, 1))}))
    assert target.key == bytes.fromhex("0007 0001 67 0001 6d")
    assert target.value == bytes.fromhex("0000 02") + TOPIC + bytes.fromhex("03 00000000 00000001 00 00")


def test_a_member_of_the_consumer_protocol_has_null_as_its_classic_metadata() -> None:
    member = to_record("g", changes.MemberSet("m", MemberMetadata(client_id="c", rebalance_timeout_ms=5)))
    body = "0000 00 00 02 63 01 01 00 00000005 00"
    assert member.value == bytes.fromhex(body + "01 00 01 00")
    # What earlier versions of this broker wrote: to Kafka that would be a classic member without protocols.
    assert from_record(member.key, bytes.fromhex(body + "00")) == from_record(member.key, member.value)


def test_fields_of_later_brokers_are_skipped() -> None:
    member = changes.MemberSet("m", MemberMetadata())
    key, value = to_record("g", member)
    assert value is not None
    later = value[:-4] + bytes.fromhex("02 00 01 00 07 03 010203")
    assert from_record(key + b"more", later + b"more") == ("g", member)


def test_what_kafka_wrote_before_version_4_1_is_noticed() -> None:
    record = to_record("g", changes.PartitionMetadataRemoved())
    assert from_record(record.key, bytes.fromhex("0000 01 00")) == ("g", changes.PartitionMetadataSet())


def test_partitions_without_epochs_have_the_members() -> None:
    key = to_record("g", changes.CurrentRemoved("m")).key
    owned = "02" + TOPIC.hex() + "02 00000003 00"
    value = bytes.fromhex("0000 00000005 00000004 00" + owned + "01 00")
    expected = CurrentAssignment(5, 4, MemberState.STABLE, {TOPIC: {3: 5}}, {})
    assert from_record(key, value) == ("g", changes.CurrentSet("m", expected))


def test_a_state_of_the_future_is_unknown() -> None:
    key = to_record("g", changes.CurrentRemoved("m")).key
    _, change = from_record(key, bytes.fromhex("0000 00000005 00000004 63 01 01 00"))
    assert isinstance(change, changes.CurrentSet)
    assert change.current.state is MemberState.UNKNOWN


@pytest.mark.parametrize("kind", sorted(KEY_TYPES))
@pytest.mark.parametrize("value", [b"", b"\0\1", b"\xff\xff\xff"], ids=["none", "newer", "garbage"])
def test_what_cannot_be_read_is_told(kind: int, value: bytes) -> None:
    with pytest.raises(UnreadableRecord, match=f"type {kind}"):
        from_record(kind.to_bytes(2) + b"\0\x01g\0\x01m", value)
