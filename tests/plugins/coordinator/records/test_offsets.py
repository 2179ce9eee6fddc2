"""Committed offsets in Kafka's own bytes: every version is read, two are written."""

from __future__ import annotations

import pytest

from tidelog.kernel.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.records.offsets import (
    offset_key,
    offset_value,
    read_offset_key,
    read_offset_value,
)
from tidelog.plugins.protocol_kafka.codecs import DecodeError

TOPIC_ID = bytes(range(16))
OFFSET, EPOCH, TIME, EXPIRY = (
    "00000000000000ff",
    "00000007",
    "0000018bcfe56800",
    "0000018bcfe56805",
)
TIME_MS = 0x18BCFE56800


def test_the_key() -> None:
    key = offset_key("gr", "top", 258)
    assert key.hex() == "0001" + "0002" + b"gr".hex() + "0003" + b"top".hex() + "00000102"
    read = read_offset_key(key)
    assert (read.group, read.topic, read.partition) == ("gr", "top", 258)
    assert read_offset_key(b"\0\0" + key[2:]) == read


@pytest.mark.parametrize(
    ("encoded", "committed"),
    [
        (f"0000{OFFSET}0001{b'm'.hex()}{TIME}", CommittedOffset(255, -1, "m", TIME_MS)),
        (f"0001{OFFSET}0001{b'm'.hex()}{TIME}{EXPIRY}", CommittedOffset(255, -1, "m", TIME_MS, TIME_MS + 5)),
        (f"0002{OFFSET}0000{TIME}", CommittedOffset(255, -1, "", TIME_MS)),
        (f"0003{OFFSET}{EPOCH}0001{b'm'.hex()}{TIME}", CommittedOffset(255, 7, "m", TIME_MS)),
        (f"0004{OFFSET}{EPOCH}02{b'm'.hex()}{TIME}00", CommittedOffset(255, 7, "m", TIME_MS)),
        (
            f"0004{OFFSET}{EPOCH}01{TIME}010010{TOPIC_ID.hex()}",
            CommittedOffset(255, 7, "", TIME_MS, -1, TOPIC_ID),
        ),
    ],
)
def test_every_version_is_read(encoded: str, committed: CommittedOffset) -> None:
    value = bytes.fromhex(encoded)
    assert read_offset_value(value) == committed
    if value[1] in (1, 4):
        assert offset_value(committed) == value


@pytest.mark.parametrize("value", [b"", b"\0\4", b"\0\5" + bytes(30), b"\xff\xff" + bytes(30)])
def test_what_is_malformed_is_told(value: bytes) -> None:
    with pytest.raises(DecodeError):
        read_offset_value(value)
