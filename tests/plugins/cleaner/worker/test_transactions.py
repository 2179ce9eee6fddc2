"""Which batches belong to aborted transactions, and which markers end nothing any more."""

from __future__ import annotations

import pytest

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import BatchHeader, parse_header, stamp_offset
from tidelog.kernel.records.control import EndMarker, marker_batch
from tidelog.kernel.seams.storage import AbortedTransaction
from tidelog.kernel.testing import make_batch
from tidelog.plugins.cleaner.worker.transactions import SeenTransactions

ONE, OTHER = 1, 2


def data(producer_id: int, offset: int, *, count: int = 1, transactional: bool = True) -> BatchHeader:
    """The header of a batch with records."""
    batch = make_batch(
        [b"v"] * count, offset, producer_id=producer_id, producer_epoch=0, transactional=transactional
    )
    return parse_header(batch)


def is_spent(seen: SeenTransactions, producer_id: int, offset: int, *, commit: bool) -> bool:
    """Whether a marker ends nothing any more."""
    batch, _ = marker_batch(producer_id, 0, EndMarker(commit, 0), 0)
    stamp_offset(batch, offset, 0)
    return seen.is_spent(batch, parse_header(batch))


def aborted(producer_id: int, first_offset: int, last_offset: int) -> AbortedTransaction:
    """An entry of the transaction index."""
    return AbortedTransaction(producer_id, first_offset, last_offset, first_offset)


def test_is_aborted_from_the_first_offset_to_the_marker() -> None:
    seen = SeenTransactions([aborted(ONE, 10, 20)])
    assert not seen.is_aborted(data(ONE, 5))
    assert not is_spent(seen, ONE, 6, commit=True)
    assert seen.is_aborted(data(ONE, 10))
    assert not seen.is_aborted(data(OTHER, 11))
    assert not seen.is_aborted(data(ONE, 12, transactional=False))
    assert not is_spent(seen, ONE, 20, commit=False)
    assert not seen.is_aborted(data(ONE, 21))
    assert seen.take_left() == [aborted(ONE, 10, 20)]
    assert seen.take_left() == []


def test_is_aborted_counts_the_last_offset_of_a_batch() -> None:
    """A batch whose first records are gone may begin below the transaction's first offset."""
    seen = SeenTransactions([aborted(ONE, 12, 20)])
    assert seen.is_aborted(data(ONE, 10, count=3))
    assert not SeenTransactions([aborted(ONE, 12, 20)]).is_aborted(data(ONE, 10, count=2))


def test_is_aborted_tells_interleaved_producers_apart() -> None:
    entries = [aborted(OTHER, 2, 5), aborted(ONE, 1, 7), aborted(OTHER, 6, 9)]
    seen = SeenTransactions(entries)
    assert [seen.is_aborted(data(producer, offset)) for producer, offset in [(ONE, 1), (OTHER, 2), (ONE, 3)]]
    assert not is_spent(seen, OTHER, 5, commit=False)
    assert seen.is_aborted(data(OTHER, 6))
    assert not is_spent(seen, ONE, 7, commit=False)
    assert not seen.is_aborted(data(ONE, 8))
    assert not is_spent(seen, OTHER, 9, commit=False)
    assert not is_spent(seen, ONE, 10, commit=True)
    assert seen.take_left() == entries


@pytest.mark.parametrize("commit", [True, False])
def test_is_spent_without_a_batch_of_the_transaction(commit: bool) -> None:
    seen = SeenTransactions([] if commit else [aborted(ONE, 3, 9)])
    assert not seen.is_aborted(data(OTHER, 3))
    assert is_spent(seen, ONE, 9, commit=commit)
    assert not is_spent(seen, OTHER, 10, commit=True)
    assert is_spent(seen, OTHER, 11, commit=True), "a batch counts for one marker"
    assert seen.take_left() == []


def test_is_spent_counts_batches_of_one_aborted_transaction_for_its_marker_alone() -> None:
    seen = SeenTransactions([aborted(ONE, 3, 5), aborted(ONE, 6, 9)])
    assert seen.is_aborted(data(ONE, 3))
    assert not is_spent(seen, ONE, 5, commit=False)
    assert is_spent(seen, ONE, 9, commit=False)
    assert seen.take_left() == [aborted(ONE, 3, 5)]


def test_is_spent_counts_batches_without_records() -> None:
    seen = SeenTransactions([])
    empty = make_batch([], 3, producer_id=ONE, transactional=True, last_offset_delta=2)
    assert not seen.is_aborted(parse_header(empty))
    assert not is_spent(seen, ONE, 9, commit=True)


def test_is_spent_of_a_marker_without_its_record() -> None:
    empty = make_batch([], 3, producer_id=ONE, transactional=True, control=True, last_offset_delta=0)
    assert SeenTransactions([]).is_spent(empty, parse_header(empty))


def test_is_spent_keeps_control_records_of_other_types() -> None:
    other = make_batch([b"\0" * 6], keys=[b"\0\0\0\5"], producer_id=ONE, control=True, transactional=True)
    assert not SeenTransactions([]).is_spent(other, parse_header(other))


def test_is_spent_refuses_a_control_batch_without_a_type() -> None:
    bad = make_batch([b""], keys=[b"\0"], producer_id=ONE, control=True, transactional=True)
    with pytest.raises(CorruptBatch):
        SeenTransactions([]).is_spent(bad, parse_header(bad))
