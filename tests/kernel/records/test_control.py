"""Control batches byte for byte as Apache Kafka writes them, and what is made of others."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import parse_header, stamp_offset, verify_crc
from tidelog.kernel.records.control import EndMarker, decode_marker, marker_batch
from tidelog.kernel.testing import make_batch


@pytest.mark.parametrize("commit", [True, False])
def test_marker_batch_has_the_bytes_that_kafka_writes(commit: bool) -> None:
    batch, header = marker_batch(4711, 5, EndMarker(commit, 9), 1_700_000_000_000)
    stamp_offset(batch, 42, 3)
    assert (header.base_offset, header.leader_epoch) == (0, -1), "not stamped yet"
    assert bytes(batch[:8]) == (42).to_bytes(8, "big")
    found = parse_header(batch)
    assert verify_crc(batch, found)
    assert found.size == len(batch) == 61 + 17
    assert (found.attributes, found.last_offset_delta, found.record_count) == (0x30, 0, 1)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (4711, 5, -1)
    assert found.base_timestamp == found.max_timestamp == header.max_timestamp == 1_700_000_000_000
    # length 16, attributes, both deltas 0, key of 4 bytes, value of 6 bytes, no headers
    key = "0000" + ("0001" if commit else "0000")
    assert batch[61:].hex() == "20000000" + "08" + key + "0c" + "0000" + "00000009" + "00"


@for_each("commit", [True, False])
@for_each("epoch", [0, 1, 2**31 - 1])
def test_decode_marker_reads_back_what_marker_batch_wrote(commit: bool, epoch: int) -> None:
    marker = EndMarker(commit, epoch)
    batch, _ = marker_batch(1, 0, marker, 0)
    assert decode_marker(batch, parse_header(batch)) == marker


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"\0\0\0\1", b"\0\0\0\0\0\7", EndMarker(True, 7)),
        (b"\0\5\0\0and more", b"\0\7\0\0\0\7and more", EndMarker(False, 7)),
        (b"\0\0\0\2", b"", None),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\7", None),
    ],
)
def test_decode_marker_reads_newer_versions_and_ignores_other_types(
    key: bytes, value: bytes, expected: EndMarker | None
) -> None:
    batch = make_batch([value], keys=[key], producer_id=1, producer_epoch=0, transactional=True, control=True)
    assert decode_marker(batch, parse_header(batch)) == expected


def test_decode_marker_of_a_batch_emptied_by_compaction_is_none() -> None:
    batch = make_batch([], last_offset_delta=0, producer_id=1, transactional=True, control=True)
    assert decode_marker(batch, parse_header(batch)) is None


@for_each(
    ("key", "value", "error"),
    [
        (b"\0\0\0", b"\0\0\0\0\0\7", "offset 0 has a key of 3 bytes"),
        (b"\0\0\0\1", b"\0\0\0", "offset 0 has a value of 3 bytes"),
        (b"\0\0\0\1", b"\0\0\0\0\0", "offset 0 has a value of 5 bytes"),
        (None, b"\0\0\0\0\0\7", "offset 0 has a key of 0 bytes"),
        (b"\0\0\0\1", None, "offset 0 has a value of 0 bytes"),
        (None, None, "offset 0 has a key of 0 bytes"),
    ],
)
def test_decode_marker_refuses_a_key_or_value_that_is_too_short(
    key: bytes | None, value: bytes | None, error: str
) -> None:
    batch = make_batch([value], keys=[key], producer_id=1, transactional=True, control=True)
    with pytest.raises(CorruptBatch, match=error):
        decode_marker(batch, parse_header(batch))
