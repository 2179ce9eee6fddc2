"""Committed offsets in Kafka's own bytes: every version is read, two are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.records.offsets import (
    OffsetCommitValue,
    check_offset_value,
    offset_key,
    offset_value,
    read_offset_key,
    read_offset_value,
)
from tidelog.plugins.protocol_kafka.codecs import DecodeError, encode
from tidelog.plugins.protocol_kafka.codecs.types import ZERO_UUID

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


def test_more_behind_a_value_is_for_later_brokers() -> None:
    value = offset_value(CommittedOffset(255, 7, "m", TIME_MS))
    assert read_offset_value(value + b"more") == read_offset_value(value)
    assert read_offset_value(value[:-1] + b"\1\x09\2ab") == read_offset_value(value)


@given(
    st.sampled_from(range(5)),
    st.text(max_size=200),
    st.binary(min_size=16, max_size=16) | st.just(ZERO_UUID),
    st.integers(-3, 3),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=2),
)
def test_the_quick_check_takes_what_can_be_read(
    version: int, metadata: str, topic_id: bytes, cut: int, spoiled: list[tuple[int, int]]
) -> None:
    value = OffsetCommitValue(offset=1, metadata=metadata, commit_timestamp=2, topic_id=topic_id)
    encoded = bytearray(version.to_bytes(2) + encode(value, version))
    for at, byte in spoiled:
        encoded[at % len(encoded)] = byte
    data = bytes(encoded[:cut] if cut < 0 else encoded + bytes(cut))
    assert _refusal(check_offset_value, data) in (None, _refusal(read_offset_value, data))
    if cut < 0 and not spoiled:
        assert _refusal(check_offset_value, data) is not None
    if _refusal(check_offset_value, data) is None and _refusal(read_offset_value, data) is not None:
        assert "UTF-8" in str(_refusal(read_offset_value, data))


def _refusal(read: Callable[[bytes], object], data: bytes) -> str | None:
    try:
        read(data)
    except DecodeError as error:
        return str(error)
    return None
