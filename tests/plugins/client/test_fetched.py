"""Batches that readers of committed data get, out of those in a log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records import BatchHeader, parse_header, stamp_offset
from tidelog.kernel.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, pack_batch
from tidelog.kernel.records.control import EndMarker, marker_batch
from tidelog.kernel.records.record import Record, encode_record
from tidelog.plugins.client.fetched import committed_batches

Batch = tuple[BatchHeader, bytearray]


def data_batch(offset: int, producer_id: int = -1) -> Batch:
    records = bytearray()
    encode_record(records, Record(offset, 0, None, b"v"), offset, 0)
    attributes = 0 if producer_id < 0 else TRANSACTIONAL_BIT
    header = BatchHeader(offset, 0, 0, 2, 0, attributes, 0, 0, 0, producer_id, 0, 0, 1)
    return parsed(pack_batch(header, records))


def parsed(batch: bytearray) -> Batch:
    return parse_header(batch), batch


def marker(offset: int, producer_id: int, *, commit: bool) -> Batch:
    batch, _ = marker_batch(producer_id, 0, EndMarker(commit, 0), 0)
    stamp_offset(batch, offset, 0)
    return parsed(batch)


def offsets(batches: Iterator[Batch]) -> list[int]:
    return [header.base_offset for header, _ in batches]


def test_committed_batches_leave_out_markers_and_aborted_transactions() -> None:
    log = [
        data_batch(0, 1),
        data_batch(1, 2),
        data_batch(2),
        marker(3, 1, commit=False),
        data_batch(4, 1),
        marker(5, 2, commit=True),
        marker(6, 1, commit=True),
        data_batch(7, 2),
        marker(8, 2, commit=False),
    ]
    assert offsets(committed_batches(log, [(2, 7), (1, 0)])) == [1, 2, 4]
    assert offsets(committed_batches(log)) == [0, 1, 2, 4, 7]


def test_committed_batches_of_an_aborted_transaction_stay_out_until_its_own_marker() -> None:
    log = [marker(9, 1, commit=True), data_batch(10, 1), marker(11, 2, commit=False), data_batch(12, 1)]
    assert offsets(committed_batches(log, [(1, 3)])) == []


def test_committed_batches_keep_what_is_not_transactional_of_a_producer_that_aborts() -> None:
    header, batch = data_batch(5, 1)
    plain = header._replace(attributes=0)
    assert offsets(committed_batches([(plain, batch)], [(1, 0)])) == [5]


def test_committed_batches_raise_corrupt_batch_for_a_malformed_marker() -> None:
    header, _ = marker(5, 1, commit=False)
    records = bytearray()
    encode_record(records, Record(5, 0, b"\0", None), 5, 0)
    malformed = header._replace(attributes=CONTROL_BIT | TRANSACTIONAL_BIT)
    with pytest.raises(CorruptBatch, match="key of 1 bytes"):
        list(committed_batches([parsed(pack_batch(malformed, records))], [(1, 5)]))


@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "commit", "abort"])), max_size=30),
    start=st.integers(0, 30),
)
def test_committed_batches_are_those_whose_transaction_commits(
    steps: list[tuple[int, str]], start: int
) -> None:
    log: list[Batch] = []
    began: dict[int, int] = {}
    written: dict[int, list[int]] = {}
    aborted: list[tuple[int, int, int]] = []
    expected: list[int] = []
    for offset, (producer_id, step) in enumerate(steps):
        if step == "write":
            log.append(data_batch(offset, producer_id))
            began.setdefault(producer_id, offset)
            written.setdefault(producer_id, []).append(offset)
        else:
            log.append(marker(offset, producer_id, commit=step == "commit"))
            first, offsets_of = began.pop(producer_id, None), written.pop(producer_id, [])
            if step == "commit":
                expected += offsets_of
            elif first is not None:
                aborted.append((producer_id, first, offset))
    stable = min(began.values(), default=len(steps))
    read = [(header, batch) for header, batch in log if start <= header.base_offset < stable]
    overlapping = [(producer_id, first) for producer_id, first, last in aborted if last >= start]
    assert offsets(committed_batches(read, overlapping)) == sorted(
        offset for offset in expected if start <= offset < stable
    )
