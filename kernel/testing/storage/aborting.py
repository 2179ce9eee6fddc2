"""Conformance: aborted transactions are remembered as long as the batches that their markers are in."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tidelog.kernel.seams.storage import AbortedTransaction, PartitionStore, WouldBlock
from tidelog.kernel.testing.storage.harness import StorageHarness, append_many, read_bytes

SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100}


def aborted_in(store: PartitionStore, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
    """Ask as the kernel does: without waiting first, then, if need be, waiting."""
    try:
        return store.aborted_transactions(from_offset, to_offset)
    except WouldBlock:
        return store.aborted_transactions(from_offset, to_offset, wait=True)


def nested(count: int, step: int = 3) -> list[AbortedTransaction]:
    """Transactions with a marker at every `step`th offset, each open for ten offsets."""
    return [
        AbortedTransaction(index, max(last - 10, 0), last, max(last + step - 10, 0))
        for index, last in enumerate(range(step, count, step))
    ]


def overlapping(
    entries: Sequence[AbortedTransaction], from_offset: int, to_offset: int
) -> list[AbortedTransaction]:
    """Return the expected answer, found by a search of all transactions."""
    return [entry for entry in entries if entry.last_offset >= from_offset and entry.first_offset < to_offset]


@pytest.mark.trio
class Aborting:
    """Aborted transactions."""

    async def test_aborted_transactions_of_a_new_log_are_empty(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        append_many(store, 3)
        assert list(aborted_in(store, 0, 3)) == []
        assert store.aborted_known_until == 3

    async def test_aborted_transactions_returns_all_that_overlap_a_range(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 60, 100)
        assert len(store.segments()) > 5
        entries = nested(60)
        for entry in entries:
            store.add_aborted(entry)
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**SETTINGS)
            assert store.aborted_known_until == 60
            for first in range(61):
                for end in range(first + 1, 61):
                    assert list(aborted_in(store, first, end)) == overlapping(entries, first, end)

    async def test_add_aborted_ignores_a_known_transaction(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 20, 100)
        entries = nested(20)
        for entry in (*entries, *entries, entries[0]):
            store.add_aborted(entry)
        assert list(aborted_in(store, 0, 20)) == entries

    async def test_aborted_transactions_ends_where_nothing_can_follow(self, harness: StorageHarness) -> None:
        """What lies behind an entry with so high a last stable offset is not even looked at."""
        store = await harness.open_store()
        append_many(store, 30)
        entries = [AbortedTransaction(1, 2, 5, 6), AbortedTransaction(2, 7, 9, 10)]
        hidden = AbortedTransaction(3, 0, 20, 21)
        for entry in (*entries, hidden):
            store.add_aborted(entry)
        assert list(aborted_in(store, 0, 6)) == entries[:1]
        assert list(aborted_in(store, 0, 10)) == entries
        assert list(aborted_in(store, 0, 11)) == [*entries, hidden]

    @pytest.mark.parametrize("offset", [0, 1, 12, 13, 29, 30, 45, 60])
    async def test_truncate_to_removes_aborted_transactions_with_their_markers(
        self, harness: StorageHarness, offset: int
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 60, 100)
        entries = nested(60)
        for entry in entries:
            store.add_aborted(entry)
        store.truncate_to(offset)
        left = [entry for entry in entries if entry.last_offset < offset]
        assert list(aborted_in(store, 0, 60)) == left
        append_many(store, 20, 100)
        new = AbortedTransaction(99, offset, offset + 5, offset + 6)
        store.add_aborted(new)
        assert list(aborted_in(store, 0, 100)) == [*left, new]
        if harness.backend.durable:
            await harness.reopen()
            store = await harness.open_store(**SETTINGS)
            assert list(aborted_in(store, 0, 100)) == [*left, new]

    async def test_delete_segments_before_removes_their_aborted_transactions(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 60, 100)
        entries = nested(60)
        for entry in entries:
            store.add_aborted(entry)
        store.raise_log_start(33)
        store.delete_segments_before(33)
        first = store.segments()[0].base_offset
        assert list(aborted_in(store, 33, 60)) == overlapping(entries, 33, 60)
        assert list(aborted_in(store, 0, 60)) == [e for e in entries if e.last_offset >= first]

    async def test_aborted_transactions_of_a_large_number(self, harness: StorageHarness) -> None:
        choose = random.Random(7)
        store = await harness.open_store()
        append_many(store, 2000)
        entries = nested(2000, step=2)
        for entry in entries:
            store.add_aborted(entry)
        for _ in range(50):
            first = choose.randrange(2000)
            end = choose.randrange(first, 2000) + 1
            assert list(aborted_in(store, first, end)) == overlapping(entries, first, end)

    async def test_read_returns_its_end_offset(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        size = len(append_many(store, 40, 100)[0])
        for offset in range(40):
            for max_bytes in (1, 300, 10_000):
                for limit in (offset + 1, 40):
                    read_bytes(store, offset, max_bytes, limit)
                    found = store.read_batches(offset, max_bytes, limit, wait=True)
                    batches = -(-found.size // size)
                    assert offset + batches <= found.end_offset <= limit
