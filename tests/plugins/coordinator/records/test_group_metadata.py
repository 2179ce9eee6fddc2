"""Records of classic groups: the bytes, and what other versions wrote."""

from __future__ import annotations

import pytest

from tidelog.plugins.coordinator.records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
    group_metadata_key,
    group_metadata_value,
    read_group_metadata_key,
    read_group_metadata_value,
)
from tidelog.plugins.protocol_kafka.codecs.compiled import encode
from tidelog.plugins.protocol_kafka.codecs.errors import DecodeError

VALUE = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="m",
    current_state_timestamp=1_700_000_000_000,
    members=[
        MemberMetadata(
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


def test_the_key() -> None:
    key = bytes.fromhex("0002000567726f7570")
    assert group_metadata_key("group") == key
    assert read_group_metadata_key(key) == "group"


def test_the_value() -> None:
    assert group_metadata_value(VALUE) == BYTES
    assert read_group_metadata_value(BYTES) == VALUE


@pytest.mark.parametrize("version", range(5))
def test_values_of_every_version(version: int) -> None:
    read = read_group_metadata_value(version.to_bytes(2, "big") + encode(VALUE, version))
    (member,) = read.members
    assert (read.generation, read.protocol, member.assignment) == (3, "range", b"mine")
    assert member.rebalance_timeout == (300_000 if version >= 1 else -1)
    assert read.current_state_timestamp == (1_700_000_000_000 if version >= 2 else -1)
    assert member.group_instance_id == ("i" if version >= 3 else None)


def test_what_comes_behind_is_for_later_brokers() -> None:
    assert read_group_metadata_value(BYTES + b"more") == VALUE


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\5" + BYTES[2:], b"\xff\xff" + BYTES[2:], BYTES[:-1]])
def test_values_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_group_metadata_value(data)


@pytest.mark.parametrize("key", [b"\0\2", b"\0\2\0\5grou", b"\0\2\0\1gx"])
def test_keys_that_cannot_be_read(key: bytes) -> None:
    with pytest.raises(DecodeError):
        read_group_metadata_key(key)
