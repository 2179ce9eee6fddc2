"""Records of classic groups: the bytes, and what other versions wrote."""

from __future__ import annotations

import pytest

from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.records import (
    GenerationChange,
    GroupMetadataValue,
    StoredMember,
)
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord
from tidelog.plugins.schema.compiled import encode

VALUE = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="m",
    current_state_timestamp=1_700_000_000_000,
    members=[
        StoredMember(
            member_id="m",
            group_instance_id="i",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=b"sub",
            assignment=b"mine",
        )
    ],
)
BYTES = bytes.fromhex(
    "0003"  # version
    "0008636f6e73756d6572"  # protocol type
    "00000003"  # generation
    "000572616e6765"  # protocol
    "00016d"  # leader
    "0000018bcfe56800"  # since when
    "00000001"  # members
    "00016d"
    "000169"
    "000163"
    "000a2f3132372e302e302e31"
    "000493e0"
    "0000afc8"
    "00000003737562"
    "000000046d696e65"
)


KEY = bytes.fromhex("0002000567726f7570")


def test_to_record_is_laid_out_as_kafka_lays_it_out() -> None:
    assert GenerationChange("group", VALUE).to_record() == (KEY, BYTES)
    assert GenerationChange("group", None).to_record() == (KEY, None)


def test_from_record_returns_what_was_written() -> None:
    assert GenerationChange.from_record(KEY, BYTES) == GenerationChange("group", VALUE)
    assert GenerationChange.from_record(KEY, None) == GenerationChange("group", None)


@pytest.mark.parametrize("version", range(5))
def test_from_record_reads_every_version(version: int) -> None:
    change = GenerationChange.from_record(KEY, version.to_bytes(2, "big") + encode(VALUE, version))
    assert change.metadata is not None
    (member,) = change.metadata.members
    assert (change.metadata.generation, change.metadata.protocol, member.assignment) == (3, "range", b"mine")
    assert member.rebalance_timeout == (300_000 if version >= 1 else -1)
    assert change.timestamp_ms == (1_700_000_000_000 if version >= 2 else None)
    assert member.group_instance_id == ("i" if version >= 3 else None)


def test_from_record_skips_what_later_brokers_add() -> None:
    assert GenerationChange.from_record(KEY, BYTES + b"more") == GenerationChange("group", VALUE)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\5" + BYTES[2:], b"\xff\xff" + BYTES[2:], BYTES[:-1]])
def test_from_record_refuses_malformed_values(data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        GenerationChange.from_record(KEY, data)


@pytest.mark.parametrize("key", [b"\0\2", b"\0\2\0\5grou", b"\0\2\0\1gx"])
def test_from_record_refuses_malformed_keys(key: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        GenerationChange.from_record(key, None)


def test_apply_makes_a_group_the_one_that_of_described() -> None:
    group = ClassicGroup("group", GroupSettings(lambda prefix: prefix))
    GenerationChange("group", VALUE).apply(group)
    assert group.state is GroupState.STABLE
    assert (group.members["m"].is_static, group.members.by_instance) == (True, {"i": "m"})
    assert GenerationChange.of(group, 1_700_000_000_000) == GenerationChange("group", VALUE)
    moved = GenerationChange.of(group, 0, {"m": b"other"}).metadata
    assert moved is not None
    assert [member.assignment for member in moved.members] == [b"other"]


def test_apply_of_a_tombstone_ends_a_group() -> None:
    group = ClassicGroup("group", GroupSettings(lambda prefix: prefix))
    GenerationChange("group", None).apply(group)
    assert group.state is GroupState.DEAD
