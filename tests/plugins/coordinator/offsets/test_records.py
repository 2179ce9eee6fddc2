"""`OffsetChange`: Kafka's own bytes, of which every version is read and two are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.records import OffsetChange, OffsetCommitValue
from tidelog.plugins.schema import DecodeError, encode
from tidelog.plugins.schema.types import ZERO_UUID

TOPIC_ID = bytes(range(16))
OFFSET, EPOCH, TIME, EXPIRY = (
    "00000000000000ff",
    "00000007",
    "0000018bcfe56800",
    "0000018bcfe56805",
)
TIME_MS = 0x18BCFE56800


def value_of(committed: CommittedOffset) -> bytes:
    """The value that is written."""
    value = OffsetChange("g", ("t", 0), committed).to_record().value
    assert value is not None
    return value


def test_to_record_writes_a_key_of_type_1() -> None:
    key, value = OffsetChange("gr", ("top", 258), None).to_record()
    assert key.hex() == "0001" + "0002" + b"gr".hex() + "0003" + b"top".hex() + "00000102"
    assert value is None


@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 2**31 - 1))
def test_to_record_encodes_the_key_as_the_codec_does(group: str, topic: str, partition: int) -> None:
    change = OffsetChange(group, (topic, partition), CommittedOffset(255, 7, "m", TIME_MS))
    assert change.to_record() == super(OffsetChange, change).to_record()


@pytest.mark.parametrize("key_type", [0, 1])
def test_from_record_reads_both_types_of_keys(key_type: int) -> None:
    committed = CommittedOffset(255, 7, "m", TIME_MS)
    key, value = OffsetChange("gr", ("top", 258), committed).to_record()
    read = OffsetChange.from_record(key_type.to_bytes(2) + key[2:], value)
    assert (read.group_id, read.topic_partition, read.committed) == ("gr", ("top", 258), committed)
    assert OffsetChange.from_record(key, None).committed is None


@for_each(
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
def test_read_value_of_every_version(encoded: str, committed: CommittedOffset) -> None:
    value = bytes.fromhex(encoded)
    assert OffsetChange.read_value(value) == committed
    if value[1] in (1, 4):
        assert value_of(committed) == value


@pytest.mark.parametrize("value", [b"", b"\0\4", b"\0\5" + bytes(30), b"\xff\xff" + bytes(30)])
def test_read_value_refuses_what_is_malformed(value: bytes) -> None:
    with pytest.raises(DecodeError):
        OffsetChange.read_value(value)


def test_read_value_skips_what_later_brokers_add() -> None:
    value = value_of(CommittedOffset(255, 7, "m", TIME_MS))
    assert OffsetChange.read_value(value + b"more") == OffsetChange.read_value(value)
    assert OffsetChange.read_value(value[:-1] + b"\1\x09\2ab") == OffsetChange.read_value(value)


@given(
    st.sampled_from(range(5)),
    st.text(max_size=200),
    st.binary(min_size=16, max_size=16) | st.just(ZERO_UUID),
    st.integers(-3, 3),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=2),
)
def test_check_value_takes_what_can_be_read(
    version: int, metadata: str, topic_id: bytes, cut: int, spoiled: list[tuple[int, int]]
) -> None:
    value = OffsetCommitValue(offset=1, metadata=metadata, commit_timestamp=2, topic_id=topic_id)
    encoded = bytearray(version.to_bytes(2) + encode(value, version))
    for at, byte in spoiled:
        encoded[at % len(encoded)] = byte
    data = bytes(encoded[:cut] if cut < 0 else encoded + bytes(cut))
    checked, read = _refusal(OffsetChange.check_value, data), _refusal(OffsetChange.read_value, data)
    assert checked in (None, read)
    if cut < 0 and not spoiled:
        assert checked is not None
    if checked is None and read is not None:
        assert "UTF-8" in read


def _refusal(read: Callable[[bytes], object], data: bytes) -> str | None:
    try:
        read(data)
    except DecodeError as error:
        return str(error)
    return None
