"""Headers of many batches as columns: equal to headers read one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.records.made_batches import placed
from tidelog.kernel.errors import CorruptBatch, UnsupportedMessageFormat
from tidelog.kernel.records.batch import MAGIC_AT, BatchHeader, Buffer, pack_batch, parse_header
from tidelog.kernel.records.placed import OUTLINE_BYTES, PlacedBatches, pack_batches


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


HEADERS = st.builds(
    BatchHeader,
    # Sums with the delta of the last offset stay within 64 bits.
    st.integers(-(2**63) + 2**31, 2**63 - 2**31),
    st.just(0),
    integers(32),
    st.just(2),
    st.just(0),
    integers(16),
    integers(32),
    integers(64),
    integers(64),
    integers(64),
    integers(16),
    integers(32),
    integers(32),
)
BATCHES = st.lists(st.tuples(HEADERS, st.binary(max_size=40)), max_size=5)


def packed(batches: list[tuple[BatchHeader, bytes]]) -> list[bytes]:
    return [bytes(pack_batch(header, records)) for header, records in batches]


def read(batches: list[bytes]) -> tuple[bytes, PlacedBatches]:
    """The bytes of batches that lie apart, and what is read of them."""
    content, found = placed(batches, b"--")
    return content, PlacedBatches.read(content, [each.position for each in found])


@given(BATCHES)
def test_placed_batches_are_those_that_are_read_one_by_one(batches: list[tuple[BatchHeader, bytes]]) -> None:
    content, expected = placed(packed(batches), b"--")
    found = PlacedBatches.read(content, [each.position for each in expected])
    assert list(found) == list(PlacedBatches.of(expected)) == expected
    assert PlacedBatches.of(found) is found
    for name in ("base_offset", "last_offset", "size", "attributes", "record_count", "codec"):
        column = getattr(found, name)
        assert column.tolist() == [getattr(each.header, name) for each in expected]
        assert column.dtype == np.int64
    for field in BatchHeader._fields:
        assert found.column(field).tolist() == [getattr(each.header, field) for each in expected]


@given(BATCHES, st.data())
def test_select_and_slices_are_as_those_of_a_list(
    batches: list[tuple[BatchHeader, bytes]], data: st.DataObject
) -> None:
    _, found = read(packed(batches))
    mask = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    chosen = [each for each, wanted in zip(found, mask, strict=True) if wanted]
    assert list(found.select(np.array(mask, np.bool_))) == chosen
    assert list(found.select(np.flatnonzero(mask))) == chosen
    first = data.draw(st.integers(0, len(found)))
    assert list(found[first:]) == list(found)[first:]
    assert found[first:].last_offset.tolist() == found.last_offset.tolist()[first:]
    assert len(found[:first].outlines()) == first * OUTLINE_BYTES


@given(BATCHES)
def test_following_batches_lie_one_behind_the_other(batches: list[tuple[BatchHeader, bytes]]) -> None:
    whole = packed(batches)
    _, expected = placed(whole)
    outlines = read(whole)[1].outlines()
    for begin in (0, 5):
        found = PlacedBatches.following(outlines, begin)
        assert found.position.tolist() == [position + begin for _, position in expected]
        for name in ("base_offset", "last_offset", "size", "attributes", "record_count"):
            assert getattr(found, name).tolist() == [getattr(header, name) for header, _ in expected]


@given(BATCHES, st.data())
def test_pack_batches_are_those_that_are_packed_one_by_one(
    batches: list[tuple[BatchHeader, bytes]], data: st.DataObject
) -> None:
    _, found = read(packed(batches))
    counts = data.draw(st.lists(integers(32), min_size=len(found), max_size=len(found)))
    records: list[Buffer] = [data.draw(st.binary(max_size=40)) for _ in batches]
    assert pack_batches(found.headers(record_count=np.array(counts, np.int64)), records) == [
        bytes(pack_batch(header._replace(record_count=count), of_batch))
        for (header, _), count, of_batch in zip(batches, counts, records, strict=True)
    ]
    assert found.record_count.tolist() == [header.record_count for header, _ in batches]


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=40)), min_size=1, max_size=5), st.data())
def test_check_crcs_finds_a_batch_of_which_a_byte_is_changed(
    batches: list[tuple[BatchHeader, bytes]], data: st.DataObject
) -> None:
    content, found = read(packed(batches))
    found.check_crcs(content)
    header, position = data.draw(st.sampled_from(list(found)))
    at = position + data.draw(st.sampled_from([17, 21, 60, header.size - 1]))
    changed = bytearray(content)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    # The header is that of the changed bytes, as in a log that is damaged.
    damaged = PlacedBatches.read(bytes(changed), found.position.tolist())
    with pytest.raises(CorruptBatch, match=f"the batch at offset {header.base_offset} has a wrong checksum"):
        damaged.check_crcs(bytes(changed))


@pytest.mark.parametrize(("magic", "error"), [(0, UnsupportedMessageFormat), (3, CorruptBatch)])
def test_read_refuses_other_magic_values(magic: int, error: type[Exception]) -> None:
    header = BatchHeader(7, 0, 1, 2, 0, 0, 2, 10, 12, -1, -1, -1, 3)
    first, second = packed([(header, b"abc"), (header._replace(base_offset=10), b"de")])
    content = bytearray(first + second)
    assert [each.header for each in PlacedBatches.read(bytes(content), [0, len(first)])] == [
        parse_header(first),
        parse_header(second),
    ]
    content[len(first) + MAGIC_AT] = magic
    with pytest.raises(error, match=f"message format {magic}"):
        PlacedBatches.read(bytes(content), [0, len(first)])
    assert not PlacedBatches.read(bytes(content), [])
