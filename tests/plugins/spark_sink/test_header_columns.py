"""Headers of many records as columns: what they say is what a record at a time says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.records.made_batches import (
    Written,
    batches,
    block_of,
    framed,
    of_body,
    stretched,
    varint,
)
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.record import Record, encode_record
from tidelog.plugins.spark_sink.header_columns import header_columns

FIELDS = b"\x00\x00\x00" + varint(-1) + varint(-1)
"""A record at offset delta 0 without key and value, up to its headers."""

many_headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=6).map(
    tuple
)


def headers_of(block: RecordBlock) -> list[list[tuple[str, bytes | None]]]:
    """The headers of each record, by the columns."""
    found = header_columns(block)
    flat = [
        (
            block.data[key : key + key_size].decode(),
            None if value_size < 0 else block.data[value : value + value_size],
        )
        for key, key_size, value, value_size in zip(*(each.tolist() for each in found[1:]), strict=True)
    ]
    counts = found.counts.tolist()
    assert len(flat) == sum(counts)
    return [[flat.pop(0) for _ in range(count)] for count in counts]


@given(st.lists(batches(), max_size=4))
def test_header_columns_has_the_headers_of_each_record(written: list[Written]) -> None:
    block = block_of(*[each.batch for each in written])
    assert headers_of(block) == [list(record.headers) for each in written for record in each.records]


@given(st.lists(many_headers, min_size=30, max_size=90), st.booleans())
def test_header_columns_of_many_records(headers: list[tuple[tuple[str, bytes], ...]], select: bool) -> None:
    """So many that all of them are decoded at once, until few are left."""
    body = bytearray()
    for offset, each in enumerate(headers):
        encode_record(body, Record(offset, 0, b"k", b"v", each), 0, 0)
    block = block_of(of_body(body, len(headers), last_delta=len(headers)))
    expected: Sequence[list[tuple[str, bytes]]] = [list(each) for each in headers]
    if select:
        block, expected = block.select(block.offset % 2 == 0), expected[::2]
    assert headers_of(block) == expected


@pytest.mark.parametrize("size", range(1, 6))
def test_header_varints_may_have_more_bytes_than_they_need(size: int) -> None:
    header = stretched(1, size) + b"k" + stretched(2, size) + b"vv"
    record = framed(FIELDS + stretched(1, size) + header)
    for count in (1, 40):
        assert headers_of(block_of(of_body(record * count, count))) == [[("k", b"vv")]] * count
